"""Mutation testing of the modules that Python runs as they are written."""
