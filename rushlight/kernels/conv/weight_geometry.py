"""How gradients of convolutions' weights are cut into parts, and their integers."""

import functools
import math

from rushlight.kernels.conv.conv_geometry import (
    BAND,
    COLUMNS,
    LARGE_WEIGHT,
    NOTHING,
    PACKING,
    PARALLEL_WORK,
    Geometry,
    bands_for,
    together,
)

WEIGHT_TILES, WEIGHT_POSITIONS = 128, 1024  # see `convolution_direct`
NEAR_TILES = 24  # tiles of sums that stay in the first-level cache
FEW_ROWS = 32  # that patches are not worth being written for, if tiles are further away
# What a gradient is cut into, at least and most
PARTS, MOST_PARTS = 8, 64
PART_WORK = 1 << 28  # products of a part, where there are more than a few


def parts_wanted(work):
    """How many parts a weight's gradient is to have: its size says so, not the threads that
    there are, for each part has a sum of its own.

    Args:
        work: how many products there are.

    >>> parts_wanted(1 << 20), parts_wanted(1 << 32), parts_wanted(1 << 40)
    (8, 16, 64)
    """
    parts = PARTS
    while parts < MOST_PARTS and parts * 2 * PART_WORK <= work:
        parts *= 2
    return parts


@functools.lru_cache(maxsize=512)
def weight_plan(
    input, weight, output, stride, padding, dilation, groups, block, threads=1
):
    """The kernel, margins of the input, integers, chunks and the parts' shape.

    Args:
        block: output channels that the kernel takes at a time (`weight_block`).
        threads: how many there are, which bands follow: those have no sums of their own.
    """
    g = Geometry(input, weight, output, stride, padding, dilation, groups)
    if g.has_planes:
        return depthwise_weight_plan(g)
    positions = math.prod(g.output)
    held = together(g.images, positions)
    width = min(COLUMNS, held * positions)
    columns = g.group_rows
    across = -(-columns // block)
    size, wanted = g.rows * g.depth, parts_wanted(g.work)
    parts = bands = 1
    if g.work >= PARALLEL_WORK:
        if size < LARGE_WEIGHT:
            parts = min(-(-g.images // held), max(1, wanted // (groups * across)))
        bands = bands_for(threads, parts * groups * across, 1, g.depth, BAND)
    tiles = -(-(g.depth + 1) // 4) * -(-columns // 6)
    direct = g.is_direct(PACKING, g.output) and (
        tiles <= NEAR_TILES
        or g.is_wide
        and columns <= FEW_ROWS
        and tiles <= WEIGHT_TILES
    )
    if direct:
        held, bands, across = 1, 1, 1
        width = -(-positions // -(-positions // WEIGHT_POSITIONS))
        parts = 1 if g.work < PARALLEL_WORK else min(g.images, wanted)
    per_part = -(-g.images // (parts * held)) * held
    parts = -(-g.images // per_part)
    margins, walk = g.patches()
    ints = (
        *walk,
        1,
        g.images,
        held,
        width,
        g.depth,
        BAND,
        groups,
        g.group_channels,
        parts,
        per_part,
        columns,
        bands,
        g.rows * positions,
        positions,
    )
    chunks = parts * groups * across * bands
    kind = "few_weights" if direct else "weight_gradient"
    return kind, g.input, margins, ints, chunks, (parts, groups, g.depth + 1, columns)


def depthwise_weight_plan(g):
    """`weight_plan` where each output channel has one input channel."""
    parts = 1 if g.work < PARALLEL_WORK else min(g.images, parts_wanted(g.work))
    per_part = -(-g.images // parts)
    parts = -(-g.images // per_part)
    ints = (
        *(g.channels, g.rows, g.group_rows, *g.input[1:], *g.output[1:]),
        *(*g.padding[1:], g.dilation[2], g.images, per_part, g.rows // g.group_rows),
    )
    kind = "_".join(map(str, ("depthwise_weights", *g.kernel[1:], *g.stride[1:])))
    shape = parts, g.rows // g.group_rows, g.depth + 1, g.group_rows
    return kind, g.input, NOTHING, ints, parts * g.rows, shape
