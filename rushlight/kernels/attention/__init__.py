"""Attention by blocks: on the host by register tiles, on GPUs by tensor cores."""
