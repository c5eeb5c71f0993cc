"""Memory below tensors: with a type for its elements, and without."""

from rushlight._typed_storage import TypedStorage
from rushlight.core.storage import UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(b):
    """The storage that a pickle of PyTorch's holds as a file of its own."""
    import io

    from rushlight.serialization import load

    return load(io.BytesIO(b), weights_only=False)
