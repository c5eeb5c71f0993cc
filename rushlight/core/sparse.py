"""Tensors without dense memory: sizes, and parts that say what the elements are.

What stands in place of the bytes holds the parts: coordinates and values of a sparse
tensor, integers and scales of a quantized one. Operators find such tensors by a dispatch
key of their own; nothing reads their memory, for there is none.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.rushlight.core.device import Device
from cython.cimports.rushlight.core.dtype import DType
from cython.cimports.rushlight.core.geometry import row_major
from cython.cimports.rushlight.core.keys import (
    KEY_ABSENT,
    KEY_ADINPLACEORVIEW,
    KEY_AUTOGRAD,
)
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.storage import Storage
from cython.cimports.rushlight.core.tensor import Tensor, blank

_ONE = cython.declare(uint64_t, 1)


@cython.cclass
class Parts(Storage):
    """In place of the bytes of a tensor that has none: its layout and its parts."""

    layout = cython.declare(object, visibility="public")
    parts = cython.declare(object, visibility="public")

    def item(self, tensor):
        """The one element of a tensor of these parts."""
        if tensor.is_quantized:
            return tensor.dequantize().item()
        if tensor.is_sparse and not self.parts.values.shape[0]:
            return 0  # an integer, whatever the type
        return tensor.to_dense().item()

    def __repr__(self):
        return f"<no memory, but parts of a tensor of {self.layout}>"


@cython.cfunc
def place(t: Tensor, size: list):
    """Gives a tensor sizes, and the strides of rows that nobody reads."""
    sizes: int64_t[64]
    strides: int64_t[64]
    d: cython.int
    ndim: cython.int = len(size)
    if ndim > 64:
        raise RuntimeError(f"tensors have at most 64 dimensions, not {ndim}")
    for d in range(ndim):
        sizes[d] = size[d]
    row_major(ndim, sizes, strides)
    t.set_geometry(ndim, sizes, strides, 0)


def make(
    key: cython.int,
    size: list,
    dtype: DType,
    device: Device,
    layout,
    parts,
    laid: Tensor = None,
):
    """A tensor of parts.

    Args:
        key: the dispatch key by which operators know it.
        size: of its dimensions.
        dtype: of its elements.
        layout: what it says of itself.
        parts: what it is made of.
        laid: the dense tensor whose strides it has; None for those of rows.
    """
    storage: Parts = Parts.__new__(Parts)
    storage.device = device
    storage.layout = layout
    storage.parts = parts
    storage.can_resize = False
    t: Tensor = blank()
    t.storage = storage
    t.dtype_ = dtype
    t.keys = (_ONE << key) | (_ONE << KEY_ABSENT)
    if not state().inference_mode:
        t.keys |= (_ONE << KEY_AUTOGRAD) | (_ONE << KEY_ADINPLACEORVIEW)
    t.inference = state().inference_mode
    if laid is None:
        place(t, size)
    else:
        t.set_geometry(laid.ndim_, laid.sizes, laid.strides, laid.offset)
    return t


def parts_of(t: Tensor):
    """What a tensor is made of; None for one in dense memory."""
    if not (t.keys >> KEY_ABSENT) & 1 or not isinstance(t.storage, Parts):
        return None
    return cython.cast(Parts, t.storage).parts


def put(t: Tensor, size: list, parts):
    """Gives a tensor other parts, and other sizes, in place."""
    cython.cast(Parts, t.storage).parts = parts
    place(t, size)
    return t


def layout_of(t: Tensor, otherwise):
    """A tensor's layout; ``otherwise`` for one in dense memory."""
    if not (t.keys >> KEY_ABSENT) & 1 or not isinstance(t.storage, Parts):
        return otherwise
    return cython.cast(Parts, t.storage).layout
