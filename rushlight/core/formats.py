"""Strides that a memory format asks for."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.geometry import multiply, row_major

from rushlight.core.layout import channels_last, channels_last_3d, contiguous_format


@cython.cfunc
@cython.exceptval(-1, check=False)
def format_strides(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(int64_t),
    memory_format: object,
) -> cython.int:
    wanted: cython.int = 0
    if memory_format is None or memory_format is contiguous_format:
        row_major(ndim, sizes, strides)
        return 0
    if memory_format is channels_last:
        wanted = 4
    elif memory_format is channels_last_3d:
        wanted = 5
    else:
        raise RuntimeError(f"unsupported memory format {memory_format}")
    if ndim != wanted:
        raise RuntimeError(
            f"required rank {wanted} tensor to use {memory_format.name} format"
        )
    return channels_last_strides(ndim, sizes, strides)


@cython.cfunc
@cython.exceptval(-1, check=False)
def channels_last_strides(
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(int64_t),
) -> cython.int:
    """Channels densest, then the last spatial dimension, and so on outwards."""
    step: int64_t = 1
    i: cython.int
    strides[1] = 1
    step = sizes[1]
    for i in range(ndim - 1, 1, -1):  # sizes of 0 make strides of 0, as PyTorch's do
        strides[i] = step
        step = multiply(step, sizes[i])
    strides[0] = step
    return 0
