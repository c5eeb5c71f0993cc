"""Passes over graphs of operators, by PyTorch's names."""
