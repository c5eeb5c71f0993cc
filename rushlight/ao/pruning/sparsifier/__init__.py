"""Masks by different rules."""
