"""Operators: windows."""
