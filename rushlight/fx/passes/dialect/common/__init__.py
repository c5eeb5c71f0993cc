"""Passes that need to know no operator."""
