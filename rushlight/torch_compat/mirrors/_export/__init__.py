"""Checks of exported programs, under PyTorch's name for the place."""
