"""Transforms of uniform numbers."""
