"""Which windows on memory may be written: one test for all that writes in place.

Memory is compared by byte ranges, and only between dense windows: strided windows on
one storage may interleave without touching, so they pass.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.geometry import is_dense, overlaps_itself
from cython.cimports.rushlight.core.tensor import Tensor

DISJOINT = cython.declare(cython.int, 0)  # no byte in common, or nobody knows
SAME = cython.declare(cython.int, 1)  # the same elements in the same order
PARTIAL = cython.declare(cython.int, 2)  # some bytes in common


@cython.cfunc
@cython.exceptval(check=False)
def relation(out: Tensor, other: Tensor) -> cython.int:
    """How two windows on one storage lie to each other."""
    d: cython.int
    if out is other:
        return SAME
    if out.numel_ == 0 or other.numel_ == 0:
        return DISJOINT
    if not (out.row_major or is_dense(out.ndim_, out.sizes, out.strides)):
        return DISJOINT
    if not (other.row_major or is_dense(other.ndim_, other.sizes, other.strides)):
        return DISJOINT
    start: int64_t = out.offset * out.dtype_.itemsize
    end: int64_t = start + out.numel_ * out.dtype_.itemsize
    their_start: int64_t = other.offset * other.dtype_.itemsize
    their_end: int64_t = their_start + other.numel_ * other.dtype_.itemsize
    if start >= their_end or their_start >= end:
        return DISJOINT
    if start != their_start or end != their_end or out.ndim_ != other.ndim_:
        return PARTIAL
    for d in range(out.ndim_):
        if out.strides[d] != other.strides[d]:
            return PARTIAL
    return SAME


@cython.cfunc
def refuse(out: Tensor, other: Tensor):
    raise RuntimeError(
        "unsupported operation: some elements of the input tensor and the written-to "
        "tensor refer to a single memory location. Please clone() the tensor before "
        f"performing the operation.\n  written to: {out.dtype_.name}{list(out.shape)} "
        f"with strides {list(out.stride())} from element {out.offset}\n  input: "
        f"{other.dtype_.name}{list(other.shape)} with strides {list(other.stride())} "
        f"from element {other.offset} of the same storage"
    )


@cython.cfunc
@cython.exceptval(check=False)
def repeats_elements(t: Tensor) -> cython.bint:
    """Whether a tensor shows one element at several places."""
    return not t.row_major and overlaps_itself(t.ndim_, t.sizes, t.strides)


@cython.ccall
def refuse_internal_overlap(t: Tensor):
    """Refuses to write to a tensor that shows one element at several places.

    Args:
        t: the tensor that is to be written.

    Raises:
        RuntimeError: a dimension of more than one element has stride 0.

    >>> import rushlight as rl
    >>> refuse_internal_overlap(rl.zeros(3))
    >>> refuse_internal_overlap(rl.zeros(1).expand(3))
    Traceback (most recent call last):
    RuntimeError: ...
    """
    if not repeats_elements(t):
        return
    raise RuntimeError(
        "unsupported operation: more than one element of the written-to tensor refers "
        "to a single memory location. Please clone() the tensor before performing the "
        f"operation.\n  written to: {t.dtype_.name}{list(t.shape)} with strides "
        f"{list(t.stride())}"
    )


@cython.ccall
def refuse_partial_overlap(out: Tensor, input: Tensor):
    """Refuses to read from memory that is written at another place first.

    Args:
        out: the tensor that is to be written.
        input: a tensor that is read; the same window as ``out`` is fine.

    Raises:
        RuntimeError: both are dense and have some, but not all bytes in common, or
            the same bytes in another order.
    """
    if out.storage is input.storage and relation(out, input) == PARTIAL:
        refuse(out, input)


@cython.ccall
def refuse_overlap(out: Tensor, input: Tensor):
    """Refuses to read from any memory that is written.

    Args:
        out: the tensor that is to be written.
        input: a tensor that is read in another order than ``out`` is written.

    Raises:
        RuntimeError: both are dense and have bytes in common.
    """
    if out.storage is input.storage and relation(out, input) != DISJOINT:
        refuse(out, input)
