"""Weights of convolutions with their first dimension last, by squares turned in registers."""

import functools

from rushlight.core import dtypes
from rushlight.core.roles import host
from rushlight.kernels.conv.conv_geometry import spread

COMPUTED = {
    "float16": "float32",
    "bfloat16": "float32",
    "int16": "int32",
    "int8": "int32",
    "uint8": "int32",
}
launch, fresh = host.launch.launch, host.matmul.fresh


def computed(dtype):
    """The dtype that convolutions of one compute in."""
    return getattr(dtypes, COMPUTED.get(dtype.name, dtype.name))


def transpose_weight(weight, groups):
    """Weights as ``[input channel, z, y, x, output channel of the group]``."""
    rows = weight.shape[0] // groups
    depth = weight.numel() // weight.shape[0]
    kernel = spread(weight.shape[2:], 1)
    out = fresh(weight, (groups * weight.shape[1], *kernel, rows))
    size = rows * depth
    transpose_blocks(out, weight, (rows, depth, depth, rows, 1, 0, size, size), groups)
    return out


def transpose_blocks(out, source, ints, batch):
    """Runs `transposed_sum` over a batch; ``out`` and ``source`` may be addresses."""
    from rushlight.kernels.matmul.gemv import FLIPPED_ROWS
    from rushlight.kernels.matmul.matmul_kernel_registry import matrix_kernel

    tensor = source if hasattr(source, "dtype") else out
    name = tensor.dtype.name
    kernel = matrix_kernel("transposed_sum", name, name, name)
    chunks = batch * -(-ints[0] // _lanes(name)) * -(-ints[1] // FLIPPED_ROWS)
    launch(kernel, (out, source), ints, chunks, 16)


@functools.cache
def _lanes(name):
    from rushlight.codegen.schedule.contraction import matrix_tile
    from rushlight.codegen.target import current

    return matrix_tile(name, current()).lanes
