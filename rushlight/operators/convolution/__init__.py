"""Operators: convolutions."""
