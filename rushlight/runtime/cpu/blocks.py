"""How products are cut into blocks for the threads: by sizes alone, so that bits are one's.

A block of one chunk is some rows by some columns of the result, over all of the depth.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t

# Columns that one chunk reads in place: longer rows leave the prefetcher's reach.
LONG_ROW = cython.declare(int64_t, 1024)
# Columns that one chunk of dot products has, see `kernels.matmul.dot_tiles`.
TILED_COLUMNS = cython.declare(int64_t, 256)
# Packing a block of the right operand pays off over this many rows.
PACKED_ROWS = cython.declare(int64_t, 192)


@cython.cfunc
@cython.exceptval(check=False)
def covering(count: int64_t, size: int64_t) -> int64_t:
    return (count + size - 1) // size


@cython.cfunc
def cut(
    rows: int64_t,
    columns: int64_t,
    depth: int64_t,
    batch: int64_t,
    direct: cython.bint,
    capacity: int64_t,
    width: int64_t,
) -> Blocks:
    """Blocks of whole tiles: one for little work, about sixteen where it is plenty."""
    blocks: Blocks
    work: int64_t = rows * columns * depth * batch
    wanted: int64_t = 1
    if work > (512 << 20):
        wanted = 16
    elif work > (64 << 20):
        wanted = 8
    elif work > (1 << 20):
        wanted = 4
    elif work > PARALLEL_WORK:
        wanted = 2
    least: int64_t = 24 if direct else PACKED_ROWS
    bands: int64_t = max(1, rows // least)
    across: int64_t = covering(columns, LONG_ROW if direct else capacity)
    across = max(across, min(covering(wanted, batch * bands), covering(columns, width)))
    blocks.columns = covering(covering(columns, across), width) * width
    across = covering(columns, blocks.columns)
    bands = min(bands, covering(wanted, across * batch))
    blocks.rows = covering(covering(rows, bands), 6) * 6
    blocks.chunks = across * covering(rows, blocks.rows) * batch
    return blocks


@cython.cfunc
def cut_for_dots(
    rows: int64_t, columns: int64_t, depth: int64_t, batch: int64_t
) -> Blocks:
    """Blocks of all rows and some columns: no result depends on how they are cut."""
    blocks: Blocks
    across: int64_t = covering(columns, TILED_COLUMNS)
    if rows * columns * depth * batch > PARALLEL_WORK:
        across = max(across, min(covering(4, batch), covering(columns, 12)))
    blocks.rows = rows
    blocks.columns = covering(covering(columns, across), 6) * 6
    if blocks.columns > TILED_COLUMNS:
        blocks.columns = TILED_COLUMNS
    blocks.chunks = covering(columns, blocks.columns) * batch
    return blocks


@cython.cfunc
def cut_for_tiles(
    rows: int64_t,
    columns: int64_t,
    depth: int64_t,
    batch: int64_t,
    capacity: int64_t,
) -> Blocks:
    """Blocks of whole tiles, near to squares: both operands are packed for each of them.

    No result depends on how blocks are cut: all of the depth is added up alike.
    """
    blocks: Blocks
    work: int64_t = rows * columns * depth * batch
    wanted: int64_t = 1
    if work > (1 << 32):
        wanted = 16
    elif work > (1 << 30):
        wanted = 8
    elif work > (1 << 27):
        wanted = 4
    elif work > (1 << 24):
        wanted = 2
    wanted = covering(wanted, batch)
    across: int64_t = covering(columns, capacity)
    down: int64_t = 1
    while across * down < wanted:
        if rows // down > columns // across:
            down *= 2
        else:
            across *= 2
    blocks.columns = covering(covering(columns, across), 32) * 32
    blocks.rows = covering(covering(rows, down), 32) * 32
    blocks.chunks = covering(columns, blocks.columns) * covering(rows, blocks.rows)
    blocks.chunks *= batch
    return blocks
