"""Runs kernels over the rows of contiguous tensors, whichever axis the rows lie along.

A tensor is seen as ``(outer, size, inner)``, and a row runs along the middle axis.
"""

from math import prod as product

from rushlight.backends.cpu.launch import launch
from rushlight.ops.native import GRAIN, name_of

# How an operand moves with the outer axis, the inner axis and the row.
EACH = "each"  # an element for every element
ROW = "row"  # an element for every row
SHARED = "shared"  # one row for all


def around(shape, dim):
    """``(outer, size, inner)`` of a shape; a number is one row of one."""
    if not len(shape):
        return 1, 1, 1
    return product(shape[:dim]), shape[dim], product(shape[dim + 1 :])


def _strides(kind, size, inner, itemsize):
    if kind == EACH:
        return size * inner * itemsize, itemsize, inner * itemsize
    if kind == ROW:
        return inner * itemsize, itemsize, 0
    return 0, 0, itemsize


def run_rows(kernel, outputs, inputs, extents, compute, static=()):
    """Launches a rowwise kernel.

    Args:
        kernel: the ``@rowwise`` object.
        outputs: pairs of a contiguous tensor and how it moves.
        inputs: likewise.
        extents: the sizes outer, of a row, and inner.
        compute: the name of the dtype to compute in.
        static: the values of the kernel's static parameters.
    """
    outer, size, inner = extents
    rows = outer * inner
    operands = [*outputs, *inputs]
    if rows == 0 or operands[0][0].device.type == "meta":
        return
    native = kernel.specialize(
        tuple(name_of(tensor.dtype) for tensor, _ in inputs),
        tuple(name_of(tensor.dtype) for tensor, _ in outputs),
        compute,
        static,
    )
    steps = [_strides(kind, size, inner, t.dtype.itemsize) for t, kind in operands]
    ints = [size, inner, *(step[axis] for axis in range(3) for step in steps)]
    tensors = [tensor for tensor, _ in operands]
    launch(native, tensors, ints, rows, max(1, GRAIN // max(1, size)))
