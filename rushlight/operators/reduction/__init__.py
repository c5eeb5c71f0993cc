"""Operators: dimensions reduced to one value."""
