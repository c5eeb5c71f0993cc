"""Passes over graphs of one set of operators."""
