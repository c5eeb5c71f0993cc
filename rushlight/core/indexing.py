"""``x[index]`` and ``x[index] = value``: Python's index expressions as operator calls."""

from __future__ import annotations

import operator

import cython
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.rushlight.core.dtype import (
    CODE_BOOL,
    CODE_INT64,
    CODE_UINT8,
    FLOATING,
    INTEGER,
    dtype_of,
)
from cython.cimports.rushlight.core.elements import largest
from cython.cimports.rushlight.core.keys import KEY_BATCHED, KEY_PREDISPATCH
from cython.cimports.rushlight.core.overlap import (
    refuse_internal_overlap,
    repeats_elements,
)
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.tensor import Tensor

from rushlight.core.warning import warn

_SELECT = cython.declare(object, None)
_SLICE = cython.declare(object, None)
_UNSQUEEZE = cython.declare(object, None)
_ALIAS = cython.declare(object, None)
_INDEX = cython.declare(object, None)
_INDEX_PUT = cython.declare(object, None)
_COPY = cython.declare(object, None)
_FILL = cython.declare(object, None)
_AS_TENSOR = cython.declare(object, None)
_FULL = cython.declare(object, None)
LARGEST = cython.declare(object, 2**63 - 1)
_RECORDED = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_PREDISPATCH)


def bind_operators(
    select, slice_, unsqueeze, alias, index, index_put_, copy_, fill_, tensor, full
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
        _AS_TENSOR, \
        _FULL
    _SELECT, _SLICE, _UNSQUEEZE, _ALIAS = select, slice_, unsqueeze, alias
    _INDEX, _INDEX_PUT, _COPY, _FILL = index, index_put_, copy_, fill_
    _AS_TENSOR, _FULL = tensor, full


@cython.cfunc
@cython.exceptval(-1, check=False)
def consumed(item: object) -> cython.int:
    """How many dimensions of the tensor an index item stands for."""
    if item is None or item is Ellipsis or item is True or item is False:
        return 0
    if isinstance(item, Tensor):
        t: Tensor = item
        if t.dtype_.code == CODE_BOOL or t.dtype_.code == CODE_UINT8:
            return t.ndim_
    return 1


@cython.cfunc
def as_index_tensor(item: object) -> object:
    """A sequence, array or foreign scalar as an index tensor."""
    if isinstance(item, Tensor):
        t: Tensor = item
        if t.dtype_.category > INTEGER:
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors, not "
                f"{t.dtype_!r}"
            )
        return item
    if isinstance(item, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
    if not hasattr(item, "__len__") or not hasattr(item, "__getitem__"):
        refuse_item(item)
    if isinstance(item, dict):
        refuse_item(item)
    made: Tensor = _AS_TENSOR(item)
    if (
        made.dtype_.code == CODE_BOOL
        or made.dtype_.code == CODE_UINT8
        or made.dtype_.code == CODE_INT64
    ):
        return made
    if made.dtype_.category > INTEGER and isinstance(item, (list, tuple)):
        return _AS_TENSOR(item, dtype=dtype_of(CODE_INT64))  # or what cannot be one
    return made.long()


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_item(item: object) -> cython.int:
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables "
        f"are valid indices (got {type(item).__name__})"
    )


@cython.cfunc
def stands_for_tuple(index: object) -> cython.bint:
    """Whether a sequence is a tuple of items (and not one index tensor)."""
    if isinstance(index, str):  # of characters, which are sequences, too
        return 0 < len(index) < 32
    if isinstance(index, (bytes, dict)) or not hasattr(index, "__getitem__"):
        return False
    if hasattr(index, "dtype") or not hasattr(index, "__len__") or len(index) >= 32:
        return False
    for item in index:
        if isinstance(item, (slice, Tensor)) or item is None or item is Ellipsis:
            return True
        if hasattr(item, "__len__") and not isinstance(item, (str, bytes)):
            return True
    return False


@cython.cfunc
def apply_basic(self: Tensor, items: tuple, indices: list) -> object:
    """Select, slice and widen; index tensors are collected by dimension."""
    result: object = self
    dim: cython.int = 0
    total: cython.int = 0
    if self.ndim_ == 0 and len(items) == 1 and isinstance(items[0], slice):
        return take_slice(
            self, 0, items[0]
        )  # refused, but for its graph's reasons first
    for item in items:
        total += consumed(item)
    if total > self.ndim_:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim_}")
    for at, item in enumerate(items):
        if type(item) is int:
            result = take_one(result, dim, item, at)
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
            note_index(indices, dim, yes_or_no(item))
            dim += 1
        else:
            result, dim = apply_tensor(result, dim, item, indices, at)
    return result


@cython.cfunc
def take_one(result: object, dim: cython.int, item: object, at: cython.int) -> object:
    """One index of a dimension; a refusal names the item's position in the index."""
    index = whole(item)
    try:
        return _SELECT(result, dim, index)
    except IndexError as refusal:
        if "out of range for tensor of size" not in str(refusal):
            raise
        size = result.shape[dim]
    raise IndexError(
        f"index {index} is out of bounds for dimension {at} with size {size}"
    )


@cython.cfunc
def apply_tensor(
    result: object, dim: cython.int, item: object, indices: list, at: cython.int
) -> tuple:
    """An index tensor, or what can become one; ``at``: its position in the index."""
    if not isinstance(item, (Tensor, list, tuple, range)) and hasattr(
        item, "__index__"
    ):
        if not hasattr(item, "ndim") or (item.ndim == 0 and item.dtype.kind != "b"):
            return (take_one(result, dim, item, at), dim)
    index: Tensor = as_index_tensor(item)
    if (
        index.ndim_ == 0
        and index.dtype_.category == INTEGER
        and index.dtype_.code != CODE_UINT8
    ):
        if (index.keys >> KEY_BATCHED) & 1:  # another place for each example
            note_index(indices, dim, index)
            return (result, dim + 1)
        return (take_one(result, dim, int(index.item()), at), dim)
    if index.ndim_ == 0:
        result = _UNSQUEEZE(result, dim)
        note_index(indices, dim, yes_or_no(index.bool().item()))
        return (result, dim + 1)
    note_index(indices, dim, index)
    if index.dtype_.code == CODE_BOOL or index.dtype_.code == CODE_UINT8:
        return (result, dim + index.ndim_)
    return (result, dim + 1)


@cython.cfunc
def yes_or_no(chosen: object) -> object:
    """The index into a dimension of size one that keeps or drops it."""
    return _AS_TENSOR([0] if chosen else [], dtype=dtype_of(4))


@cython.cfunc
def note_index(indices: list, dim: cython.int, index: object):
    while len(indices) < dim:
        indices.append(None)
    indices.append(index)
    extra: cython.int = 0
    t: Tensor = index
    if t.dtype_.code == CODE_BOOL or t.dtype_.code == CODE_UINT8:
        extra = t.ndim_ - 1
    # a mask stands for as many dimensions as it has; `index` expands it itself
    for _ in range(extra):
        indices.append(Ellipsis)


@cython.cfunc
def take_slice(result: object, dim: cython.int, item: slice) -> object:
    step = 1 if item.step is None else bound(item.step)
    if step <= 0:
        raise ValueError("step must be greater than zero")
    start = None if item.start is None else bound(item.start)
    stop = None if item.stop is None else bound(item.stop)
    return _SLICE(result, dim, start, stop, step)


@cython.cfunc
def bound(item: object) -> object:
    """A limit of a slice, held to what 64 bits count to."""
    if not isinstance(item, int) and not hasattr(item, "__index__"):
        raise TypeError(
            "slice indices must be integers or None or have an __index__ method, not "
            f"{type(item).__name__}"
        )
    number = item if isinstance(item, int) else operator.index(item)
    return max(-LARGEST, min(number, LARGEST))


@cython.cfunc
def whole(item: object) -> object:
    """An integer of 64 bits."""
    number = item if isinstance(item, int) else operator.index(item)
    if not -LARGEST - 1 <= number <= LARGEST:
        raise ValueError(f"Overflow when unpacking long long: {number}")
    return number


@cython.cfunc
def as_items(index: object) -> tuple:
    if isinstance(index, tuple):
        return index
    if isinstance(index, (int, slice, Tensor)) or not stands_for_tuple(index):
        return (index,)
    warn(
        "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
        "x[tuple(seq)] instead of x[seq]"
    )
    return tuple(index)


def getitem(self: Tensor, index):
    """``self[index]``: a view for basic indices, a copy for index tensors."""
    if type(index) is int:
        if self.ndim_ == 0:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to "
                "convert a 0-dim tensor to a number"
            )
        return take_one(self, 0, index, 0)
    if isinstance(index, Tensor) and self.ndim_ > 0:
        positions: Tensor = index
        if positions.dtype_.code == CODE_INT64 and positions.ndim_ > 0:
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
def is_number(value: object, self: Tensor) -> cython.int:
    """1 for a number that may be assigned, 0 for a tensor.

    Raises:
        TypeError: it is neither.
        ValueError: an integer has more than 64 bits.
    """
    if isinstance(value, Tensor):
        return 0
    if isinstance(value, int):
        whole(value)
        return 1
    if isinstance(value, (float, complex)):
        return 1
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind in ("i", "u") and not hasattr(value, "__len__"):
        if not hasattr(type(value), "tolist") or type(value).__name__ != "ndarray":
            return 1
    raise TypeError(
        f"can't assign a {type(value).__name__} to a {self.type()}\n"
        f"  self: {self.dtype_.name}{list(self.shape)}\n"
        "  remedy: make a tensor of it with tensor(...)"
    )


@cython.cfunc
@cython.exceptval(-1, check=False)
def fills(self: Tensor, indices: list) -> cython.bint:
    """Whether the index is one mask as large as the tensor, on its device."""
    mask: Tensor = indices[0]
    d: cython.int
    if mask is None or mask.dtype_.code != CODE_BOOL or mask.ndim_ != self.ndim_:
        return False
    for d in range(mask.ndim_):
        if mask.sizes[d] != self.sizes[d]:
            return False
    for item in indices[1:]:
        if item is not Ellipsis:
            return False
    return mask.storage.device is self.storage.device and self.ndim_ > 0


@cython.cfunc
def element_of(self: Tensor, value: object) -> object:
    """A number as an element of a half is it: what is too large is infinite."""
    if self.dtype_.category != FLOATING or isinstance(value, complex):
        return value
    if abs(float(value)) <= largest(self.dtype_.code):
        return value
    return _FULL((), value, dtype=self.dtype_).item()


def setitem(self: Tensor, index, value):
    """``self[index] = value``, broadcast to the indexed part."""
    indices: list = []
    target: object
    number: cython.bint = is_number(value, self)
    recorded: cython.bint = (state().included & _RECORDED) != 0
    if number and recorded and isinstance(value, (int, float, complex)):
        # a program that is written down has numbers as constants
        value, number = _AS_TENSOR(value, dtype=self.dtype_), False
    if number and (index is False or type(value) is complex):
        # It is converted before any index is looked at, and if nobody sees it.
        _FULL((), value, dtype=self.dtype_, device=self.storage.device)
    if index is False:
        return
    if number and self.dtype_.itemsize == 2:
        value = element_of(self, value)
    if index is True:
        index = None
    target = apply_basic(self, as_items(index), indices)
    if indices:
        if number:
            if not isinstance(value, (int, float, complex)):
                value = value.item()
            if (
                fills(self, indices)
                and type(value) is not complex
                and not repeats_elements(self)
            ):
                self.masked_fill_(indices[0], value)
                return
            value = _FULL((), value, dtype=self.dtype_, device=self.storage.device)
        elif (
            cython.cast(Tensor, value).ndim_
            and cython.cast(Tensor, value).sizes[0] == 1
        ):
            value = without_ones(value)
        _INDEX_PUT(target, [i for i in indices if i is not Ellipsis], value)
    elif number:
        refuse_internal_overlap(target)
        _FILL(target, value)
    elif (
        recorded
        and cython.cast(Tensor, target).ndim_
        and not cython.cast(Tensor, value).ndim_
    ):
        _FILL(target, value)
    else:
        value = fit_value(value, target)
        if cython.cast(Tensor, value).storage is cython.cast(Tensor, target).storage:
            value = value.expand(target.shape)  # repeated parts may be read again
        _COPY(target, value)


@cython.cfunc
def without_ones(value: Tensor) -> object:
    """Leading dimensions of size one taken off."""
    lead: cython.int = 0
    while lead < value.ndim_ and value.sizes[lead] == 1:
        lead += 1
    return value.reshape([value.sizes[i] for i in range(lead, value.ndim_)])


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
