"""Tensors of other types: windows under another class, and wrappers without memory."""

from __future__ import annotations

import cython
import cython.cimports.rushlight.core.slots as slots
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.rushlight.core._python import PyTypeObject, newfunc, p_object
from cython.cimports.rushlight.core.device import CPU_DEVICE, Device
from cython.cimports.rushlight.core.dtype import FLOATING, DType, default_dtype
from cython.cimports.rushlight.core.geometry import row_major, span
from cython.cimports.rushlight.core.keys import (
    DEFERRED,
    KEY_ABSENT,
    KEY_BATCHED,
    KEY_DECOMPOSE,
    KEY_PYTHON,
)
from cython.cimports.rushlight.core.slots import bound
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.storage import Storage, allocate
from cython.cimports.rushlight.core.tensor import (
    Tensor,
    counter_of,
    keys_for,
    view_replay_of,
)

from rushlight.core.layout import strided

_ONE = cython.declare(uint64_t, 1)
# type -> its version, and the keys that ``__torch_dispatch__`` or ``_dispatch_keys`` asks for
_HOOKED = cython.declare(dict, {})
_LISTENING = cython.declare(
    uint64_t,
    (cython.cast(uint64_t, 1) << KEY_PYTHON)
    | (cython.cast(uint64_t, 1) << KEY_DECOMPOSE),
)


@cython.cclass
class Absent(Storage):
    """In place of the bytes of a tensor that has none: a device, a layout, a length."""

    layout = cython.declare(object, visibility="public")
    inner = cython.declare(object, visibility="public")  # what a type keeps behind it
    length = cython.declare(cython.size_t)

    def nbytes(self):
        """The bytes that the elements would take."""
        return self.length

    def size(self):
        """The bytes that the elements would take."""
        return self.length

    def data_ptr(self):
        """There is no address."""
        raise RuntimeError(
            "Attempted to access the data pointer on an invalid python storage."
        )

    def __repr__(self):
        return f"<no memory, in place of {self.length} bytes on {self.device}>"


def absent_storage(n_bytes: cython.size_t, device: Device, layout=strided):
    """What stands where a tensor's memory would be.

    Args:
        n_bytes: how many bytes it would be.
        device: where it would be.
        layout: how elements would lie there.
    """
    storage: Absent = Absent.__new__(Absent)
    storage.device = device
    storage.layout = layout
    storage.length = n_bytes
    return storage


@cython.cfunc
@cython.exceptval(1, check=True)
def hooked(kind: object) -> uint64_t:
    """The keys of tensors of a type: of its ``__torch_dispatch__`` or ``_dispatch_keys``."""
    body: cython.pointer(PyTypeObject) = cython.cast(
        cython.pointer(PyTypeObject), cython.cast(p_object, kind)
    )
    row = _HOOKED.get(kind)
    known: uint64_t = 0 if row is None else row[1]
    if row is None or row[0] != body.tp_version_tag or row[0] == 0:
        if len(_HOOKED) > 4096:  # classes made in a loop do not stay for good
            _HOOKED.clear()
        hook = getattr(kind, "__torch_dispatch__", None)
        known = cython.cast(uint64_t, getattr(kind, "_dispatch_keys", 0))
        if hook is not None and not getattr(hook, "passes_by", False):
            own = getattr(kind, "sees_own_operators", False)
            known |= _ONE << KEY_PYTHON if own else _LISTENING
        _HOOKED[kind] = body.tp_version_tag, known
    return known


def has_dispatch(kind) -> bool:
    """Whether a type of tensors takes operators by ``__torch_dispatch__``."""
    return hooked(kind) != 0


@cython.cfunc
def window(kind: object, data: Tensor) -> Tensor:
    """Another window on the same memory, of another type, without history."""
    if not isinstance(kind, type) or not issubclass(kind, Tensor):
        raise TypeError(
            f"cls must be a type of tensors (got {getattr(kind, '__name__', kind)})"
        )
    t: Tensor = Tensor.__new__(kind)
    t.storage = data.storage
    t.dtype_ = data.dtype_
    t.keys = data.keys
    t.inference = data.inference
    if counter_of(data) is not None:
        t.own_extra().counter = data.extra.counter
    t.set_geometry(data.ndim_, data.sizes, data.strides, data.offset)
    if (t.keys >> KEY_BATCHED) & 1:  # of a transformation: it stands for the same
        t._stand = data._stand
    listening: uint64_t = hooked(kind)
    if listening:
        t.keys = (t.keys & ~_LISTENING) | listening
    elif not (t.keys >> KEY_ABSENT) & 1:
        t.keys &= ~_LISTENING
    return t


def make_subclass(
    kind,
    data: Tensor,
    require_grad=False,
    dispatch_strides=False,
    dispatch_device=False,
    device_for_backend_keys=None,
):
    """``data``'s window as an instance of ``kind``, a leaf.

    Args:
        kind: the type, derived from ``Tensor``.
        data: the elements.
        require_grad: whether gradients flow to it.
    """
    if (data.keys >> KEY_BATCHED) & 1:  # cut off at all transformations
        data = cython.cast(object, data).detach()
    t: Tensor = window(kind, data)
    if require_grad and t.dtype_.category < FLOATING:
        raise RuntimeError(
            "Only Tensors of floating point and complex dtype can require gradients"
        )
    t.wants_grad = require_grad
    return t


def become(kind, source: Tensor):
    """``source``, its history included, as an instance of ``kind``.

    Args:
        kind: the type, derived from ``Tensor``.
        source: a tensor that nobody else holds.
    """
    t: Tensor = window(kind, source)
    t.wants_grad = source.wants_grad
    t.wrapped_number = source.wrapped_number
    t.output_number = source.output_number
    t.grad_fn_ = source.grad_fn_
    t.base = source.base
    t.view_creation = source.view_creation
    t.view_version = source.view_version
    if view_replay_of(source) is not None:
        t.own_extra().view_replay = source.extra.view_replay
    kept = vars(cython.cast(object, source))
    if kept:
        vars(cython.cast(object, t)).update(kept)
    return t


def make_wrapper(
    kind,
    sizes: tuple,
    strides: object,
    offset: int64_t,
    dtype: DType,
    layout,
    device: Device,
    n_bytes: int64_t = -1,
):
    """A tensor of a type, with sizes and strides but no memory.

    Args:
        kind: the type; its ``__torch_dispatch__`` gets all operators.
        sizes: of the dimensions; ``strides`` too, None for row by row.
        offset: elements before the first one.
        dtype: of the elements; ``layout`` and ``device`` are what it says of itself.
        n_bytes: what its storage says it holds; -1 for what it spans.

    Raises:
        TypeError: the type has no ``__torch_dispatch__``.
    """
    shape: int64_t[64]
    steps: int64_t[64]
    d: cython.int
    ndim: cython.int = len(sizes)
    if not hooked(kind):
        raise TypeError(f"{kind.__name__} must define __torch_dispatch__")
    if ndim > 64:
        raise RuntimeError(f"tensors have at most 64 dimensions, not {ndim}")
    for d in range(ndim):
        shape[d] = sizes[d]
    if strides is None:
        row_major(ndim, shape, steps)
    else:
        for d in range(ndim):
            steps[d] = strides[d]
    if n_bytes < 0:
        n_bytes = span(ndim, shape, steps, offset, dtype.itemsize)
    t: Tensor = Tensor.__new__(kind)
    t.storage = absent_storage(n_bytes, device, layout)
    t.dtype_ = dtype
    t.keys = keys_for(device) | hooked(kind) | (_ONE << KEY_ABSENT)
    t.inference = state().inference_mode
    t.set_geometry(ndim, shape, steps, offset)
    return t


def share_storage(target: Tensor, source: Tensor):
    """Makes two tensors without memory relatives, as a view and its base are."""
    target.storage = source.storage
    return target


def fake_storage(t: Tensor):
    """What stands for the memory of a tensor that has none.

    Raises:
        TypeError: the tensor has memory.
    """
    if not isinstance(t.storage, Absent):
        raise TypeError("the tensor has memory of its own")
    return t.storage


def take_storage(t: Tensor, storage: Absent):
    """Gives a tensor without memory another one's place in memory."""
    t.storage = storage
    return t


def take_deferred(target: Tensor, source: Tensor):
    """Has a tensor put off its conjugate, or negative, if another one does."""
    target.keys = (target.keys & ~DEFERRED) | (source.keys & DEFERRED)
    return target


def take_geometry(target: Tensor, source: Tensor):
    """Gives a tensor without memory another's sizes and strides."""
    target.dtype_ = source.dtype_
    target.set_geometry(source.ndim_, source.sizes, source.strides, source.offset)
    return target


def dispatched(t: Tensor) -> bool:
    """Whether a tensor's calls go to ``__torch_dispatch__``."""
    return (t.keys >> KEY_PYTHON) & 1


def is_absent(t: Tensor) -> bool:
    """Whether a tensor has no memory of its own."""
    return (t.keys >> KEY_ABSENT) & 1


_make_empty = cython.declare(newfunc)
_NOTHING = cython.declare(tuple, ())


@cython.cfunc
def make_filled(
    kind: cython.pointer(PyTypeObject), args: p_object, kwargs: p_object
) -> object:
    """A tensor of what ``Tensor.__new__(kind, …)`` is given; an empty one of nothing.

    Classes of users fill their tensors in ``__new__``, and have an ``__init__`` of their own.
    """
    nothing: p_object = cython.cast(p_object, _NOTHING)
    if args == nothing and kwargs == cython.NULL:
        empty: object = _make_empty(kind, nothing, cython.NULL)
        if type(empty) is not Tensor:  # a program may go on with it
            cython.cast(Tensor, empty).storage = allocate(0, CPU_DEVICE)
            cython.cast(Tensor, empty).dtype_ = default_dtype()
        return empty
    named: object = {} if kwargs == cython.NULL else cython.cast(object, kwargs)
    made: object = cython.cast(object, cython.cast(p_object, kind))
    return bound(slots.SLOT_LEGACY)(made, *cython.cast(object, args), **named)


def _fill_new():
    """Has ``Tensor.__new__`` take what the tensor is made of."""
    global _make_empty
    kind: object = Tensor
    body: cython.pointer(PyTypeObject) = cython.cast(
        cython.pointer(PyTypeObject), cython.cast(p_object, kind)
    )
    _make_empty = body.tp_new
    body.tp_new = make_filled


_fill_new()
