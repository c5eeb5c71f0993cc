"""Helpers for tests that programs import from here."""
