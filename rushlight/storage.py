"""Memory below tensors: with a type for its elements, and without."""

from __future__ import annotations

from rushlight.core.storage import UntypedStorage
from rushlight.legacy import TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(b):
    """The storage that a pickle of PyTorch's holds as a file of its own."""
    import io

    from rushlight.serialization import load

    return load(io.BytesIO(b), weights_only=False)
