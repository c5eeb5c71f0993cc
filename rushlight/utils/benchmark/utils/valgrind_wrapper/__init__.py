"""Counts of instructions, by Valgrind's Callgrind."""
