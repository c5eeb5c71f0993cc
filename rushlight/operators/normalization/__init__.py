"""Operators: norms and softmax over rows."""
