"""PyTorch's private module of what keeps functions from being followed."""

from rushlight._dynamo.decorators import _disable_dynamo

__all__ = ["_disable_dynamo"]
