"""Operators: one element at a time."""
