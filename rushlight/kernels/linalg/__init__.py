"""Factorizations of many tiny matrices at once."""
