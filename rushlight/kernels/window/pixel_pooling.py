"""Pooling of images whose channels lie innermost: vectors hold channels of one window.

Results of a window are kept where they go while its elements come by: they are in the
nearest cache. An item of maxima and means is a row of windows, one of their gradients an image.
"""

from __future__ import annotations

from rushlight.codegen.loops import A, T, i64, loops, loops_inline, lowest, vectorized
from rushlight.kernels.window.pooling_kernels import chosen, for_kinds
from rushlight.kernels.window.windows import AXIS, EVEN, STRIDED


@loops_inline
def keep_larger(results, to, x, start, place, channels):
    """The larger of what is kept and of a pixel, for each channel, and its place."""
    out, index, placed = results
    for n in vectorized(0, channels):
        v = x[start + n]
        best = out[to + n]
        larger = v > best or v != v
        out[to + n] = v if larger else best
        if placed != 0:
            index[to + n] = place if larger else index[to + n]


@loops_inline
def largest(at, results, image, zs, ys, xs):
    """The largest of each channel in a window, and its place where ``placed``."""
    out, index, placed = results
    x, start, height, width, channels = image
    z0, nz, dz = zs
    y0, ny, dy = ys
    x0, nx, dx = xs
    to = at * channels
    for n in vectorized(0, channels):
        out[to + n] = lowest(T)
        if placed != 0:
            index[to + n] = (z0 * height.size + y0) * width.size + x0
    for i in range(nz):
        for j in range(ny):
            row = (z0 + i * dz) * height.size + y0 + j * dy
            for k in range(nx):
                place = row * width.size + x0 + k * dx
                keep_larger(results, to, x, start + place * channels, place, channels)


def max_pool(kind):
    """Largest of each window, and its place where ``placed``; of NaNs the last."""
    span = kind.span

    def kernel(
        out: "T*",
        index: "i64*",
        x: "T*",
        depth: AXIS,
        height: AXIS,
        width: AXIS,
        placed: int,
        channels: int,
        begin: int,
        end: int,
    ):
        for p in range(begin, end):
            rest = p // height.count
            zs, ys = span(rest % depth.count, depth), span(p % height.count, height)
            size = depth.size * height.size * width.size * channels
            image = x, rest // depth.count * size, height, width, channels
            to = out, index, placed
            for c in range(width.count):
                largest(p * width.count + c, to, image, zs, ys, span(c, width))

    return kernel


@loops_inline
def mean(at, out, image, zs, ys, xs, count):
    """The sum of each channel in a window over a number."""
    x, start, height, width, channels = image
    to = at * channels
    for n in vectorized(0, channels):
        out[to + n] = T(0)
    z0, nz, dz = zs
    y0, ny, dy = ys
    x0, nx, dx = xs
    for i in range(nz):
        for j in range(ny):
            row = (z0 + i * dz) * height.size + y0 + j * dy
            for k in range(nx):
                place = start + (row * width.size + x0 + k * dx) * channels
                for n in vectorized(0, channels):
                    out[to + n] = out[to + n] + x[place + n]
    for n in vectorized(0, channels):
        out[to + n] = out[to + n] / T(count)


def avg_pool(kind):
    """Mean of each window: over ``divisor``, or over as many elements as it has."""
    span, extent = kind.span, kind.extent

    def kernel(
        out: "T*",
        x: "T*",
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
            rest = p // height.count
            z, y = rest % depth.count, p % height.count
            zs, ys = span(z, depth), span(y, height)
            rows = extent(z, depth, padded) * extent(y, height, padded)
            size = depth.size * height.size * width.size * channels
            image = x, rest // depth.count * size, height, width, channels
            for c in range(width.count):
                count = chosen(divisor, rows * extent(c, width, padded))
                mean(p * width.count + c, out, image, zs, ys, span(c, width), count)

    return kernel


@loops_inline
def share(grad_input, start, grad, at, count, channels):
    """Adds a share of a window's gradients to an element's."""
    for n in vectorized(0, channels):
        g = A(grad[at + n]) / A(count)
        grad_input[start + n] = T(A(grad_input[start + n]) + g)


def avg_pool_scatter(kind):
    """Shares each output's gradient among the elements of its window."""
    span, extent = kind.span, kind.extent

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
            for r in range(size):
                grad_input[p * size + r] = T(0)
            windows = depth.count * height.count * width.count
            for o in range(windows):
                z, y = o // width.count // height.count, o // width.count % height.count
                c = o % width.count
                z0, nz, dz = span(z, depth)
                y0, ny, dy = span(y, height)
                x0, nx, dx = span(c, width)
                rows = extent(z, depth, padded) * extent(y, height, padded)
                count = chosen(divisor, rows * extent(c, width, padded))
                at = (p * windows + o) * channels
                for t in range(nz * ny * nx):
                    line = (z0 + t // nx // ny * dz) * height.size
                    line = (line + y0 + t // nx % ny * dy) * width.size
                    here = p * size + (line + x0 + t % nx * dx) * channels
                    share(grad_input, here, grad, at, count, channels)

    return kernel


PIXELS = STRIDED._replace(name="pixels"), EVEN._replace(name="even_pixels")
max_pools = for_kinds(max_pool, *PIXELS)
avg_pools = for_kinds(avg_pool, *PIXELS)
avg_pool_scatters = for_kinds(avg_pool_scatter, *PIXELS)


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
