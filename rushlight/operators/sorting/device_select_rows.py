"""Selections and modes of rows where there are as many threads as elements.

Of equal elements the first in the row are chosen, and they stay in its order: what
PyTorch's kernels on devices select, as far as they say. The host's choice follows the steps
of algorithms that one thread goes (`rushlight.kernels.select.stable_select`).
"""

from __future__ import annotations

from rushlight.codegen.loops import loops
from rushlight.core.device import backend_for
from rushlight.core.dtypes import int64
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import fresh, name_of, run

LONG = 1 << 16  # a row of so many elements is many blocks', where few are
PART = 1 << 13  # elements of a part, at least
MOST_PARTS = 512  # of all rows


def first_of_rows(out, index, rows, size, count, largest, in_order, sort):
    """The first elements of each row, and their places.

    Args:
        out, index: of as many rows of ``count``.
        largest: whether those are the largest.
        in_order: whether they are wanted in their order.
        sort: sorts rows stably: called with rows, their size and whether the largest come
            first; gives values and places.
    """
    number = rows.numel() // size
    parts = parts_for(number, size, count)
    found = select("first", rows, number, size, parts, count, largest)
    if found is None:  # rows are short, or have no layout of their own
        values, positions = sort(rows, size, largest)
        last = values.dim() - 1
        out.copy_(values.narrow(last, 0, count))
        index.copy_(positions.narrow(last, 0, count))
        return
    values, positions = found
    if parts > 1:
        few = parts * count
        values, chosen = select("first", values, number, few, 1, count, largest)
        positions = ops.gather(
            positions.view(number, few), 1, chosen.view(number, count)
        )
    values, positions = values.view(number, count), positions.view(number, count)
    if in_order and count > 1:
        values, order = sort(values, count, largest)
        positions = ops.gather(positions, 1, order)
    out.copy_(values.view(out.shape))
    index.copy_(positions.view(index.shape))


def one_of_rows(way, out, place, rows, size, rank, skip=0):
    """The element of a rank of each row (``"ranked"``), or the lower middle
    (``"middle"``); whether there is a layout for that."""
    number = rows.numel() // size
    return select_on_device(way, [out, place, rows], number, size, 1, rank, False, skip)


def parts_for(number, size, count):
    """How many parts each row is selected from first.

    >>> parts_for(1, 10**6, 10), parts_for(1000, 10**6, 10), parts_for(1, 10**6, 10**5)
    (122, 1, 2)
    """
    if size < LONG:
        return 1
    # what is left of all parts is to be a fraction of the row
    return max(1, min(MOST_PARTS // number, size // max(PART, 4 * count)))


def select(way, rows, number, size, parts, count, largest):
    """What the backend selects from so many rows; None where it has no layout."""
    out = fresh(rows, (number * parts * count,))
    index = fresh(rows, (number * parts * count,), int64)
    operands = [out, index, rows]
    given = number, size, parts, count - 1, bool(largest), 0
    return (out, index) if select_on_device(way, operands, *given) else None


def select_on_device(way, operands, number, size, parts, rank, largest, skip):
    """Asks the backend that has the rows."""
    backend = backend_for(operands[2].device.type)
    extents = number, size, parts
    return backend.libraries.run_selection(way, operands, extents, rank, largest, skip)


@loops
def lengths_in_rows(length: "i64*", x: "T*", size: int, begin: int, end: int):
    """How many equals follow each other from where they begin in sorted rows, else 0."""
    for at in range(begin, end):
        base = at // size * size
        begins = True
        if at > base:
            begins = x[at] != x[at - 1]
        low = at
        high = base + size
        v = x[at]
        if not begins:
            high = low
        while low < high:
            half = (low + high) // 2
            if x[half] == v:
                low = half + 1
            else:
                high = half
        alone = 1 if begins else 0  # what equals nothing is a run of one
        length[at] = max(low - at, alone)


@loops
def longest_run(
    out: "T*",
    place: "i64*",
    x: "T*",
    index: "i64*",
    length: "i64*",
    start: "i64*",
    size: int,
    begin: int,
    end: int,
):
    """The element that a row's longest run begins with, and the place of its last."""
    for row in range(begin, end):
        first = row * size + start[row]
        out[row] = x[first]
        place[row] = index[first + length[first] - 1]


def mode_of_rows(out, place, values, index, size):
    """The most frequent element of sorted rows, the smallest of several; its last place.

    Args:
        values, index: of rows in order, and where the elements were.
    """
    number, types = values.numel() // size, {"T": name_of(values.dtype)}
    length = fresh(values, (number, size), int64)
    run(lengths_in_rows, [length, values], [size], number * size, 16, **types)
    start = ops.argmax(length, 1)
    operands = [out, place, values, index, length, start]
    run(longest_run, operands, [size], number, 16, **types)
