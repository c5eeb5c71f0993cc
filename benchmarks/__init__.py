"""Rushlight and PyTorch side by side: the same calls, in turn, in one process."""
