"""Algorithms over the ranks: uneven inputs, communication hooks."""
