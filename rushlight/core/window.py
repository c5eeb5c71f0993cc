"""Windows on storages: sizes and strides that come from outside, and their checks."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.rushlight.core.dtype import DType
from cython.cimports.rushlight.core.geometry import refuse_window, span
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.state import notify_launchers, state
from cython.cimports.rushlight.core.storage import Storage, fetch, following
from cython.cimports.rushlight.core.tensor import MAX_DIMS, Tensor, blank, keys_for


@cython.cfunc
@cython.exceptval(-1, check=False)
def read_sizes(sizes: object, into: cython.pointer(int64_t)) -> cython.int:
    n: cython.int = len(sizes)
    i: cython.int
    if n > MAX_DIMS:
        raise RuntimeError(f"tensors have at most {MAX_DIMS} dimensions, not {n}")
    for i in range(n):
        try:
            into[i] = sizes[i]
        except OverflowError:
            raise TypeError(
                "sizes and strides are integers of 64 bits, but got "
                f"{sizes[i]} at position {i}: Overflow when unpacking long long"
            ) from None
    return n


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_negative(
    ndim: cython.int, strides: cython.pointer(cython.const[int64_t])
) -> cython.int:
    for i in range(ndim):
        if strides[i] < 0:
            raise RuntimeError(
                "as_strided: Negative strides are not supported at the moment, got "
                f"strides: {[strides[j] for j in range(ndim)]}"
            )
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_window(
    storage: Storage,
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
    offset: int64_t,
    itemsize: int64_t,
) -> cython.int:
    """Refuses a window of which some element lies outside of the storage."""
    n_bytes: int64_t = span(ndim, sizes, strides, offset, itemsize)
    if cython.cast(cython.size_t, n_bytes) > storage.n_bytes:
        refuse_window(ndim, sizes, strides, offset, itemsize, storage.n_bytes)
    return 0


def address_of(tensor: Tensor):
    """Where a tensor's elements are, for who launches something over them; 0 for none.

    Operators that wait run first, and nobody is told that an element is read.
    """
    if state().included & RECORDING:
        notify_launchers()
    if following:
        fetch(tensor.storage)
    tensor.storage.writes += 1  # whoever has the address may
    if not tensor.storage.device.has_memory or not tensor.numel_:
        return 0
    return cython.cast(uintptr_t, tensor.pointer())


def make_tensor(storage, sizes, strides, offset, dtype, requires_grad=False):
    """A tensor on ``storage``, checked to lie inside it.

    Raises:
        RuntimeError: an element would lie outside of the storage.
    """
    t: Tensor = blank()
    own: Storage = storage
    kind: DType = dtype
    new_sizes: int64_t[64]
    new_strides: int64_t[64]
    ndim: cython.int = read_sizes(sizes, new_sizes)
    if read_sizes(strides, new_strides) != ndim:
        raise RuntimeError(
            f"mismatch in length of strides and shape: {list(strides)}, {list(sizes)}"
        )
    refuse_negative(ndim, new_strides)
    check_window(own, ndim, new_sizes, new_strides, offset, kind.itemsize)
    t.storage = own
    t.dtype_ = kind
    t.keys = keys_for(own.device)
    t.inference = state().inference_mode
    t.set_geometry(ndim, new_sizes, new_strides, offset)
    if requires_grad:
        t.requires_grad = True
    return t
