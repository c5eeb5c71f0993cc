"""What makes programs of graphs, by PyTorch's names: our own compiler, or functions."""

from rushlight._dynamo.backends.registry import (
    find_backend,
    list_backends,
    lookup_backend,
    register_backend,
)

__all__ = ["find_backend", "list_backends", "lookup_backend", "register_backend"]
