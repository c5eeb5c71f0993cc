"""Convolutions of one channel each as a tensor expression, and schedules of it.

What is computed is said once (`Expression`): planes with zeros around them, their columns
apart by the step, and sums over taps. `for_host` keeps a tile of sums in registers and a
band of a plane in the cache; `for_device` gives each element of the result a thread.

`depthwise` writes the loops of small filters and steps by hand, for planes of any size.
Here are the other ones, built for the sizes that they have.
"""

from rushlight.codegen.language import select
from rushlight.codegen.target import current
from rushlight.ir.expr import Type
from rushlight.tensor_expressions.expressions import (
    compute,
    placeholder,
    reduce_axis,
    sum,
)
from rushlight.tensor_expressions.lower import lower
from rushlight.tensor_expressions.schedule import create_schedule

VECTOR_BYTES = 64  # of a tile of sums
BAND_BYTES = 1 << 16  # of a plane's rows that stay in the cache
FEW_TAPS = 49  # that are written out
IMAGES = 1 << 32  # more than there are: a kernel is told its planes by its range


class Expression:
    """A depthwise convolution of images of one size.

    Args:
        g: the `Geometry`.
        images: how many there are, or may be.
        dtype: name of the operands' dtype.
        biased: whether something is added to each output channel.
        tile: rows and columns that the sums are made in multiples of.

    Attributes:
        arguments: output, weight, input, and the bias where there is one.
        lines: the input with zeros around its planes.
        phases: its columns apart by the step, where that is not one.
        totals: the sums, with the bias.
        out: what is left of them without the rest of the tiles.
    """

    def __init__(self, g, images, dtype, biased, tile=(1, 1)):
        self.g, self.planes = g, (images * g.channels, g.group_rows)
        rows, columns = (-(-n // t) * t for n, t in zip(g.output[1:], tile))
        filters = g.channels, g.group_rows
        x = placeholder((self.planes[0], *g.input[1:]), dtype, "input")
        weight = placeholder((*filters, *g.kernel[1:]), dtype, "weight")
        bias = placeholder(filters, dtype, "bias")
        self.lines = self.padded(x, rows, columns, tile[1])
        self.phases = self.deinterleaved() if g.stride[2] > 1 else None
        self.totals = self.summed(weight, bias if biased else None, rows, columns)
        self.out = self.totals
        if tile != (1, 1):
            shape = *self.planes, *g.output[1:]
            self.out = compute(shape, lambda p, m, y, x: self.totals[p, m, y, x], "out")
        self.arguments = [self.out, weight, x, *([bias] if biased else [])]

    def padded(self, x, rows, columns, multiple):
        """Planes with zeros around them, as wide as the last tile sees."""
        _, height, width = x.shape
        _, down, across = self.g.stride
        _, top, left = self.g.padding
        reach = [d * (taps - 1) for d, taps in zip(self.g.dilation, self.g.kernel)]
        tall = (rows - 1) * down + reach[1] + 1
        wide = -(-(columns + reach[2] // across) // multiple) * multiple * across

        def element(p, i, j):
            y, z = i - top, j - left
            inside = (y >= 0) & (y < height) & (z >= 0) & (z < width)
            return select(inside, x[p, y, z], 0)

        return compute((x.shape[0], tall, wide), element, "lines")

    def deinterleaved(self):
        """Every column by itself that a step passes over: then vectors are dense."""
        planes, tall, wide = self.lines.shape
        step = self.g.stride[2]
        return compute(
            (planes, tall, step, wide // step),
            lambda p, y, phase, x: self.lines[p, y, x * step + phase],
            "phases",
        )

    def summed(self, weight, bias, rows, columns):
        """The sums over a filter's taps."""
        g = self.g
        r, q = (reduce_axis((0, n), name) for n, name in zip(g.kernel[1:], "rq"))
        (_, down, step), far = g.stride, q * g.dilation[2]

        def seen(p, y, x):
            row = y * down + r * g.dilation[1]
            if self.phases is None:
                return self.lines[p, row, x + far]
            return self.phases[p, row, far % step, x + far // step]

        def element(p, m, y, x):
            c = p % g.channels
            total = sum(seen(p, y, x) * weight[c, m, r, q], axis=(r, q))
            return total if bias is None else total + bias[c, m]

        return compute((*self.planes, rows, columns), element, "totals")


def for_host(name, g, dtype, biased):
    """The kernel whose chunks are input planes, of as many images as there are.

    Args:
        name: of the function.
        g, dtype, biased: as `Expression` has them.
    """
    tile = tall, lanes = current().registers // 4, VECTOR_BYTES // Type(dtype).itemsize
    e = Expression(g, IMAGES, dtype, biased, tile)
    s = create_schedule(e.out)
    p, m, y, x = e.out.axis
    bands, y = s[e.out].split(y, band_of(e, tall, Type(dtype).itemsize))
    s[e.out].reorder(bands, m)
    rows, columns, row, lane = s[e.out].tile(y, x, tall, lanes)
    s[e.out].unroll(row)
    s[e.out].vectorize(lane)
    s[e.out].parallel(p)

    if e.phases is None:
        s[e.lines].compute_at(s[e.out], bands)
    else:
        s[e.phases].compute_at(s[e.out], bands)
        s[e.lines].compute_at(s[e.phases], e.phases.axis[1])
        _, _, phase, x = e.phases.axis
        pieces, piece = s[e.phases].split(x, lanes)
        s[e.phases].reorder(pieces, piece, phase)
        s[e.phases].vectorize(piece)
        s[e.phases].unroll(phase)
    pieces, piece = s[e.lines].split(e.lines.axis[2], lanes)
    s[e.lines].vectorize(piece)

    sums = s[e.totals]
    sums.compute_at(s[e.out], columns)
    *_, row, lane = e.totals.axis
    sums.reorder(*sums.reduce_axis, row, lane)
    sums.unroll(row)
    sums.vectorize(lane)
    for axis in sums.reduce_axis[0 if g.taps <= FEW_TAPS else 1 :]:
        sums.unroll(axis)
    ((function, _, _),) = lower(s, e.arguments, name).functions
    return function


def band_of(e, tall, itemsize):
    """Rows of results whose input stays in the cache, in whole tiles and alike."""
    tiles = e.totals.shape[2] // tall
    row = e.lines.shape[2] * itemsize * e.g.stride[1] * tall
    bands = -(-tiles * row // BAND_BYTES)
    return -(-tiles // bands) * tall


def for_device(g, images, dtype, biased):
    """The schedule of threads that have an element each, and its arguments."""
    e = Expression(g, images, dtype, biased)
    s = create_schedule(e.out)
    for stage in (e.lines, e.phases):
        if stage is not None:
            s[stage].compute_inline()
    return s, e.arguments
