"""Operators: running sums and products."""
