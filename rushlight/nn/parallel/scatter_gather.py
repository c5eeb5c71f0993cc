"""Batches in parts, one for each device, and back."""

import rushlight as rl
from rushlight.core.tensor import Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _is_namedtuple(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")


def scatter(inputs, target_gpus, dim=0):
    """Split the tensors of a nest, one part for each device.

    Args:
        inputs: tensors in tuples, lists and dicts; what is no tensor goes to all.
        target_gpus: the devices.
        dim: the dimension that is split.

    Returns:
        A nest for each device; a tuple of tensors for a tensor.

    >>> [part.tolist() for part in scatter(rl.arange(3), ["cpu", "cpu"])]
    [[0, 1], [2]]
    """
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(len(target_gpus), dim)
        return tuple(part.to(device) for part, device in zip(parts, target_gpus))

    def split(values):
        return zip(*(scatter(each, target_gpus, dim) for each in values))

    if _is_namedtuple(inputs):
        return [type(inputs)(*part) for part in split(inputs)]
    if isinstance(inputs, tuple) and inputs:
        return list(split(inputs))
    if isinstance(inputs, list) and inputs:
        return [list(part) for part in split(inputs)]
    if isinstance(inputs, dict) and inputs:
        return [type(inputs)(part) for part in split(inputs.items())]
    return [inputs for _ in target_gpus]


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """Split arguments and keyword arguments: as many of the one as of the other.

    Args:
        inputs: a tuple of arguments.
        kwargs: a dict of keyword arguments, or None.
        target_gpus: the devices.
        dim: the dimension that is split.
    """
    args = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    args += [()] * (len(named) - len(args))
    named += [{} for _ in range(len(args) - len(named))]
    return tuple(args), tuple(named)


def gather(outputs, target_device, dim=0):
    """Join nests of tensors to one, on one device.

    Args:
        outputs: a nest from each device.
        target_device: where the joined tensors go.
        dim: the dimension along which they are joined.

    Raises:
        ValueError: dicts differ in their number of keys.

    >>> gather([rl.tensor([1]), rl.tensor([2, 3])], "cpu")
    tensor([1, 2, 3])
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        if all(each.dim() == 0 for each in outputs) and dim == 0:
            outputs = [each.unsqueeze(0) for each in outputs]
        return rl.cat([each.to(target_device) for each in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(each) != len(first) for each in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)(
            (key, gather([each[key] for each in outputs], target_device, dim))
            for key in first
        )
    joined = (gather(part, target_device, dim) for part in zip(*outputs))
    return type(first)(*joined) if _is_namedtuple(first) else type(first)(joined)
