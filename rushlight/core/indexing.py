"""``x[index]`` and ``x[index] = value``: Python's index expressions as operator calls."""

from __future__ import annotations

import cython
from cython.cimports.rushlight.core.overlap import refuse_internal_overlap
from cython.cimports.rushlight.core.tensor import Tensor

_SELECT = cython.declare(object, None)
_SLICE = cython.declare(object, None)
_UNSQUEEZE = cython.declare(object, None)
_ALIAS = cython.declare(object, None)
_INDEX = cython.declare(object, None)
_INDEX_PUT = cython.declare(object, None)
_COPY = cython.declare(object, None)
_FILL = cython.declare(object, None)
_AS_TENSOR = cython.declare(object, None)


def bind_operators(
    select, slice_, unsqueeze, alias, index, index_put_, copy_, fill_, tensor
):
    """Name the operators that index expressions turn into."""
    global \
        _SELECT, \
        _SLICE, \
        _UNSQUEEZE, \
        _ALIAS, \
        _INDEX, \
        _INDEX_PUT, \
        _COPY, \
        _FILL, \
        _AS_TENSOR
    _SELECT, _SLICE, _UNSQUEEZE, _ALIAS = select, slice_, unsqueeze, alias
    _INDEX, _INDEX_PUT, _COPY, _FILL = index, index_put_, copy_, fill_
    _AS_TENSOR = tensor


@cython.cfunc
@cython.exceptval(-1, check=False)
def consumed(item: object) -> cython.int:
    """How many dimensions of the tensor an index item stands for."""
    if item is None or item is Ellipsis or item is True or item is False:
        return 0
    if isinstance(item, Tensor):
        t: Tensor = item
        if t.dtype_.code == 11 or t.dtype_.code == 0:
            return t.ndim_
    return 1


@cython.cfunc
def as_index_tensor(item: object) -> object:
    """A sequence, array or foreign scalar as an index tensor."""
    if isinstance(item, Tensor):
        t: Tensor = item
        if t.dtype_.category > 1:
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors, not "
                f"{t.dtype_!r}"
            )
        return item
    if isinstance(item, (str, float)):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte tensors "
            f"are valid indices (got {type(item).__name__})"
        )
    made: Tensor = _AS_TENSOR(item)
    if made.numel_ == 0 and made.dtype_.category > 1:
        return made.long()
    if made.dtype_.category > 1:
        raise IndexError(
            "tensors used as indices must be long, int, byte or bool tensors, not "
            f"{made.dtype_!r}"
        )
    return made


@cython.cfunc
def is_plain_list(index: object) -> cython.bint:
    """Whether a list stands for one index tensor (and not for a tuple of items)."""
    for item in index:
        if isinstance(item, (slice, Tensor)) or item is None or item is Ellipsis:
            return False
        if isinstance(item, (list, tuple)):
            return True
    return True


@cython.cfunc
def apply_basic(self: Tensor, items: tuple, indices: list) -> object:
    """Select, slice and widen; index tensors are collected by dimension."""
    result: object = self
    dim: cython.int = 0
    total: cython.int = 0
    ellipses: cython.int = 0
    for item in items:
        total += consumed(item)
        if item is Ellipsis:
            ellipses += 1
    if total > self.ndim_:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim_}")
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    for item in items:
        if type(item) is int:
            result = _SELECT(result, dim, item)
        elif isinstance(item, slice):
            if not (item.start is None and item.stop is None and item.step is None):
                result = take_slice(result, dim, item)
            dim += 1
        elif item is None:
            result = _UNSQUEEZE(result, dim)
            dim += 1
        elif item is Ellipsis:
            dim += self.ndim_ - total
        elif item is True or item is False:
            result = _UNSQUEEZE(result, dim)
            note_index(indices, dim, _AS_TENSOR([item]))
            dim += 1
        else:
            result, dim = apply_tensor(result, dim, item, indices)
    return result


@cython.cfunc
def apply_tensor(result: object, dim: cython.int, item: object, indices: list) -> tuple:
    """An index tensor, or what can become one."""
    if not isinstance(item, (Tensor, list, tuple, range)) and hasattr(
        item, "__index__"
    ):
        if not hasattr(item, "ndim") or item.ndim == 0:
            return (_SELECT(result, dim, item.__index__()), dim)
    index: Tensor = as_index_tensor(item)
    if index.ndim_ == 0 and index.dtype_.category == 1 and index.dtype_.code != 0:
        return (_SELECT(result, dim, int(index.item())), dim)
    if index.ndim_ == 0:
        result = _UNSQUEEZE(result, dim)
        note_index(indices, dim, index.bool().reshape(1))
        return (result, dim + 1)
    note_index(indices, dim, index)
    if index.dtype_.code == 11 or index.dtype_.code == 0:
        return (result, dim + index.ndim_)
    return (result, dim + 1)


@cython.cfunc
def note_index(indices: list, dim: cython.int, index: object):
    while len(indices) < dim:
        indices.append(None)
    indices.append(index)
    extra: cython.int = 0
    t: Tensor = index
    if t.dtype_.code == 11 or t.dtype_.code == 0:
        extra = t.ndim_ - 1
    # a mask stands for as many dimensions as it has; `index` expands it itself
    for _ in range(extra):
        indices.append(Ellipsis)


@cython.cfunc
def take_slice(result: object, dim: cython.int, item: slice) -> object:
    step = 1 if item.step is None else item.step.__index__()
    if step <= 0:
        raise ValueError("step must be greater than zero")
    start = None if item.start is None else item.start.__index__()
    stop = None if item.stop is None else item.stop.__index__()
    return _SLICE(result, dim, start, stop, step)


@cython.cfunc
def as_items(index: object) -> tuple:
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and not is_plain_list(index):
        return tuple(index)
    return (index,)


def getitem(self: Tensor, index):
    """``self[index]``: a view for basic indices, a copy for index tensors."""
    if type(index) is int:
        if self.ndim_ == 0:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to "
                "convert a 0-dim tensor to a number"
            )
        return _SELECT(self, 0, index)
    if isinstance(index, Tensor) and self.ndim_ > 0:
        places: Tensor = index
        if places.dtype_.code == 4 and places.ndim_ > 0:
            return _INDEX(self, (index,))
    indices: list = []
    result = apply_basic(self, as_items(index), indices)
    if indices:
        return _INDEX(result, [i for i in indices if i is not Ellipsis])
    return _ALIAS(self) if result is self else result


@cython.cfunc
def fit_value(value: Tensor, target: Tensor) -> object:
    """Leading dimensions of size one that the target lacks, taken off."""
    extra: cython.int = value.ndim_ - target.ndim_
    if extra <= 0:
        return value
    for i in range(extra):
        if value.sizes[i] != 1:
            return value
    return value.reshape([value.sizes[i] for i in range(extra, value.ndim_)])


@cython.cfunc
@cython.exceptval(-1, check=False)
def fills(self: Tensor, indices: list, value: object) -> cython.bint:
    """Whether a mask as large as the tensor takes a number of the tensor's kind."""
    mask: Tensor = indices[0]
    d: cython.int
    if mask is None or mask.dtype_.code != 11 or mask.ndim_ != self.ndim_:
        return False
    if not (
        isinstance(value, int) or type(value) is float and self.dtype_.category == 2
    ):
        return False
    for d in range(mask.ndim_):
        if mask.sizes[d] != self.sizes[d]:
            return False
    for item in indices[1:]:
        if item is not Ellipsis:
            return False
    return mask.storage.device is self.storage.device and self.ndim_ > 0


def setitem(self: Tensor, index, value):
    """``self[index] = value``, broadcast to the indexed part."""
    indices: list = []
    target: object
    number: cython.bint = isinstance(value, (int, float, complex))
    if not number and not isinstance(value, Tensor):
        if not hasattr(value, "__len__") and not hasattr(value, "__array__"):
            raise TypeError(
                f"can't assign a {type(value).__name__} to a {self.dtype_!r} tensor"
            )
        value = _AS_TENSOR(value, dtype=self.dtype_)
    target = apply_basic(self, as_items(index), indices)
    if indices:
        if number and fills(self, indices, value):
            self.masked_fill_(indices[0], value)
            return
        if number:
            value = _AS_TENSOR(value, dtype=self.dtype_)
        _INDEX_PUT(target, [i for i in indices if i is not Ellipsis], value)
    elif number:
        refuse_internal_overlap(target)
        _FILL(target, value)
    else:
        value = fit_value(value, target)
        if cython.cast(Tensor, value).storage is cython.cast(Tensor, target).storage:
            value = value.expand(target.shape)  # repeated parts may be read again
        _COPY(target, value)


def iterate(self: Tensor):
    """One view for each index of the first dimension."""
    if self.ndim_ == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def contains(self: Tensor, element):
    """Whether some element equals ``element``."""
    if isinstance(element, (Tensor, int, float, bool, complex)):
        return bool((self == element).any().item())
    raise RuntimeError(
        "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
        f"{type(element)}."
    )
