"""Loop kernels of pooling, over planes of three axes; missing ones have size one.

Planes (batch times channels) are independent, so they are what the thread pool divides.
"""

from __future__ import annotations

from rushlight.codegen.language import trunc_div
from rushlight.codegen.loops import (
    A,
    T,
    is_float,
    loops,
    loops_inline,
    lowest,
    vectorized,
)


@loops
def max_pool_inside(
    out: "T*",
    index: "i64*",
    x: "T*",
    d: int,
    h: int,
    w: int,
    od: int,
    oh: int,
    ow: int,
    kd: int,
    kh: int,
    kw: int,
    sd: int,
    sh: int,
    sw: int,
    placed: int,
    begin: int,
    end: int,
):
    """Largest of each window, and its place if ``placed``; windows lie inside the plane."""
    for p in range(begin, end):
        for z in range(od):
            for y in range(oh):
                plane = p * d * h * w
                row = ((p * od + z) * oh + y) * ow
                corner = (z * sd * h + y * sh) * w
                for a in vectorized(ow):
                    start = corner + a * sw
                    best = x[plane + start]
                    place = start
                    for i in range(kd):
                        for j in range(kh):
                            for k in range(kw):
                                here = start + (i * h + j) * w + k
                                v = x[plane + here]
                                larger = v > best or v != v
                                best = v if larger else best
                                place = here if larger else place
                    out[row + a] = best
                    if placed != 0:
                        index[row + a] = place


@loops
def max_pool_rows(
    out: "T*",
    index: "i64*",
    x: "T*",
    d: int,
    h: int,
    w: int,
    od: int,
    oh: int,
    ow: int,
    kd: int,
    kh: int,
    kw: int,
    sd: int,
    sh: int,
    sw: int,
    pd: int,
    ph: int,
    pw: int,
    dd: int,
    dh: int,
    dw: int,
    placed: int,
    begin: int,
    end: int,
):
    """Largest of each window and its place, where ``placed``; windows may reach over the border."""
    for p in range(begin, end):
        for z in range(od):
            for y in range(oh):
                plane = p * d * h * w
                row = ((p * od + z) * oh + y) * ow
                for a in range(ow):
                    fz = z * sd - pd
                    fy = y * sh - ph
                    fx = a * sw - pw
                    while fz < 0:
                        fz = fz + dd
                    while fy < 0:
                        fy = fy + dh
                    while fx < 0:
                        fx = fx + dw
                    place = (fz * h + fy) * w + fx
                    best = lowest(T)
                    for i in range(fz, min(d, z * sd - pd + kd * dd), dd):
                        for j in range(fy, min(h, y * sh - ph + kh * dh), dh):
                            for k in range(fx, min(w, a * sw - pw + kw * dw), dw):
                                here = (i * h + j) * w + k
                                v = x[plane + here]
                                larger = v > best or v != v
                                best = v if larger else best
                                place = here if larger else place
                    out[row + a] = best
                    if placed != 0:
                        index[row + a] = place


@loops
def max_pool_scatter(
    grad_input: "T*",
    grad: "T*",
    index: "i64*",
    fault: "i64*",
    size: int,
    osize: int,
    begin: int,
    end: int,
):
    """Adds each output's gradient to the place its value came from."""
    for p in range(begin, end):
        for s in range(size):
            grad_input[p * size + s] = T(0)
        for o in range(osize):
            at = index[p * osize + o]
            if at < 0 or at >= size:
                fault[0] = at
            else:
                place = p * size + at
                grad_input[place] = grad_input[place] + grad[p * osize + o]


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


@loops
def avg_pool_inside(
    out: "T*",
    x: "T*",
    scale: "A*",
    d: int,
    h: int,
    w: int,
    od: int,
    oh: int,
    ow: int,
    kd: int,
    kh: int,
    kw: int,
    sd: int,
    sh: int,
    sw: int,
    begin: int,
    end: int,
):
    """Mean of each window, where every window lies inside the plane."""
    for p in range(begin, end):
        for z in range(od):
            for y in range(oh):
                row = ((p * od + z) * oh + y) * ow
                corner = p * d * h * w + (z * sd * h + y * sh) * w
                for a in vectorized(ow):
                    mass = A(0)
                    for i in range(kd):
                        for j in range(kh):
                            for k in range(kw):
                                tap = corner + a * sw + (i * h + j) * w + k
                                mass = mass + A(x[tap])
                    out[row + a] = T(mass * scale[0])


@loops_inline
def share(mass, count):
    """The mean: exact for floats, rounded towards zero for integers."""
    if is_float(A):
        mean = mass / A(count)
    else:
        mean = trunc_div(mass, A(count))
    return mean


@loops
def avg_pool_rows(
    out: "T*",
    x: "T*",
    d: int,
    h: int,
    w: int,
    od: int,
    oh: int,
    ow: int,
    kd: int,
    kh: int,
    kw: int,
    sd: int,
    sh: int,
    sw: int,
    pd: int,
    ph: int,
    pw: int,
    count_pad: int,
    divisor: int,
    begin: int,
    end: int,
):
    """Mean of each window; windows may reach over the border."""
    for p in range(begin, end):
        for z in range(od):
            for y in range(oh):
                row = ((p * od + z) * oh + y) * ow
                z0 = z * sd - pd
                y0 = y * sh - ph
                z1 = min(z0 + kd, d + pd)
                y1 = min(y0 + kh, h + ph)
                for a in range(ow):
                    x0 = a * sw - pw
                    x1 = min(x0 + kw, w + pw)
                    count = (z1 - z0) * (y1 - y0) * (x1 - x0)
                    bz = max(z0, 0)
                    by = max(y0, 0)
                    bx = max(x0, 0)
                    ez = min(z1, d)
                    ey = min(y1, h)
                    ex = min(x1, w)
                    if count_pad == 0:
                        count = (ez - bz) * (ey - by) * (ex - bx)
                    if divisor != 0:
                        count = divisor
                    mass = A(0)
                    for i in range(bz, ez):
                        for j in range(by, ey):
                            for k in range(bx, ex):
                                mass = mass + A(x[((p * d + i) * h + j) * w + k])
                    out[row + a] = T(share(mass, count))


@loops
def avg_pool_spread(
    grad_input: "T*",
    grad: "T*",
    d: int,
    h: int,
    w: int,
    od: int,
    oh: int,
    ow: int,
    kd: int,
    kh: int,
    kw: int,
    sd: int,
    sh: int,
    sw: int,
    pd: int,
    ph: int,
    pw: int,
    count_pad: int,
    divisor: int,
    begin: int,
    end: int,
):
    """Shares each output's gradient among the places of its window."""
    for p in range(begin, end):
        for r in range(p * d * h * w, (p + 1) * d * h * w):
            grad_input[r] = T(0)
        for z in range(od):
            for y in range(oh):
                z0 = z * sd - pd
                y0 = y * sh - ph
                z1 = min(z0 + kd, d + pd)
                y1 = min(y0 + kh, h + ph)
                for a in range(ow):
                    x0 = a * sw - pw
                    x1 = min(x0 + kw, w + pw)
                    count = (z1 - z0) * (y1 - y0) * (x1 - x0)
                    bz = max(z0, 0)
                    by = max(y0, 0)
                    bx = max(x0, 0)
                    ez = min(z1, d)
                    ey = min(y1, h)
                    ex = min(x1, w)
                    if count_pad == 0:
                        count = (ez - bz) * (ey - by) * (ex - bx)
                    if divisor != 0:
                        count = divisor
                    g = A(grad[((p * od + z) * oh + y) * ow + a]) / A(count)
                    for i in range(bz, ez):
                        for j in range(by, ey):
                            for k in range(bx, ex):
                                place = ((p * d + i) * h + j) * w + k
                                grad_input[place] = T(A(grad_input[place]) + g)


@loops
def avg_pool_tiles(
    grad_input: "T*",
    grad: "T*",
    scale: "A*",
    d: int,
    h: int,
    w: int,
    od: int,
    oh: int,
    ow: int,
    kd: int,
    kh: int,
    kw: int,
    begin: int,
    end: int,
):
    """The same for windows that touch but don't overlap: each place is written once."""
    for p in range(begin, end):
        for i in range(d):
            for j in range(h):
                line = ((p * d + i) * h + j) * w
                if i < od * kd and j < oh * kh:
                    row = ((p * od + i // kd) * oh + j // kh) * ow
                    for a in vectorized(ow):
                        g = A(grad[row + a]) * scale[0]
                        for k in range(kw):
                            grad_input[line + a * kw + k] = T(g)
                    for r in range(ow * kw, w):
                        grad_input[line + r] = T(0)
                else:
                    for r in range(w):
                        grad_input[line + r] = T(0)


@loops
def adaptive_avg_pool(
    out: "T*",
    x: "T*",
    d: int,
    h: int,
    w: int,
    od: int,
    oh: int,
    ow: int,
    begin: int,
    end: int,
):
    """Mean of windows that divide the plane as evenly as they can."""
    for p in range(begin, end):
        for z in range(od):
            z0 = z * d // od
            z1 = ((z + 1) * d + od - 1) // od
            for y in range(oh):
                y0 = y * h // oh
                y1 = ((y + 1) * h + oh - 1) // oh
                for a in range(ow):
                    x0 = a * w // ow
                    x1 = ((a + 1) * w + ow - 1) // ow
                    mass = A(0)
                    for i in range(z0, z1):
                        for j in range(y0, y1):
                            for k in range(x0, x1):
                                mass = mass + A(x[((p * d + i) * h + j) * w + k])
                    count = (z1 - z0) * (y1 - y0) * (x1 - x0)
                    out[((p * od + z) * oh + y) * ow + a] = T(mass / A(count))


@loops
def adaptive_avg_pool_spread(
    grad_input: "T*",
    grad: "T*",
    d: int,
    h: int,
    w: int,
    od: int,
    oh: int,
    ow: int,
    begin: int,
    end: int,
):
    """Shares each output's gradient among the places of its adaptive window."""
    for p in range(begin, end):
        for r in range(p * d * h * w, (p + 1) * d * h * w):
            grad_input[r] = T(0)
        for z in range(od):
            z0 = z * d // od
            z1 = ((z + 1) * d + od - 1) // od
            for y in range(oh):
                y0 = y * h // oh
                y1 = ((y + 1) * h + oh - 1) // oh
                for a in range(ow):
                    x0 = a * w // ow
                    x1 = ((a + 1) * w + ow - 1) // ow
                    count = (z1 - z0) * (y1 - y0) * (x1 - x0)
                    g = A(grad[((p * od + z) * oh + y) * ow + a]) / A(count)
                    for i in range(z0, z1):
                        for j in range(y0, y1):
                            for k in range(x0, x1):
                                place = ((p * d + i) * h + j) * w + k
                                grad_input[place] = T(A(grad_input[place]) + g)


@loops
def adaptive_max_pool(
    out: "T*",
    index: "i64*",
    x: "T*",
    d: int,
    h: int,
    w: int,
    od: int,
    oh: int,
    ow: int,
    begin: int,
    end: int,
):
    """Largest of each adaptive window and its place."""
    for p in range(begin, end):
        plane = p * d * h * w
        for z in range(od):
            z0 = z * d // od
            z1 = ((z + 1) * d + od - 1) // od
            for y in range(oh):
                y0 = y * h // oh
                y1 = ((y + 1) * h + oh - 1) // oh
                for a in range(ow):
                    x0 = a * w // ow
                    x1 = ((a + 1) * w + ow - 1) // ow
                    place = (z0 * h + y0) * w + x0
                    best = x[plane + place]
                    for i in range(z0, z1):
                        for j in range(y0, y1):
                            line = (i * h + j) * w
                            above = False  # anything in this line: rarely, and wide
                            for k in range(x0, x1):
                                v = x[plane + line + k]
                                above = above | (v > best) | (v != v)
                            if above:
                                for k in range(x0, x1):
                                    v = x[plane + line + k]
                                    larger = (v > best) | (v != v)
                                    best = v if larger else best
                                    place = line + k if larger else place
                    row = ((p * od + z) * oh + y) * ow
                    out[row + a] = best
                    index[row + a] = place


_HALVING = dict(T="float32", kd=1, kh=2, kw=2, sd=1, sh=2, sw=2, ow=16)
max_pool_inside.example = avg_pool_inside.example = _HALVING
avg_pool_tiles.example = dict(T="float32", kd=1, kh=2, kw=2, ow=16)
