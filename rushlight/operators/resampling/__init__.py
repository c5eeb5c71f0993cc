"""Operators: grids and resampling."""
