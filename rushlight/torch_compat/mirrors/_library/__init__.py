"""Operators of programs, under PyTorch's name for the place."""
