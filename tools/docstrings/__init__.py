"""The examples in PyTorch's docstrings, run on both sides and compared."""
