"""Tensors written behind one another: ``cat``."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.dtype import DType
from cython.cimports.rushlight.core.geometry import __builtin_add_overflow, wrap_dim
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.operators.shape.copying import copies_of

from rushlight.core.dtype import promote_types
from rushlight.core.factories import empty
from rushlight.operators.shape.copying import copy_forms
from rushlight.operators.shape.formats import format_of


@cython.cfunc
@cython.exceptval(-1, check=False)
def join_sizes(
    parts: list, dim: cython.int, sizes: cython.pointer(int64_t)
) -> cython.int:
    """Sizes of the joined tensor, checked."""
    first: Tensor = parts[0]
    part: Tensor
    d: cython.int
    number: cython.int = 0
    for d in range(first.ndim_):
        sizes[d] = first.sizes[d]
    sizes[dim] = 0
    for one in parts:
        part = one
        if part.ndim_ != first.ndim_:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim_} and "
                f"{part.ndim_}"
            )
        for d in range(first.ndim_):
            if d != dim and part.sizes[d] != first.sizes[d]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected "
                    f"size {first.sizes[d]} but got size {part.sizes[d]} for tensor "
                    f"number {number} in the list."
                )
        if __builtin_add_overflow(
            sizes[dim], part.sizes[dim], cython.address(sizes[dim])
        ):
            raise RuntimeError(
                f"numel: integer addition overflow: the tensors have more than 2 ** 63 "
                f"elements along dimension {dim}"
            )
        number += 1
    return 0


@cython.cfunc
def common_dtype(tensors: object) -> DType:
    best: DType = None
    t: Tensor
    position: cython.int = 0
    for one in tensors:
        t = one
        if t.ndim_ == 0:
            raise RuntimeError(
                f"zero-dimensional tensor (at position {position}) cannot be concatenated"
            )
        if best is None:
            best = t.dtype_
        elif t.dtype_ is not best:
            best = promote_types(best, t.dtype_)
        position += 1
    return best


def cat(tensors, dim):
    """Copies every tensor to its place; empty vectors are passed over.

    Raises:
        RuntimeError: no tensors, or sizes that differ beside ``dim``.
    """
    sizes: int64_t[64]
    part: Tensor
    out: Tensor
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    dtype: DType = common_dtype(tensors)
    parts: list = [
        t
        for t in tensors
        if cython.cast(Tensor, t).ndim_ != 1 or cython.cast(Tensor, t).sizes[0] != 0
    ]
    axis: cython.int = 0  # empty vectors alone are joined whatever the dimension is
    if parts:
        part = parts[0]
        axis = wrap_dim(dim, part.ndim_)
    else:
        parts = list(tensors)[:1]
    join_sizes(parts, axis, sizes)
    out = joined(parts, axis, sizes, dtype)
    if out.numel_:
        copies_of(out).join(out, parts, axis)
    return out


@cython.cfunc
def joined(
    parts: list, axis: cython.int, sizes: cython.pointer(int64_t), dtype: DType
) -> Tensor:
    """The result's memory: channels-last where the strides of all the parts are."""
    first: Tensor = parts[0]
    d: cython.int = first.ndim_ - 1
    if (d == 3 or d == 4) and first.strides[d] >= first.strides[1]:
        formats = {format_of(one) for one in parts}
        if len(formats) == 1 and None not in formats:
            return empty(
                [sizes[i] for i in range(first.ndim_)],
                dtype,
                None,
                first.storage.device,
                None,
                formats.pop(),
            )
    return new_empty(first.ndim_, sizes, cython.NULL, dtype, first.storage.device)
