"""Operators: special functions."""
