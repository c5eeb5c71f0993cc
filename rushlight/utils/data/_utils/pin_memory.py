"""Batches in memory that a GPU copies from by itself."""

from rushlight.core.tensor import Tensor


def pin_memory(data, device=None):
    """A batch with the tensors in it pinned, whatever containers they are in.

    Args:
        data: a tensor, something with a method ``pin_memory``, or a container of such.
        device: what memory is pinned for.

    >>> pin_memory({"x": [1, "text"]})
    {'x': [1, 'text']}
    """
    if isinstance(data, Tensor):
        return data.pin_memory(device)
    if isinstance(data, (str, bytes)):
        return data
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, dict):
        pinned = {key: pin_memory(value, device) for key, value in data.items()}
        return pinned if type(data) is dict else type(data)(pinned)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value, device) for value in data))
    if isinstance(data, (list, tuple)):
        return type(data)(pin_memory(value, device) for value in data)
    return data
