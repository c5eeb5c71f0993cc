"""Samples at the points of a grid, in one sweep: see `grids` for what they are.

For a block of points the places around each, and their weights, are listed; then every
channel is summed by that list.
"""

from __future__ import annotations

from math import prod

from rushlight.codegen.language import floor, round, select, trunc
from rushlight.codegen.loops import A, I, T, i64, local, loops, loops_inline
from rushlight.ops.native import fresh, name_of, run

BLOCK = 64  # points that share a list
CUBIC = -0.75  # the slope that PyTorch's cubic has
FARTHEST = 2**31 - 1  # elements of an image whose places are of 32 bits


@loops_inline
def clipped(point, size, flat):
    """A position inside; see `grids._clipped`."""
    first = A(0)
    if flat:
        first = select(point > A(0), point, A(0))
    else:
        first = select(point <= A(0), A(0), point)
    last = A(size - 1)
    return select(first < last, first, last)


@loops_inline
def padded(point, size, padding, align, flat):
    """A position as the padding moves it."""
    moved = point + A(0)
    if padding == 1:
        moved = clipped(point, size, flat)
    elif padding == 2:
        low = A(0) if align else A(-0.5)
        span = A(size - 1) if align else A(size)
        distance = abs(point - low)
        both = span + span  # there and back
        extra = distance - trunc(distance / both) * both
        folded = select(extra < both - extra, extra, both - extra) + low
        moved = select(span == A(0), A(0), clipped(folded, size, flat))
    return moved


@loops_inline
def near(x):
    """The cubic's weight up to a distance of one."""
    return ((A(CUBIC) + A(2)) * x - (A(CUBIC) + A(3))) * x * x + A(1)


@loops_inline
def far(x):
    """The cubic's weight from there to a distance of two."""
    return ((A(CUBIC) * x - A(5 * CUBIC)) * x + A(8 * CUBIC)) * x - A(4 * CUBIC)


@loops_inline
def list_places(place, weight, slot, j, point, size, mode, padding, align, flat):
    """The places along one dimension, -1 outside, and their weights."""
    position = (point + A(1)) * (A(size - 1) * A(0.5))
    if not align:
        position = ((point + A(1)) * A(size) - A(1)) * A(0.5)
    at = slot * 64 + j
    if mode == 2:
        low = floor(position)
        t = position - low
        weight[at] = far(t + A(1))
        weight[at + 64] = near(t)
        weight[at + 128] = near(A(1) - t)
        weight[at + 192] = far(A(2) - t)
        for k in range(4):
            tap = padded(low + A(k - 1), size, padding, align, flat)
            inside = tap >= A(0) and tap < A(size)
            place[at + k * 64] = I(select(inside, tap, A(-1)))
    else:
        moved = padded(position, size, padding, align, flat)
        if mode == 1:
            tap = round(moved)
            inside = tap >= A(0) and tap < A(size)
            place[at] = I(select(inside, tap, A(-1)))
        else:
            low = floor(moved)
            high = low + A(1)
            inside = low >= A(0) and low < A(size)
            beyond = high >= A(0) and high < A(size)
            place[at] = I(select(inside, low, A(-1)))
            place[at + 64] = I(select(beyond, high, A(-1)))
            lower = high - moved
            upper = moved - low
            # an image's infinite weights stay: times zero they are NaN
            weight[at] = lower if flat else select(inside, lower, A(0))
            weight[at + 64] = upper if flat else select(beyond, upper, A(0))


@loops
def sample_points(
    out: "T*",
    image: "T*",
    grid: "T*",
    channels: int,
    depth: int,
    height: int,
    width: int,
    points: int,
    blocks: int,
    align: int,
    axes: int,
    mode: int,
    padding: int,
    taps: int,
    begin: int,
    end: int,
):
    """Every channel at each point of some blocks; a place outside has a zero."""
    place = local("I", 768)
    weight = local("A", 768)
    index = local("I", 1024)
    share = local("A", 1024)
    mass = local("A", 64)
    plane = depth * height * width
    for lane in range(begin, end):
        batch = lane // blocks
        start = lane % blocks * 64
        count = min(points - start, 64)
        first = (batch * points + start) * axes
        flat = axes == 2
        for j in range(count):
            at = first + j * axes
            x = A(grid[at])
            y = A(grid[at + 1])
            list_places(place, weight, 0, j, x, width, mode, padding, align, flat)
            list_places(place, weight, taps, j, y, height, mode, padding, align, flat)
            if axes == 3:
                z = A(grid[at + 2])
                list_places(
                    place, weight, 2 * taps, j, z, depth, mode, padding, align, flat
                )
        deep = taps if axes == 3 else 1
        for a in range(deep):
            for b in range(taps):
                for c in range(taps):
                    slot = ((a * taps + b) * taps + c) * 64
                    for j in range(count):
                        column = place[c * 64 + j]
                        row = place[(taps + b) * 64 + j]
                        layer = place[(2 * taps + a) * 64 + j] if axes == 3 else I(0)
                        spot = (layer * I(height) + row) * I(width) + column
                        outside = column < I(0) or row < I(0) or layer < I(0)
                        index[slot + j] = select(outside, I(-1), spot)
                        if mode != 1:
                            part = weight[(taps + b) * 64 + j]
                            if axes == 3:
                                part = weight[(2 * taps + a) * 64 + j] * part
                            share[slot + j] = part * weight[c * 64 + j]
        total = deep * taps * taps
        for channel in range(channels):
            base = (batch * channels + channel) * plane
            target = (batch * channels + channel) * points + start
            for j in range(count):
                spot = index[j]
                value = image[base + i64(max(spot, I(0)))]
                found = select(spot >= I(0), A(value), A(0))
                mass[j] = found if mode == 1 else found * share[j]
            for t in range(1, total):
                for j in range(count):
                    spot = index[t * 64 + j]
                    value = image[base + i64(max(spot, I(0)))]
                    found = select(spot >= I(0), A(value), A(0))
                    mass[j] = mass[j] + found * share[t * 64 + j]
            for j in range(count):
                out[target + j] = T(mass[j])


def sample(input, grid, mode, padding, align_corners):
    """The samples of single or double precision, row by row.

    Args:
        mode: 0 for linear, 1 for the nearest element, 2 for a cubic.
        padding: 0 for zeros, 1 for the edge, 2 for a mirror; others are zeros.
    """
    input, grid = input.contiguous(), grid.contiguous()
    batch, channels, *sizes = input.shape
    shape = grid.shape[1:-1]
    out = fresh(input, [batch, channels, *shape])
    points, axes = prod(shape), len(sizes)
    blocks, taps = -(-points // BLOCK), {0: 2, 1: 1, 2: 4}[mode]
    depth, height, width = sizes if axes == 3 else (1, *sizes)
    padding = padding if padding in (1, 2) else 0
    run(
        sample_points, [out, input, grid],
        [
            channels, depth, height, width, points, blocks, int(align_corners), axes,
            mode, padding, taps,
        ],
        batch * blocks, BLOCK * taps**axes * channels,
        T=name_of(input.dtype), I="int32" if prod(sizes) <= FARTHEST else "int64",
        axes=axes, mode=mode, padding=padding, taps=taps,
    )  # fmt: skip
    return out
