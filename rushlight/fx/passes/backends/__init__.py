"""Graphs cut into what a backend takes and what it does not."""
