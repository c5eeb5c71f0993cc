"""Pooling: one reduction over windows of three axes; missing ones have size one.

`max_pool`, `avg_pool` and their gradients are each defined once, and made for a kind of
windows (`windows.WindowKind`). As written, a kernel goes over planes (batch times
channels), which are independent: the host's thread pool divides them. Its ``collapsed``
form has an element to an item, for devices of many threads. Gradients are scattered where
an item is a plane, and gathered where it is an element.
"""

from __future__ import annotations

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
    inside_span,
)


def for_kinds(make, *kinds):
    """The kernels that ``make`` defines for kinds of windows, by the kinds' names."""
    found = {}
    for kind in kinds:
        function = make(kind)
        function.__name__ = f"{make.__name__}_{kind.name}"
        function.__doc__ = make.__doc__
        found[kind.name] = loops(function)
    return found


cover = STRIDED.cover


@loops_inline
def larger_of(best, place, x, plane, first, taps, step):
    """The largest of a row of a window and its place, where it is above ``best``."""
    for k in range(taps):
        here = first + k * step
        v = x[plane + here]
        larger = v > best or v != v
        best = v if larger else best
        place = here if larger else place
    return best, place


@loops_inline
def larger_of_many(best, place, x, plane, first, taps, step):
    """The same for long rows, seldom of which hold anything larger: a vector tells."""
    above = False
    for k in range(first, first + taps):
        v = x[plane + k]
        above = above | (v > best) | (v != v)
    if above:
        best, place = larger_of(best, place, x, plane, first, taps, step)
    return best, place


def max_pool(kind):
    """Largest of each window, and its place where ``placed``; of NaNs the last."""
    span, inside = kind.span, kind.inside
    by_vectors = inside is not None
    larger = larger_of_many if kind is EVEN else larger_of

    @loops_inline
    def put(at, results, plane, zs, ys, xs):
        out, index, placed = results
        x, start, height, width = plane
        z0, nz, dz = zs
        y0, ny, dy = ys
        x0, nx, dx = xs
        place = (z0 * height.size + y0) * width.size + x0
        best = lowest(T)
        for i in range(nz):
            for j in range(ny):
                row = (z0 + i * dz) * height.size + y0 + j * dy
                first = row * width.size + x0
                best, place = larger(best, place, x, start, first, nx, dx)
        out[at] = best
        if placed != 0:
            index[at] = place

    def kernel(
        out: "T*",
        index: "i64*",
        x: "T*",
        depth: AXIS,
        height: AXIS,
        width: AXIS,
        placed: int,
        begin: int,
        end: int,
    ):
        for p in range(begin, end):
            for z in range(depth.count):
                zs = span(z, depth)
                for y in range(height.count):
                    ys = span(y, height)
                    at = ((p * depth.count + z) * height.count + y) * width.count
                    plane = x, p * depth.size * height.size * width.size, height, width
                    to = out, index, placed
                    if by_vectors:
                        first, last = inside(zs, ys, depth, height, width)
                        deep, high = inside_span(z, depth), inside_span(y, height)
                        for c in range(first):
                            put(at + c, to, plane, zs, ys, span(c, width))
                        for c in vectorized(first, last):
                            put(at + c, to, plane, deep, high, inside_span(c, width))
                        for c in range(last, width.count):
                            put(at + c, to, plane, zs, ys, span(c, width))
                    else:
                        for c in range(width.count):
                            put(at + c, to, plane, zs, ys, span(c, width))

    return kernel


@loops_inline
def share(mass, count):
    """The mean: exact for floats, rounded towards zero for integers."""
    if is_float(A):
        mean = mass / A(count)
    else:
        mean = trunc_div(mass, A(count))
    return mean


@loops_inline
def sum_of(plane, zs, ys, xs):
    """The sum of a window."""
    x, start, height, width = plane
    z0, nz, dz = zs
    y0, ny, dy = ys
    x0, nx, dx = xs
    mass = A(0)
    for i in range(nz):
        for j in range(ny):
            row = (z0 + i * dz) * height.size + y0 + j * dy
            for k in range(nx):
                mass = mass + A(x[start + row * width.size + x0 + k * dx])
    return mass


@loops_inline
def chosen(divisor, count):
    """What an average divides by: a number that was given, or how many there are."""
    either = i64(count)
    if divisor != 0:
        either = divisor
    return either


def avg_pool(kind):
    """Mean of each window: over ``divisor``, or over as many elements as it has."""
    span, extent, inside = kind.span, kind.extent, kind.inside
    by_vectors = inside is not None

    @loops_inline
    def put(at, out, plane, zs, ys, xs, count):
        out[at] = T(share(sum_of(plane, zs, ys, xs), count))

    @loops_inline
    def count_of(c, over, rows):
        width, padded, divisor = over
        return chosen(divisor, rows * extent(c, width, padded))

    def kernel(
        out: "T*",
        x: "T*",
        depth: AXIS,
        height: AXIS,
        width: AXIS,
        padded: int,
        divisor: int,
        begin: int,
        end: int,
    ):
        for p in range(begin, end):
            for z in range(depth.count):
                zs = span(z, depth)
                layers = extent(z, depth, padded)
                for y in range(height.count):
                    ys = span(y, height)
                    rows = layers * extent(y, height, padded)
                    at = ((p * depth.count + z) * height.count + y) * width.count
                    plane = x, p * depth.size * height.size * width.size, height, width
                    over = width, padded, divisor
                    if by_vectors:
                        first, last = inside(zs, ys, depth, height, width)
                        deep, high = inside_span(z, depth), inside_span(y, height)
                        n = chosen(divisor, depth.taps * height.taps * width.taps)
                        for c in range(first):
                            n_c = count_of(c, over, rows)
                            put(at + c, out, plane, zs, ys, span(c, width), n_c)
                        for c in vectorized(first, last):
                            xs = inside_span(c, width)
                            put(at + c, out, plane, deep, high, xs, n)
                        for c in range(last, width.count):
                            n_c = count_of(c, over, rows)
                            put(at + c, out, plane, zs, ys, span(c, width), n_c)
                    else:
                        for c in range(width.count):
                            n_c = count_of(c, over, rows)
                            put(at + c, out, plane, zs, ys, span(c, width), n_c)

    return kernel


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
        begin: int,
        end: int,
    ):
        for p in range(begin, end):
            size = depth.size * height.size * width.size
            for r in range(p * size, (p + 1) * size):
                grad_input[r] = T(0)
            for z in range(depth.count):
                z0, nz, dz = span(z, depth)
                extent_z = extent(z, depth, padded)
                for y in range(height.count):
                    y0, ny, dy = span(y, height)
                    plane = extent_z * extent(y, height, padded)
                    for c in range(width.count):
                        x0, nx, dx = span(c, width)
                        count = plane * extent(c, width, padded)
                        if divisor != 0:
                            count = divisor
                        at = (p * depth.count + z) * height.count + y
                        g = A(grad[at * width.count + c]) / A(count)
                        for i in range(nz):
                            for j in range(ny):
                                row = p * depth.size + z0 + i * dz
                                row = row * height.size + y0 + j * dy
                                first = row * width.size + x0
                                for k in range(nx):
                                    place = first + k * dx
                                    grad_input[place] = T(A(grad_input[place]) + g)

    return kernel


def avg_pool_gather(kind):
    """Adds the shares of the gradients of all windows over an element."""
    extent, cover = kind.extent, kind.cover

    def kernel(
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
        for p in range(begin, end):
            for z in range(depth.size):
                z0, z1 = cover(z, depth)
                for y in range(height.size):
                    y0, y1 = cover(y, height)
                    for c in range(width.size):
                        x0, x1 = cover(c, width)
                        total = A(0)
                        for i in range(z0, z1):
                            nz = extent(i, depth, padded)
                            for j in range(y0, y1):
                                plane = nz * extent(j, height, padded)
                                row = (p * depth.count + i) * height.count + j
                                for k in range(x0, x1):
                                    count = plane * extent(k, width, padded)
                                    if divisor != 0:
                                        count = divisor
                                    g = A(grad[row * width.count + k])
                                    total = total + g / A(count)
                        at = (p * depth.size + z) * height.size + y
                        grad_input[at * width.size + c] = T(total)

    return kernel


max_pools = for_kinds(max_pool, INSIDE, STRIDED, SINGLE, EVEN)
avg_pools = for_kinds(avg_pool, INSIDE, STRIDED, SINGLE, EVEN)
avg_pool_gathers = for_kinds(avg_pool_gather, SINGLE, EVEN)


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


avg_pool_scatters = for_kinds(avg_pool_scatter, INSIDE, STRIDED, SINGLE, EVEN)
avg_pool_scatters["tiles"] = avg_pool_tiles


@loops
def max_pool_scatter(
    grad_input: "T*",
    grad: "T*",
    index: "i64*",
    fault: "i64*",
    size: int,
    count: int,
    begin: int,
    end: int,
):
    """Adds each output's gradient to the place its value came from."""
    for p in range(begin, end):
        for s in range(size):
            grad_input[p * size + s] = T(0)
        for o in range(count):
            at = index[p * count + o]
            if at < 0 or at >= size:
                fault[0] = at
            else:
                place = p * size + at
                grad_input[place] = grad_input[place] + grad[p * count + o]


@loops
def max_pool_gather(
    grad_input: "T*",
    grad: "T*",
    index: "i64*",
    depth: AXIS,
    height: AXIS,
    width: AXIS,
    begin: int,
    end: int,
):
    """Adds the gradients of the windows whose value came from an element."""
    for p in range(begin, end):
        for z in range(depth.size):
            z0, z1 = cover(z, depth)
            for y in range(height.size):
                y0, y1 = cover(y, height)
                for c in range(width.size):
                    x0, x1 = cover(c, width)
                    place = (z * height.size + y) * width.size + c
                    total = T(0)
                    for i in range(z0, z1):
                        for j in range(y0, y1):
                            row = (p * depth.count + i) * height.count + j
                            for k in range(x0, x1):
                                o = row * width.count + k
                                here = index[o] == place
                                total = T(total + grad[o]) if here else total
                    size = depth.size * height.size * width.size
                    grad_input[p * size + place] = total


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
