"""Pooling: one reduction over windows of three axes; missing ones have size one.

A `WindowReduction` says what the elements of a window come to, a kind of windows
(`windows.WindowKind`) where they lie. `over_planes` and `over_pixels` go along them: the
first where columns lie innermost, and vectors hold windows; the second where channels do,
and vectors hold the channels of one window, whose states are kept where results go: those
are in the nearest cache. The thread pool divides planes (batch times channels), or rows of
windows of images.

Gradients are scattered over a plane, or an image, and gathered where an item is an element.
That is the ``collapsed`` form of loops over planes, for devices of many threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from rushlight.codegen.language import trunc_div
from rushlight.codegen.loops import (
    A,
    T,
    i64,
    is_float,
    loops,
    loops_inline,
    lowest,
    vectorized,
)
from rushlight.kernels.window.windows import (
    AXIS,
    EVEN,
    INSIDE,
    SINGLE,
    STRIDED,
    WHOLE,
    inside_span,
)


class WindowReduction(NamedTuple):
    """What the elements of a window come to; a state is a value and a place.

    Attributes:
        name: of the operation, which begins the names of its kernels.
        start: the state before the first element, of which the place is given.
        step: the state with an element more.
        finish: the value, of a state's and of how many elements count; None: as it is.
    """

    name: str
    start: Callable
    step: Callable
    finish: Callable | None = None


@loops_inline
def none_larger(first):
    """What any element is larger than, at the place of the first."""
    return lowest(T), first


@loops_inline
def larger(best, place, v, here):
    """The larger of two, and its place; of NaNs the last."""
    above = v > best or v != v
    return v if above else best, here if above else place


@loops_inline
def no_mass(first):
    """The sum of nothing, which is nowhere."""
    return A(0), i64(0)


@loops_inline
def more_mass(mass, place, v, here):
    """A sum with an element more."""
    return mass + A(v), place


@loops_inline
def share(mass, count):
    """The mean: exact for floats, rounded towards zero for integers."""
    if is_float(A):
        mean = mass / A(count)
    else:
        mean = trunc_div(mass, A(count))
    return mean


PIECE = 16  # elements of a row that are looked at together
LARGEST = WindowReduction("max_pool", none_larger, larger)
MEAN = WindowReduction("avg_pool", no_mass, more_mass, share)


@loops_inline
def keep(out, index, placed, at, value, place):
    """Writes a state, its place where that is wanted."""
    out[at] = T(value)
    if placed != 0:
        index[at] = place


@loops_inline
def kept(out, index, placed, at):
    """Reads a state: one of a type that sums are kept in."""
    return out[at], index[at] if placed != 0 else i64(0)


@loops_inline
def chosen(divisor, count):
    """What an average divides by: a number that was given, or how many there are."""
    either = i64(count)
    if divisor != 0:
        either = divisor
    return either


def of_row(reduction):
    """The state with a row of a window more."""
    step = reduction.step

    @loops_inline
    def row(value, place, x, here, first, taps, gap):
        for k in range(taps):
            value, place = step(value, place, x[here + k * gap], first + k * gap)
        return value, place

    return row


larger_of_row = of_row(LARGEST)


@loops_inline
def larger_of_piece(best, place, x, here, first, taps, gap):
    """The largest with a few elements, which seldom are larger: a vector tells."""
    above = False
    for k in range(here, here + taps):
        above = above | (x[k] > best) | (x[k] != x[k])
    if above:
        best, place = larger_of_row(best, place, x, here, first, taps, gap)
    return best, place


@loops_inline
def larger_of_many(best, place, x, here, first, taps, gap):
    """The largest with a row of any length, piece by piece."""
    if taps <= PIECE:
        best, place = larger_of_piece(best, place, x, here, first, taps, gap)
    else:
        for start in range(0, taps, PIECE):
            n = min(taps - start, PIECE)
            at, to = here + start, first + start
            best, place = larger_of_piece(best, place, x, at, to, n, gap)
    return best, place


def window_of_plane(reduction, kind):
    """The loops over one window, whose state stays in registers."""
    start, finish = reduction.start, reduction.finish
    counts, row = finish is not None, of_row(reduction)
    if reduction is LARGEST and kind is EVEN:
        row = larger_of_many

    @loops_inline
    def window(at, out, index, placed, plane, zs, ys, xs, count):
        x, begins, height, width = plane
        z0, nz, dz = zs
        y0, ny, dy = ys
        x0, nx, dx = xs
        value, place = start((z0 * height.size + y0) * width.size + x0)
        for i in range(nz):
            for j in range(ny):
                line = ((z0 + i * dz) * height.size + y0 + j * dy) * width.size
                here = begins + line + x0
                value, place = row(value, place, x, here, line + x0, nx, dx)
        if counts:
            value = finish(value, count)
        keep(out, index, placed, at, value, place)

    return window


def over_planes(reduction, kind):
    """Reduces the windows of planes."""
    span, extent, inside = kind.span, kind.extent, kind.inside
    window, by_vectors = window_of_plane(reduction, kind), inside is not None

    @loops_inline
    def singly(first, last, at, out, index, placed, plane, zs, ys, rule):
        x, begins, height, width = plane
        rows, padded, divisor = rule
        for c in range(first, last):
            n = chosen(divisor, rows * extent(c, width, padded))
            window(at + c, out, index, placed, plane, zs, ys, span(c, width), n)

    @loops_inline
    def line(place, zs, ys, at, out, index, placed, plane, depth, rule):
        z, y = place
        x, begins, height, width = plane
        rows, padded, divisor = rule
        if by_vectors:
            first, last = inside(zs, ys, depth, height, width)
            deep, high = inside_span(z, depth), inside_span(y, height)
            n = chosen(divisor, depth.taps * height.taps * width.taps)
            singly(0, first, at, out, index, placed, plane, zs, ys, rule)
            for c in vectorized(first, last):
                xs = inside_span(c, width)
                window(at + c, out, index, placed, plane, deep, high, xs, n)
            singly(last, width.count, at, out, index, placed, plane, zs, ys, rule)
        else:
            singly(0, width.count, at, out, index, placed, plane, zs, ys, rule)

    def kernel(
        out: "T*",
        index: "i64*",
        x: "T*",
        depth: AXIS,
        height: AXIS,
        width: AXIS,
        placed: int,
        padded: int,
        divisor: int,
        begin: int,
        end: int,
    ):
        for p in range(begin, end):
            for z in range(depth.count):
                zs, layers = span(z, depth), extent(z, depth, padded)
                for y in range(height.count):
                    ys = span(y, height)
                    rule = layers * extent(y, height, padded), padded, divisor
                    at = ((p * depth.count + z) * height.count + y) * width.count
                    plane = x, p * depth.size * height.size * width.size, height, width
                    place = z, y
                    line(place, zs, ys, at, out, index, placed, plane, depth, rule)

    return kernel


def window_of_pixels(reduction):
    """The loops over one window, whose states are kept where results go."""
    start, step, finish = reduction.start, reduction.step, reduction.finish
    counts = finish is not None

    @loops_inline
    def begun(out, index, placed, at, first):
        value, place = start(first)
        keep(out, index, placed, at, value, place)

    @loops_inline
    def joined(out, index, placed, at, v, here):
        before, origin = kept(out, index, placed, at)
        value, place = step(before, origin, v, here)
        keep(out, index, placed, at, value, place)

    @loops_inline
    def finished(out, index, placed, at, count):
        value, place = kept(out, index, placed, at)
        keep(out, index, placed, at, finish(value, count), place)

    @loops_inline
    def window(at, out, index, placed, pixels, zs, ys, xs, count):
        x, begins, height, width, channels = pixels
        z0, nz, dz = zs
        y0, ny, dy = ys
        x0, nx, dx = xs
        for n in vectorized(0, channels):
            begun(out, index, placed, at + n, (z0 * height.size + y0) * width.size + x0)
        for i in range(nz):
            for j in range(ny):
                row = (z0 + i * dz) * height.size + y0 + j * dy
                for k in range(nx):
                    here = row * width.size + x0 + k * dx
                    pixel = (begins + here) * channels
                    for n in vectorized(0, channels):
                        joined(out, index, placed, at + n, x[pixel + n], here)
        if counts:
            for n in vectorized(0, channels):
                finished(out, index, placed, at + n, count)

    return window


def over_pixels(reduction, kind):
    """Reduces the windows of images by channels; an item is a row of windows."""
    span, extent, window = kind.span, kind.extent, window_of_pixels(reduction)

    def kernel(
        out: "T*",
        index: "i64*",
        x: "T*",
        depth: AXIS,
        height: AXIS,
        width: AXIS,
        placed: int,
        padded: int,
        divisor: int,
        channels: int,
        begin: int,
        end: int,
    ):
        size = depth.size * height.size * width.size
        for line in range(begin, end):
            image = line // height.count // depth.count
            z, y = line // height.count % depth.count, line % height.count
            zs, ys = span(z, depth), span(y, height)
            rows = extent(z, depth, padded) * extent(y, height, padded)
            pixels = x, image * size, height, width, channels
            for c in range(width.count):
                count = chosen(divisor, rows * extent(c, width, padded))
                at = (line * width.count + c) * channels
                window(at, out, index, placed, pixels, zs, ys, span(c, width), count)

    return kernel


def avg_pool_scatter(by_pixels, kind):
    """Shares each output's gradient among the elements of its window."""
    span, extent = kind.span, kind.extent

    @loops_inline
    def give_back(grad_input, image, zs, ys, xs, grad, at, count, channels):
        layer, height, width = image
        z0, nz, dz = zs
        y0, ny, dy = ys
        x0, nx, dx = xs
        g = A(grad[at]) / A(count)
        for i in range(nz):
            for j in range(ny):
                row = (layer + z0 + i * dz) * height.size + y0 + j * dy
                first = row * width.size + x0
                for k in range(nx):
                    to = (first + k * dx) * channels
                    if by_pixels:
                        for n in vectorized(0, channels):
                            own = A(grad[at + n]) / A(count)
                            grad_input[to + n] = T(A(grad_input[to + n]) + own)
                    else:
                        grad_input[to] = T(A(grad_input[to]) + g)

    def kernel(
        grad_input: "T*",
        grad: "T*",
        depth: AXIS,
        height: AXIS,
        width: AXIS,
        padded: int,
        divisor: int,
        channels: int,
        begin: int,
        end: int,
    ):
        for p in range(begin, end):
            size = depth.size * height.size * width.size * channels
            for r in range(p * size, (p + 1) * size):
                grad_input[r] = T(0)
            image = p * depth.size, height, width
            for z in range(depth.count):
                zs, layers = span(z, depth), extent(z, depth, padded)
                for y in range(height.count):
                    ys, rows = span(y, height), layers * extent(y, height, padded)
                    line = ((p * depth.count + z) * height.count + y) * width.count
                    for c in range(width.count):
                        xs = span(c, width)
                        n = chosen(divisor, rows * extent(c, width, padded))
                        at = (line + c) * channels
                        give_back(grad_input, image, zs, ys, xs, grad, at, n, channels)

    return kernel


def gather(reduction, kind):
    """Adds what the windows over an element give back to it."""
    extent, cover = kind.extent, kind.cover
    counts = reduction.finish is not None

    def kernel(
        grad_input: "T*",
        grad: "T*",
        index: "i64*",
        depth: AXIS,
        height: AXIS,
        width: AXIS,
        padded: int,
        divisor: int,
        begin: int,
        end: int,
    ):
        for p in range(begin, end):
            for z in range(depth.size):
                z0, z1 = cover(z, depth)
                for y in range(height.size):
                    y0, y1 = cover(y, height)
                    for c in range(width.size):
                        x0, x1 = cover(c, width)
                        place = (z * height.size + y) * width.size + c
                        total = A(0)
                        for i in range(z0, z1):
                            for j in range(y0, y1):
                                rows = extent(i, depth, padded) * extent(
                                    j, height, padded
                                )
                                row = (p * depth.count + i) * height.count + j
                                row = row * width.count
                                for k in range(x0, x1):
                                    g = A(grad[row + k])
                                    if counts:
                                        n = rows * extent(k, width, padded)
                                        g = g / A(chosen(divisor, n))
                                    else:
                                        g = g if index[row + k] == place else A(0)
                                    total = total + g
                        size = depth.size * height.size * width.size
                        grad_input[p * size + place] = T(total)

    return kernel


def kernels_of(name, make, *kinds):
    """The kernels that ``make`` defines for kinds of windows, by the kinds' names."""
    found = {}
    for kind in kinds:
        function = make(kind)
        function.__name__, function.__doc__ = f"{name}_{kind.name}", make.func.__doc__
        found[kind.name] = loops(function)
    return found


def both(name, of_planes, of_pixels):
    """The same of kinds of windows of planes, and of those of pixels."""
    return kernels_of(name, of_planes, *PLANES) | kernels_of(name, of_pixels, *PIXELS)


def forward(reduction):
    """The kernels of a reduction."""
    ways = partial(over_planes, reduction), partial(over_pixels, reduction)
    return both(reduction.name, *ways)


PLANES = INSIDE, STRIDED, SINGLE, WHOLE, EVEN
PIXELS = STRIDED._replace(name="pixels"), EVEN._replace(name="even_pixels")
max_pools, avg_pools = forward(LARGEST), forward(MEAN)
max_pool_gathers = kernels_of("max_pool_gather", partial(gather, LARGEST), SINGLE, EVEN)
avg_pool_gathers = kernels_of("avg_pool_gather", partial(gather, MEAN), SINGLE, EVEN)
avg_pool_scatters = both(
    "avg_pool_scatter",
    partial(avg_pool_scatter, False),
    partial(avg_pool_scatter, True),
)


@loops
def avg_pool_tiles(
    grad_input: "T*",
    grad: "T*",
    depth: AXIS,
    height: AXIS,
    width: AXIS,
    padded: int,
    divisor: int,
    begin: int,
    end: int,
):
    """`avg_pool_scatter` of windows that touch but don't overlap: one write an element."""
    for p in range(begin, end):
        count = depth.taps * height.taps * width.taps
        if divisor != 0:
            count = divisor
        for i in range(depth.size):
            for j in range(height.size):
                line = ((p * depth.size + i) * height.size + j) * width.size
                filled = 0
                if i < depth.count * depth.taps and j < height.count * height.taps:
                    row = p * depth.count + i // depth.taps
                    row = (row * height.count + j // height.taps) * width.count
                    for c in vectorized(width.count):
                        g = A(grad[row + c]) / A(count)
                        for k in range(width.taps):
                            grad_input[line + c * width.taps + k] = T(g)
                    filled = width.count * width.taps
                for r in range(filled, width.size):
                    grad_input[line + r] = T(0)


avg_pool_scatters["tiles"] = avg_pool_tiles


@loops
def max_pool_scatter(
    grad_input: "T*",
    grad: "T*",
    index: "i64*",
    fault: "i64*",
    size: int,
    count: int,
    channels: int,
    begin: int,
    end: int,
):
    """Adds each output's gradient to the element its value came from."""
    for p in range(begin, end):
        for s in range(size * channels):
            grad_input[p * size * channels + s] = T(0)
        for o in range(count):
            for n in range(channels):
                here = (p * count + o) * channels + n
                at = index[here]
                if at < 0 or at >= size:
                    fault[0] = at
                else:
                    to = (p * size + at) * channels + n
                    grad_input[to] = grad_input[to] + grad[here]


@loops
def find_outside(index: "i64*", fault: "i64*", size: int, begin: int, end: int):
    """Notes a place that is outside of its plane."""
    for at in range(begin, end):
        if index[at] < 0 or index[at] >= size:
            fault[0] = index[at]


@loops
def max_unpool_place(
    out: "T*",
    x: "T*",
    index: "i64*",
    fault: "i64*",
    size: int,
    count: int,
    begin: int,
    end: int,
):
    """Puts every value at its place in a plane of zeros; of several the last stays."""
    for p in range(begin, end):
        for s in range(size):
            out[p * size + s] = T(0)
        for o in range(count):
            at = index[p * count + o]
            if at < 0 or at >= size:
                fault[0] = at
            else:
                out[p * size + at] = x[p * count + o]


_HALVING = {"T": "float32", "width_count": 16, "divisor": 0, "placed": 1}
for _axis, _taps in (("depth", 1), ("height", 2), ("width", 2)):
    _HALVING |= {f"{_axis}_taps": _taps, f"{_axis}_stride": _taps}
    _HALVING |= {f"{_axis}_pad": 0, f"{_axis}_dilation": 1}
for _kernel in (max_pools["inside"], avg_pools["inside"], avg_pool_tiles):
    _kernel.example = _HALVING
