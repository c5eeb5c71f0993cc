"""How products are cut into blocks for the threads; no bits follow from how they are cut.

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
# It costs about as much as so many rows: what smaller blocks lose.
PACKING = cython.declare(int64_t, 24)
FEW_THREADS = cython.declare(cython.int, 4)  # whom sixteen blocks serve evenly
SHARED_WORK = cython.declare(int64_t, 64 << 20)  # many threads have a share from it on
MOST_BANDS = cython.declare(int64_t, 96)


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
    threads: cython.int,
) -> Blocks:
    """Blocks of whole tiles: one for little work, about sixteen where it is plenty.

    Many threads have as many as they share evenly. No result depends on how blocks are
    cut, and so none on the number of threads: all of the depth is added up alike.
    """
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
    if threads > FEW_THREADS and work > SHARED_WORK:
        return cut_evenly(rows, columns, batch, blocks, 6, width, threads)
    return blocks


@cython.cfunc
def cut_evenly(
    rows: int64_t,
    columns: int64_t,
    batch: int64_t,
    blocks: Blocks,
    height: int64_t,
    width: int64_t,
    threads: cython.int,
) -> Blocks:
    """The blocks after which the last of many threads ends first, none wider than given."""
    best: Blocks = blocks
    least: int64_t = time_of(blocks, threads)
    most: int64_t = max(1, min(rows // PACKING, MOST_BANDS))
    for wide in range(1, blocks.columns // width + 1):
        for bands in range(1, most + 1):
            blocks.columns = wide * width
            blocks.rows = covering(covering(rows, bands), height) * height
            blocks.chunks = covering(columns, blocks.columns) * batch
            blocks.chunks *= covering(rows, blocks.rows)
            if time_of(blocks, threads) < least:
                least, best = time_of(blocks, threads), blocks
    return best


@cython.cfunc
@cython.exceptval(check=False)
def time_of(blocks: Blocks, threads: int64_t) -> int64_t:
    """What the busiest thread computes, in elements of the result."""
    each: int64_t = (blocks.rows + PACKING) * blocks.columns
    return covering(blocks.chunks, threads) * each


def blocks_of(sizes, direct, capacity, width, threads):
    """Rows and columns of a block, and how many blocks a product is cut into.

    Args:
        sizes: rows, columns, depth and how many products.
        direct: whether the right operand is read in place.
        capacity: columns that are packed at a time.
        width: of a tile.
        threads: how many share the work.
    """
    rows, columns, depth, batch = sizes
    made: Blocks = cut(rows, columns, depth, batch, direct, capacity, width, threads)
    return made.rows, made.columns, made.chunks


@cython.cfunc
def cut_for_dots(
    rows: int64_t, columns: int64_t, depth: int64_t, batch: int64_t, threads: int64_t
) -> Blocks:
    """Blocks of all rows and some columns: no result depends on how they are cut."""
    blocks: Blocks
    across: int64_t = covering(columns, TILED_COLUMNS)
    if rows * columns * depth * batch > PARALLEL_WORK:
        wanted: int64_t = covering(max(4, threads), batch)
        across = max(across, min(wanted, covering(columns, 12)))
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
    threads: cython.int,
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
    if threads > FEW_THREADS and work > 8 * SHARED_WORK:
        return cut_evenly(rows, columns, batch, blocks, 32, 32, threads)
    return blocks
