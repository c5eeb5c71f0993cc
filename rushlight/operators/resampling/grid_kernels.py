"""Samples at the points of a grid, in one sweep: see `grids` for what they are.

For a block of points the places around each, and their weights, are listed; then every
channel is summed by that list.
"""

from __future__ import annotations

from math import prod

from rushlight.codegen.language import floor, fma, fmod, round, select, trunc
from rushlight.codegen.loops import A, I, T, i64, local, loops, loops_inline
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators.loop_calls import filled, fresh, name_of, run

BLOCK = 64  # points that share a list where a thread has many
NEAR = 8  # channels that a task adds to
CUBIC = -0.75  # the slope that PyTorch's cubic has
FARTHEST = 2**31 - 1  # elements of an image whose places are of 32 bits


# Points that share a list: a thread of a device's grid has one, and keeps it in registers.
points_of_list = KernelTable(cpu=lambda like: BLOCK, cuda=lambda like: 1)


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
        extra = fma(-trunc(distance / both), both, distance)
        reflected = select(extra < both - extra, extra, both - extra) + low
        if not flat:
            extra = fmod(distance, span)
            reflections = floor(distance / span)
            # more turns than 32 bits count are even for PyTorch
            odd = reflections < A(2147483648) and fmod(reflections, A(2)) != A(0)
            reflected = select(odd, span - extra, extra) + low
        moved = select(span == A(0), A(0), clipped(reflected, size, flat))
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
def list_positions(
    place, weight, at, point, size, mode, padding, align, flat, block
):  # fmt: skip
    """The places along one dimension, -1 outside, and their weights."""
    position = (point + A(1)) * (A(size - 1) * A(0.5))
    if not align:
        position = fma(point + A(1), A(size) * A(0.5), A(-0.5))
        if not flat:
            position = ((point + A(1)) * A(size) - A(1)) * A(0.5)
    if mode == 2:
        low = floor(position)
        t = position - low
        weight[at] = far(t + A(1))
        weight[at + block] = near(t)
        weight[at + 2 * block] = near(A(1) - t)
        weight[at + 3 * block] = far(A(2) - t)
        for k in range(4):
            tap = padded(low + A(k - 1), size, padding, align, flat)
            inside = tap >= A(0) and tap < A(size)
            place[at + k * block] = I(select(inside, tap, A(-1)))
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
            place[at + block] = I(select(beyond, high, A(-1)))
            lower = high - moved
            upper = moved - low
            # an image's infinite weights stay: times zero they are NaN
            weight[at] = lower if flat else select(inside, lower, A(0))
            weight[at + block] = upper if flat else select(beyond, upper, A(0))


@loops_inline
def list_points(
    place, weight, grid, first, count, depth, height, width, align, axes, mode, padding,
    taps, block,
):  # fmt: skip
    """The places and weights along each dimension, of some points from one on."""
    flat = axes == 2
    for j in range(count):
        from_grid = first + j * axes
        x = A(grid[from_grid])
        y = A(grid[from_grid + 1])
        list_positions(place, weight, j, x, width, mode, padding, align, flat, block)
        second = taps * block + j
        list_positions(
            place, weight, second, y, height, mode, padding, align, flat, block
        )
        if axes == 3:
            z = A(grid[from_grid + 2])
            third = second + taps * block
            list_positions(
                place, weight, third, z, depth, mode, padding, align, flat, block
            )


@loops_inline
def list_corners(
    index, share, place, weight, count, height, width, axes, taps, block
):  # fmt: skip
    """The places of all combinations, -1 outside, and the products of their weights."""
    deep = taps if axes == 3 else 1
    for a in range(deep):
        for b in range(taps):
            for c in range(taps):
                slot = ((a * taps + b) * taps + c) * block
                for j in range(count):
                    column = place[c * block + j]
                    row = place[(taps + b) * block + j]
                    layer = place[(2 * taps + a) * block + j] if axes == 3 else I(0)
                    spot = (layer * I(height) + row) * I(width) + column
                    outside = column < I(0) or row < I(0) or layer < I(0)
                    index[slot + j] = select(outside, I(-1), spot)
                    if taps != 1:
                        part = weight[(taps + b) * block + j]
                        if axes == 3:
                            part = weight[(2 * taps + a) * block + j] * part
                        share[slot + j] = part * weight[c * block + j]


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
    block: int,
    begin: int,
    end: int,
):
    """Every channel at each point of some blocks; a place outside has a zero."""
    place = local("I", 12 * block)
    weight = local("A", 12 * block)
    index = local("I", 16 * block)
    share = local("A", 16 * block)
    mass = local("A", block)
    plane = depth * height * width
    for lane in range(begin, end):
        batch = lane // blocks
        start = lane % blocks * block
        count = 1 if block == 1 else min(points - start, block)
        first = (batch * points + start) * axes
        list_points(
            place, weight, grid, first, count, depth, height, width, align, axes, mode,
            padding, taps, block,
        )  # fmt: skip
        list_corners(
            index, share, place, weight, count, height, width, axes, taps, block
        )
        deep = taps if axes == 3 else 1
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
                    spot = index[t * block + j]
                    value = image[base + i64(max(spot, I(0)))]
                    found = select(spot >= I(0), A(value), A(0))
                    mass[j] = mass[j] + found * share[t * block + j]
            for j in range(count):
                out[target + j] = T(mass[j])


@loops
def slope_points(
    out: "T*",
    grad: "T*",
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
    padding: int,
    block: int,
    begin: int,
    end: int,
):
    """How each point's samples change with its position, weighed by a gradient.

    Neighbours along a dimension are subtracted before they are weighed: they may cancel.
    """
    place = local("I", 12 * block)
    weight = local("A", 12 * block)
    index = local("I", 16 * block)
    share = local("A", 16 * block)
    value = local("A", 8 * block)
    mass = local("A", 3 * block)
    part = local("A", block)
    plane = depth * height * width
    for lane in range(begin, end):
        batch = lane // blocks
        start = lane % blocks * block
        count = 1 if block == 1 else min(points - start, block)
        first = (batch * points + start) * axes
        list_points(
            place, weight, grid, first, count, depth, height, width, align, axes, 0,
            padding, 2, block,
        )  # fmt: skip
        list_corners(index, share, place, weight, count, height, width, axes, 2, block)
        corners = 8 if axes == 3 else 4
        for j in range(3 * block):
            mass[j] = A(0)
        for channel in range(channels):
            base = (batch * channels + channel) * plane
            source = (batch * channels + channel) * points + start
            for t in range(corners):
                for j in range(count):
                    spot = index[t * block + j]
                    at_spot = image[base + i64(max(spot, I(0)))]
                    value[t * block + j] = select(spot >= I(0), A(at_spot), A(0))
            for axis in range(axes):
                step = 1 << axis
                for t in range(corners):
                    if t & step == 0:
                        low, high = t * block, (t + step) * block
                        # the weights of the other dimensions, by the corner's bits
                        one = 1 if axis == 0 else 0
                        near = (2 * one + (t >> one & 1)) * block
                        two = 1 if axis == 2 else 2
                        far = (2 * two + (t >> two & 1)) * block
                        for j in range(count):
                            change = value[high + j] - value[low + j]
                            scale = weight[near + j]
                            if axes == 3:
                                scale = weight[far + j] * scale
                            found = change * scale
                            part[j] = found if t == 0 else part[j] + found
                for j in range(count):
                    slope = part[j] * A(grad[source + j])
                    mass[axis * block + j] = mass[axis * block + j] + slope
        for axis in range(axes):
            for j in range(count):
                out[first + j * axes + axis] = T(mass[axis * block + j])


@loops
def spread_points(
    out: "T*",
    grad: "T*",
    grid: "T*",
    channels: int,
    depth: int,
    height: int,
    width: int,
    points: int,
    near: int,
    groups: int,
    align: int,
    axes: int,
    mode: int,
    padding: int,
    taps: int,
    block: int,
    begin: int,
    end: int,
):
    """Adds what each sample has of an image's elements to them, for some channels."""
    place = local("I", 12 * block)
    weight = local("A", 12 * block)
    index = local("I", 16 * block)
    share = local("A", 16 * block)
    plane = depth * height * width
    deep = taps if axes == 3 else 1
    total = deep * taps * taps
    for lane in range(begin, end):
        batch = lane // groups
        low = lane % groups * near
        high = min(low + near, channels)
        for k in range((points + block - 1) // block):
            start = k * block
            count = 1 if block == 1 else min(points - start, block)
            first = (batch * points + start) * axes
            list_points(
                place, weight, grid, first, count, depth, height, width, align, axes,
                mode, padding, taps, block,
            )  # fmt: skip
            list_corners(
                index, share, place, weight, count, height, width, axes, taps, block
            )
            for channel in range(low, high):
                base = (batch * channels + channel) * plane
                source = (batch * channels + channel) * points + start
                for t in range(total):
                    for j in range(count):
                        spot = index[t * block + j]
                        # a point outside gives nothing, however large its gradient is
                        if spot >= I(0):
                            part = A(grad[source + j])
                            if mode != 1:
                                part = part * share[t * block + j]
                            at = base + i64(spot)
                            out[at] = T(A(out[at]) + part)


def spread(grad, input, grid, mode, padding, align_corners):
    """The gradient of `sample` by the image; on the host, where additions take turns."""
    grad, grid = grad.contiguous(), grid.contiguous()
    batch, channels, *sizes = input.shape
    out, points, axes = filled(grad, input.shape, 0), prod(grid.shape[1:-1]), len(sizes)
    taps, groups = {0: 2, 1: 1, 2: 4}[mode], -(-channels // NEAR)
    depth, height, width = sizes if axes == 3 else (1, *sizes)
    padding = padding if padding in (1, 2) else 0
    run(
        spread_points, [out, grad, grid],
        [
            channels, depth, height, width, points, NEAR, groups, int(align_corners),
            axes, mode, padding, taps, BLOCK,
        ],
        batch * groups, points * taps**axes * NEAR,
        T=name_of(input.dtype), I="int32" if prod(sizes) <= FARTHEST else "int64",
        axes=axes, mode=mode, padding=padding, taps=taps, block=BLOCK,
    )  # fmt: skip
    return out


def slopes(grad, input, grid, padding, align_corners):
    """`slope_points` of single or double precision; the arguments are those of `sample`."""
    grad, input, grid = grad.contiguous(), input.contiguous(), grid.contiguous()
    batch, channels, *sizes = input.shape
    out, points, axes = fresh(grid, grid.shape), prod(grid.shape[1:-1]), len(sizes)
    block = points_of_list(input)
    blocks, depth = -(-points // block), sizes[0] if axes == 3 else 1
    padding = padding if padding in (1, 2) else 0
    run(
        slope_points, [out, grad, input, grid],
        [
            channels, depth, *sizes[-2:], points, blocks, int(align_corners), axes,
            padding, block,
        ],
        batch * blocks, block * 2**axes * channels,
        T=name_of(input.dtype), I="int32" if prod(sizes) <= FARTHEST else "int64",
        axes=axes, padding=padding, block=block,
    )  # fmt: skip
    return out


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
    block, taps = points_of_list(input), {0: 2, 1: 1, 2: 4}[mode]
    blocks = -(-points // block)
    depth, height, width = sizes if axes == 3 else (1, *sizes)
    padding = padding if padding in (1, 2) else 0
    run(
        sample_points, [out, input, grid],
        [
            channels, depth, height, width, points, blocks, int(align_corners), axes,
            mode, padding, taps, block,
        ],
        batch * blocks, block * taps**axes * channels,
        T=name_of(input.dtype), I="int32" if prod(sizes) <= FARTHEST else "int64",
        axes=axes, mode=mode, padding=padding, taps=taps, block=block,
    )  # fmt: skip
    return out
