"""Operators: order, selection, different rows."""
