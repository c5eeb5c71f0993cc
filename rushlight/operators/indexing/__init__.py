"""Operators: reading and writing at positions."""
