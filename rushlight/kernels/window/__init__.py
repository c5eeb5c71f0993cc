"""Reductions of windows."""
