"""Linear layers by weights in panels.

Programs keep such copies (`graph.constant_folding`), recurrent layers for all of their steps.
"""

from functools import lru_cache
from math import prod

from rushlight.codegen.schedule.contraction import matrix_tile
from rushlight.codegen.target import current
from rushlight.core.launch_args import FIELD_OFFSETS, RIGHT_MODES
from rushlight.core.roles import host
from rushlight.kernels.matmul.matmul_kernel_registry import matrix_kernel, width_of
from rushlight.operators import call as ops
from rushlight.operators.shared import has_elements

# Multiplications above which there are blocks for so many threads, and one has rows at least.
SHARES = (1 << 29, 16), (1 << 26, 8), (1 << 20, 4), (393_216, 2)
LEAST_ROWS = 24


def linear_packed(input, panels, bias, columns):
    """``input @ weight.T + bias`` over the last dimension.

    Args:
        input: of a dtype that is summed in itself, on the host.
        panels: ``[panel, depth, columns of a tile]``, dense.
        bias: as many adjacent elements as there are columns; or None.
        columns: of the result.
    """
    if input.ndim > 2 and not input.is_contiguous():
        input = input.contiguous()
    out = host.matmul.fresh(input, (*input.shape[:-1], columns))
    if not has_elements(out):
        return out
    rows, depth = prod(out.shape[:-1]), panels.shape[1]
    left = input.stride(0) if input.ndim == 2 else depth, input.stride(-1)
    plan = planned(out.dtype.name, (rows, columns, depth), left, bias is not None)
    launch(plan, out, input, panels, bias)
    return out


def launch(plan, out, input, panels, bias):
    """Writes a product by panels to a row-major result, by what `planned` gave."""
    kernel, ints, chunks = plan
    operands = out, input, panels, out if bias is None else bias, out
    host.launch.launch(kernel, operands, ints, chunks, 1)


@lru_cache(4096)
def planned(dtype, sizes, left, biased):
    """The kernel of a product by panels, its integers, and how many blocks there are.

    Args:
        sizes: rows, columns and depth.
        left: elements from row to row of the left operand, and from column to column.
    """
    rows, columns, depth = sizes
    row_block, column_block = blocks(rows, columns, depth, dtype)
    plan = {
        "rows": rows,
        "columns": columns,
        "depth": depth,
        "a_row": left[0],
        "a_column": left[1],
        # A panel begins as many elements on as its first column says, times the depth.
        "b_row": width_of(dtype),
        "b_column": depth,
        "out_row": columns,
        "sums_row": columns,
        "added": int(biased),
        "right_mode": RIGHT_MODES["direct"],
        "row_block": row_block,
        "column_block": column_block,
    }
    fields = FIELD_OFFSETS["product"]
    ints = tuple(plan.get(key, 0) for key in sorted(fields, key=fields.get))
    chunks = covering(rows, row_block) * covering(columns, column_block)
    return matrix_kernel("product", dtype, dtype, dtype), ints, chunks


def pack_weight(width, weight):
    """A weight in panels of so many of its rows, each lying depth first.

    Returns:
        ``[panel, depth, width]``, of which the last one ends in zeros.
    """
    missing = -weight.shape[0] % width
    if missing:
        rest = ops.new_zeros(weight, (missing, weight.shape[1]))
        weight = ops.cat([weight, rest])
    panels = weight.reshape(-1, width, weight.shape[1])
    return panels.transpose(1, 2).contiguous()


def blocks(rows, columns, depth, dtype):
    """Rows and columns of a block: whole tiles, a few where there is work for threads."""
    tile, work = matrix_tile(dtype, current()), rows * columns * depth
    wanted = next((count for least, count in SHARES if work > least), 1)
    across = min(wanted, covering(columns, tile.width))
    across = max(across, covering(columns, tile.columns))
    bands = max(1, min(rows // LEAST_ROWS, covering(wanted, across)))
    return (
        covering(covering(rows, bands), tile.rows) * tile.rows,
        covering(covering(columns, across), tile.width) * tile.width,
    )


def covering(count, size):
    """How many of a size cover a count."""
    return -(-count // size)
