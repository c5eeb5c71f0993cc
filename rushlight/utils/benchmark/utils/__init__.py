"""Measurements, tables of them, and random arguments."""
