"""Optimisations of finished models."""
