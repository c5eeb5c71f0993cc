"""How convolutions of channels-last images are cut, and what integers `pixels` gets."""

import functools
import itertools
import math

from rushlight.kernels.conv.conv_geometry import (
    LARGE_WEIGHT,
    PARALLEL_WORK,
    PIXEL_LANES,
    WINOGRAD_SQUARES,
    Geometry,
    PhaseAxis,
    bands_for,
    grain_of,
)

WINOGRAD_DEPTH = (
    64  # channels whose squares are held, and summed in registers, at a time
)
PIXEL_BLOCK = 132  # positions of a chunk: whole tiles of six rows
PIXEL_DEPTH = (
    288  # elements of patches that are held, and summed in registers, at a time
)
PIXEL_BAND = 256  # output channels of a chunk, at most
PIXEL_LINE = 64  # output channels that fill the lines of a tile
FEW_COLUMNS = 8  # of a product: fewer leave vectors empty


def patch_ints(g, sizes, pixel, channels, grid, first, step, taps, tap):
    """The walk over patches of images of ``pixel`` channels, ``channels`` to a group."""
    adjacent = tap[1] == 1 and g.groups == 1
    run, lines_x = (taps[1], 1) if adjacent else (1, taps[1])
    lines = taps[0] * lines_x
    in_place = taps == (1, 1) and step == (1, 1) and first == (0, 0) and grid == sizes
    block = min(lines, max(1, PIXEL_DEPTH // (run * channels)))
    even = -(-lines // -(-lines // block))
    return (
        *(g.images, *sizes, pixel, channels, *grid, *first, *step),
        *(lines, lines_x, *tap, run, int(not in_place), even),
    )


def bands_of(rows, chunks, work, threads):
    """Output channels of a chunk, and how many bands of them there are."""
    bands = -(-rows // PIXEL_BAND)
    if work > 8 * PARALLEL_WORK:
        bands = bands_for(threads, chunks, bands, rows, PIXEL_LINE)
    lanes = 16
    band = -(-rows // (bands * lanes)) * lanes
    return band, -(-rows // band)


def fills_vectors(g, columns):
    """Whether a product of so many columns fills vectors, and groups fill patches."""
    return columns >= FEW_COLUMNS and (g.groups == 1 or g.group_channels >= FEW_COLUMNS)


def input_walk(input, weight, output, stride, padding, dilation, groups):
    """The `Geometry` and the walk over patches of its input; None where planes are better."""
    g = Geometry(input, weight, output, stride, padding, dilation, groups)
    if len(input) != 4 or not fills_vectors(g, g.group_rows):
        return None
    first = tuple(-p for p in padding)
    walk = patch_ints(
        *(g, input[2:], g.channels, g.group_channels, output, first, stride),
        *(weight[2:], dilation),
    )
    return g, walk


@functools.lru_cache(maxsize=512)
def forward_plan(
    input, weight, output, stride, padding, dilation, groups, biased, threads=1
):
    """Integers, chunks and grain; None where planes are better."""
    found = input_walk(input, weight, output, stride, padding, dilation, groups)
    if found is None:
        return None
    g, walk = found
    blocks = -(-g.images * math.prod(output) // PIXEL_BLOCK)
    band, bands = bands_of(g.group_rows, blocks * groups, g.work, threads)
    chunks = blocks * bands * groups
    ints = (*walk, g.group_rows, band, groups, g.rows, int(biased), *[0] * 5)
    return ints, chunks, grain_of(g.work, chunks)


@functools.lru_cache(maxsize=512)
def input_plan(input, weight, output, stride, padding, dilation, groups, threads=1):
    """Of the input's gradient, whether some positions have no tap, and a run for each phase.

    Returns:
        None where planes are better; else for each phase slices of the taps, in the order
        that the kernel reads them in, and integers, chunks and grain.
    """
    g = Geometry(input, weight, output, stride, padding, dilation, groups)
    if len(input) != 4 or not fills_vectors(g, g.group_channels):
        return None
    gaps, phases = False, []
    for phase in itertools.product(*map(range, map(min, stride, input[2:]))):
        axes = [
            PhaseAxis(*values)
            for values in zip(
                *(phase, input[2:], weight[2:], stride, padding, dilation), strict=True
            )
        ]
        if not all(axis.count for axis in axes):
            continue
        if all(axis.taps for axis in axes):
            run = phase_run(g, input[2:], output, stride, phase, axes, threads)
            phases.append(run)
        else:
            gaps = True
    return gaps, phases


def phase_run(g, sizes, output, stride, phase, axes, threads):
    """Taps, integers, chunks and grain of the positions that see the same taps."""
    grid = tuple(axis.count for axis in axes)
    first = tuple(axis.first + (axis.taps - 1) * axis.step for axis in axes)
    walk = patch_ints(
        *(g, output, g.rows, g.group_rows, grid, first, (1, 1)),
        *(tuple(axis.taps for axis in axes), tuple(-axis.step for axis in axes)),
    )
    blocks = -(-g.images * math.prod(grid) // PIXEL_BLOCK)
    band, bands = bands_of(g.group_channels, blocks * g.groups, g.work, threads)
    chunks = blocks * bands * g.groups
    height, width = sizes
    line = width * g.channels
    ints = (
        *(*walk, g.group_channels, band, g.groups, g.channels, 0),
        *(
            int(stride != (1, 1)),
            height * line,
            stride[0] * line,
            stride[1] * g.channels,
        ),
        phase[0] * line + phase[1] * g.channels,
    )
    return [axis.slice for axis in axes], ints, chunks, grain_of(g.work, chunks)


@functools.lru_cache(maxsize=512)
def weight_plan(input, weight, output, stride, padding, dilation, groups, threads=1):
    """Of the weight's gradient: integers, chunks and parts; None where planes are better."""
    found = input_walk(input, weight, output, stride, padding, dilation, groups)
    if found is None:
        return None
    g, walk = found
    positions = g.images * math.prod(output)
    blocks, parts = -(-positions // PIXEL_BLOCK), 1
    small = g.rows * g.depth < LARGE_WEIGHT
    if g.work >= PARALLEL_WORK and small:
        parts = min(blocks, max(1, 8 // groups))
    band, bands = bands_of(g.group_rows, parts * groups, g.work, threads)
    part = -(-blocks // parts) * PIXEL_BLOCK
    parts = -(-positions // part)
    ints = (*walk, g.group_rows, band, groups, g.rows, part)
    return ints, parts * groups * bands, parts


@functools.lru_cache(maxsize=512)
def winograd_weight_plan(input, weight, output, stride, padding, dilation, groups):
    """The weight's gradient by transformed squares: integers, chunks, parts; or None."""
    g = Geometry(input, weight, output, stride, padding, dilation, groups)
    if not g.is_minimal(PIXEL_LANES):
        return None
    squares = g.images * math.prod(g.squares)
    bands = -(-g.rows // WINOGRAD_DEPTH) * -(-g.channels // WINOGRAD_DEPTH)
    parts = 1
    if g.work >= PARALLEL_WORK:
        parts = max(1, min(-(-8 // bands), squares // (3 * WINOGRAD_SQUARES)))
    part = -(-squares // (parts * WINOGRAD_SQUARES)) * WINOGRAD_SQUARES
    parts = -(-squares // part)
    return (*g.winograd_ints, part), parts * bands, parts
