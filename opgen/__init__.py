"""Turns the operator declarations into tables, derivatives, stubs, pages and tests."""
