"""Few elements of the host's that are counted on the spot, without a kernel."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.dtype import (
    CODE_BOOL,
    CODE_FLOAT32,
    CODE_INT64,
    dtype_of,
)
from cython.cimports.rushlight.core.tensor import Tensor, new_empty

FEW = cython.declare(int64_t, 4096)  # elements that are counted on the spot
WIDEST = cython.declare(int64_t, 65536)  # places that are


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_set(code: cython.int, data: cython.p_char, i: int64_t) -> cython.bint:
    """Whether an element of type bool, float32 or int64 is not zero."""
    if code == CODE_FLOAT32:
        return cython.cast(cython.p_float, data)[i] != 0
    if code == CODE_INT64:
        return cython.cast(cython.pointer(int64_t), data)[i] != 0
    return data[i] != 0


def coordinates(x: Tensor):
    """The coordinates of what is not zero, a row for each dimension.

    None where there are many elements, or they are not bool, float32 or int64, row by row.

    Args:
        x: a tensor in the host's memory.
    """
    code: cython.int = x.dtype_.code
    data: cython.p_char = x.pointer()
    sizes: int64_t[2]
    place: int64_t[64]
    total: int64_t = 0
    k: int64_t = 0
    i: int64_t
    d: cython.int
    n: cython.int = x.ndim_
    if (
        not x.row_major
        or x.numel_ > FEW
        or (code != CODE_FLOAT32 and code != CODE_INT64 and code != CODE_BOOL)
    ):
        return None
    for i in range(x.numel_):
        total += is_set(code, data, i)
    sizes[0], sizes[1] = n, total
    out: Tensor = new_empty(2, sizes, cython.NULL, dtype_of(4), x.storage.device)
    target: cython.pointer(int64_t) = cython.cast(
        cython.pointer(int64_t), out.pointer()
    )
    for d in range(n):
        place[d] = 0
    for i in range(x.numel_):
        if is_set(code, data, i):
            for d in range(n):
                target[d * total + k] = place[d]
            k += 1
        d = n - 1
        while d >= 0:
            place[d] += 1
            if place[d] < x.sizes[d]:
                break
            place[d] = 0
            d -= 1
    return out


def tally(x: Tensor, least: int64_t):
    """How often each number from zero on occurs, for ``least`` numbers or more.

    None unless these are few numbers of type int64, none of them negative or large, one
    after the other.

    Args:
        x: a tensor in the host's memory.
    """
    data: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), x.pointer())
    count: int64_t = least
    i: int64_t
    if (
        not x.row_major
        or x.ndim_ != 1
        or x.numel_ > FEW
        or x.dtype_.code != CODE_INT64
        or least > WIDEST
    ):
        return None
    for i in range(x.numel_):
        if data[i] < 0 or data[i] >= WIDEST:
            return None
        count = max(count, data[i] + 1)
    out: Tensor = new_empty(
        1, cython.address(count), cython.NULL, dtype_of(4), x.storage.device
    )
    found: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), out.pointer())
    for i in range(count):
        found[i] = 0
    for i in range(x.numel_):
        found[data[i]] += 1
    return out
