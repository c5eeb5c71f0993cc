"""Passes and tracers that may change."""
