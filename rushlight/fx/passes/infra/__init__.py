"""Passes as objects, and lists of them."""
