"""Operators: views, copies, joins, padding."""
