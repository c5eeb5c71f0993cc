"""Sorts of rows where there are as many threads as elements: by the digits of keys."""

from rushlight.core.device import backend_for
from rushlight.core.dtypes import int32, int64
from rushlight.kernels.sort import radix_sort
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import fresh, name_of

THREADS = 256  # of a block, at most
EACH = 8  # elements of a thread
MANY = 16  # and where registers and shared memory have room for as many
PARTS = 1024  # of all rows: a block's each
DIGIT = 8  # bits
VALUES = 1 << DIGIT
NARROW = 1 << 31  # rows of fewer elements have places of 32 bits on the way


def plan(size, itemsize):
    """The threads of a block for rows of a size, and the elements of each.

    >>> plan(100, 4), plan(300, 8), plan(3000, 4), plan(10**6, 8)
    ((32, 8), (64, 8), (256, 16), (256, 8))
    """
    threads = 32
    while threads < THREADS and threads * EACH < size:
        threads *= 2
    many = threads * EACH < size < NARROW and itemsize <= 4
    return threads, MANY if many else EACH


def spans(rows, size, tile):
    """The parts of each row, and the elements of each but the last.

    >>> spans(1, 1 << 24, 4096), spans(2000, 5000, 4096)
    ((1024, 16384), (1, 8192))
    """
    tiles = -(-size // tile)
    parts = max(1, min(PARTS // rows, tiles))
    span = -(-tiles // parts) * tile
    return -(-size // span), span


def sort_rows(values, index, x, size, descending, bits=None):
    """Sorts rows stably into ``values``, and the elements' places into ``index``.

    Args:
        bits: how many of the elements differ at most, from the lowest on, where that is
            known: of numbers that are not negative.
    """
    rows, dtype = x.numel() // size, x.dtype
    width = 8 * dtype.itemsize
    bits = min(width, -(-(bits or width) // DIGIT) * DIGIT)
    threads, each = plan(size, dtype.itemsize)
    kinds = name_of(dtype), bool(descending), threads
    if size <= threads * each:
        kinds = *kinds, each, bits
        step(x, radix_sort.row, kinds, [values, index, x], (size,), rows, threads)
    else:
        sort_in_parts(values, index, x, size, kinds, each, bits // DIGIT)


def sort_in_parts(values, index, x, size, kinds, each, passes):
    """Sorts rows that are many tiles', digit after digit."""
    rows, threads = x.numel() // size, kinds[-1]
    parts, span = spans(rows, size, threads * each)
    kept = int32 if size < NARROW else int64
    rooms, positions = [values], []  # what passes write, from the last one back
    if passes > 1:
        rooms.append(fresh(x, x.shape))
        positions = [fresh(x, x.shape, kept) for _ in range(min(2, passes - 1))]
    counts = fresh(x, (rows, VALUES * parts), int64)
    elements, held = x, index  # the first pass reads no places
    for number in range(passes):
        left = passes - 1 - number
        ints, blocks = (size, parts, span, DIGIT * number), rows * parts
        step(x, radix_sort.count, kinds, [counts, elements], ints, blocks, threads)
        sums = ops.cumsum(counts, 1)
        to = rooms[left % 2]
        moved = positions[left % len(positions)] if left else index
        ways = name_of(kept), number == 0, left == 0
        operands = [to, moved, elements, held, sums]
        given = (*kinds, each, *ways), operands, ints, blocks, threads
        step(x, radix_sort.place, *given)
        elements, held = to, moved


def step(x, make, kinds, operands, ints, blocks, threads):
    """A launch of a sort; see `rushlight.kernels.sort.radix_sort`."""
    libraries = backend_for(x.device.type).libraries
    libraries.run_blocks(make, kinds, operands, ints, blocks, threads)
