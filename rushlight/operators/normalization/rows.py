"""Runs kernels over the rows of contiguous tensors, whichever axis the rows lie along.

A tensor is seen as ``(outer, size, inner)``, and a row runs along the middle axis.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.geometry import wrap_dim
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.dispatch.launchers import launcher_of

# How an operand moves with the outer axis, the inner axis and the row.
EACH = "each"  # an element for every element
ROW = "row"  # an element for every row
SHARED = "shared"  # one row for all
PER_ELEMENT = "row_major"  # an element for every element, the rows one after the other
OUTER = "outer"  # an element for each place along the outer axis
MOST_NUMBERS = cython.declare(cython.int, 4)  # that a launch takes


def run_rows(kernel, outputs, inputs, extents, compute, numbers=()):
    """Launches a rowwise kernel.

    Args:
        kernel: the ``@rowwise`` object.
        outputs: pairs of a contiguous tensor and how it moves.
        inputs: likewise.
        extents: the sizes outer, of a row, and inner.
        compute: the name of the dtype to compute in.
        numbers: the values of the kernel's parameters after ``dim``, four at most.

    Raises:
        ValueError: there are more.
    """
    if len(numbers) > MOST_NUMBERS:
        raise ValueError(
            f"run_rows: {len(numbers)} numbers, not {MOST_NUMBERS} at most"
        )
    outer, size, inner = extents
    if outer * inner:
        written: list = list(outputs)
        read: list = list(inputs)
        values: tuple = tuple(numbers)
        launcher_of(written[0][0]).rows(
            kernel, written, read, compute, values, outer, size, inner
        )


def over(kernel, operands, dim):
    """A kernel along one dimension; the result looks like the first operand."""
    first: Tensor = operands[0]
    result: Tensor
    axis: cython.int = wrap_dim(dim, first.ndim_)
    i: cython.int
    outer: int64_t = 1
    inner: int64_t = 1
    size: int64_t = first.sizes[axis] if first.ndim_ else 1
    inputs: list = []
    for operand in operands:
        t: Tensor = operand
        inputs.append((t if t.row_major else operand.contiguous(), EACH))
    result = new_empty(
        first.ndim_, first.sizes, cython.NULL, first.dtype_, first.storage.device
    )
    for i in range(first.ndim_):
        if i < axis:
            outer *= first.sizes[i]
        elif i > axis:
            inner *= first.sizes[i]
    if outer * inner:
        outputs: list = [(result, EACH)]
        compute: str = first.dtype_.name
        launcher_of(result).rows(
            kernel, outputs, inputs, compute, (), outer, size, inner
        )
    return result
