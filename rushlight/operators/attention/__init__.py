"""Operators: attention."""
