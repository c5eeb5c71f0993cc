"""Recorded spans as events, tables and traces, below both of PyTorch's profilers."""
