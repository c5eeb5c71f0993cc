"""Quantization of programs as graphs: patterns, observers between nodes, conversion."""
