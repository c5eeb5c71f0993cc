"""Samples joined to a batch."""

import collections.abc
import copy
from collections.abc import Callable
from typing import Any

import rushlight as rl


def default_convert(data):
    """The sample with NumPy arrays as tensors, whatever it is made of.

    Mappings and sequences are converted inside; other values stay as they are.

    Args:
        data: the sample.

    >>> import numpy
    >>> default_convert({"x": numpy.ones(2), "name": "a"})
    {'x': tensor([1., 1.], dtype=rushlight.float64), 'name': 'a'}
    """
    kind = type(data)
    if isinstance(data, rl.Tensor):
        return data
    if kind.__module__ == "numpy" and kind.__name__ not in (
        "str_",
        "string_",
        "bytes_",
    ):
        is_text = kind.__name__ == "ndarray" and data.dtype.kind in "SU"
        return data if is_text else rl.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _mapping_like(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(
        data, (str, bytes)
    ):
        return _sequence_like(data, [default_convert(item) for item in data])
    return data


def collate(batch, *, collate_fn_map: dict | None = None):
    """A list of samples as one batch, by a table from a type to its function.

    Containers are transposed: a list of tuples becomes a list of batches.

    Raises:
        TypeError: no function is known for the samples' type.
        RuntimeError: the samples are sequences of different lengths.
    """
    first = batch[0]
    for kind, join in (collate_fn_map or {}).items():
        if isinstance(first, kind):
            return join(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        columns = {
            key: collate(
                [sample[key] for sample in batch], collate_fn_map=collate_fn_map
            )
            for key in first
        }
        return _mapping_like(first, columns)
    if isinstance(first, collections.abc.Sequence):
        return _collate_sequences(batch, collate_fn_map)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or "
        f"lists; found {type(first)}\n  pass collate_fn to say how these are joined"
    )


def _collate_sequences(batch, table):
    first = batch[0]
    lengths = sorted({len(sample) for sample in batch})
    if len(lengths) > 1:
        raise RuntimeError(
            "each element in list of batch should be of equal size\n"
            f"  their lengths are {lengths}; pass collate_fn to pad or pack them"
        )
    columns = [collate(column, collate_fn_map=table) for column in zip(*batch)]
    if isinstance(first, tuple):
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    return _sequence_like(first, columns)


def _mapping_like(original, items):
    """``items`` in a mapping of the original's type, where that type allows it."""
    try:
        if isinstance(original, collections.abc.MutableMapping):
            clone = copy.copy(original)
            clone.update(items)
            return clone
        return type(original)(items)
    except TypeError:
        return items


def _sequence_like(original, items):
    if type(original) is list or isinstance(original, range):
        return items
    try:
        if isinstance(original, collections.abc.MutableSequence):
            clone = copy.copy(original)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(original)(items)
    except TypeError:
        return items


class _NumpyKinds(type):
    """Matches NumPy's arrays and numbers by name, so that NumPy is not imported."""

    def __instancecheck__(cls, value):
        return type(value).__module__ == "numpy"


class _Numpy(metaclass=_NumpyKinds):
    pass


def _collate_numpy(batch, *, collate_fn_map=None):
    first = batch[0]
    if type(first).__name__ != "ndarray":
        return rl.as_tensor(list(batch))
    if first.dtype.kind in "SUO":
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts "
            f"or lists; found {first.dtype}"
        )
    return rl.stack([rl.as_tensor(item) for item in batch], 0)


def _collate_tensors(batch, *, collate_fn_map=None):
    if any(each.layout is not rl.strided for each in batch):
        raise RuntimeError(
            "Batches of sparse tensors are not currently supported by the default "
            "collate_fn; please provide a custom collate_fn to handle them appropriately."
        )
    return rl.stack(list(batch), 0)


def _collate_floats(batch, *, collate_fn_map=None):
    return rl.tensor(batch, dtype=rl.float64)


def _collate_numbers(batch, *, collate_fn_map=None):
    return rl.tensor(batch)


def _collate_text(batch, *, collate_fn_map=None):
    return batch


# In order: NumPy's float64 is a float, and a bool is an int.
default_collate_fn_map: dict[Any, Callable] = {
    rl.Tensor: _collate_tensors,
    _Numpy: _collate_numpy,
    float: _collate_floats,
    int: _collate_numbers,
    str: _collate_text,
    bytes: _collate_text,
}


def default_collate(batch):
    """A list of samples as one batch: tensors stacked, numbers made tensors.

    Args:
        batch: the samples.

    >>> default_collate([{"x": 0, "y": 1.5}, {"x": 2, "y": 2.5}])
    {'x': tensor([0, 2]), 'y': tensor([1.5000, 2.5000], dtype=rushlight.float64)}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
