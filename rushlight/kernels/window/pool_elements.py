"""Pooling on devices of many threads: an element is a thread's.

The host's kernels go over planes. Windows are the same, and so is the order in which each
takes its values; a gradient is gathered by the element that it goes to, from windows in
their order.
"""

from __future__ import annotations

from rushlight.codegen.loops import T, loops, lowest


@loops
def max_pool_elements(
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
    """Largest of a window and its place, where ``placed``."""
    for at in range(begin, end):
        plane = at // (ow * oh * od) * d * h * w
        fz = at // (ow * oh) % od * sd - pd
        fy = at // ow % oh * sh - ph
        fx = at % ow * sw - pw
        lz = min(d, fz + kd * dd)
        ly = min(h, fy + kh * dh)
        lx = min(w, fx + kw * dw)
        fz = fz + max(0, (dd - 1 - fz) // dd) * dd
        fy = fy + max(0, (dh - 1 - fy) // dh) * dh
        fx = fx + max(0, (dw - 1 - fx) // dw) * dw
        place = (fz * h + fy) * w + fx
        best = lowest(T)
        for i in range(fz, lz, dd):
            for j in range(fy, ly, dh):
                for k in range(fx, lx, dw):
                    here = (i * h + j) * w + k
                    v = x[plane + here]
                    larger = v > best or v != v
                    best = v if larger else best
                    place = here if larger else place
        out[at] = best
        if placed != 0:
            index[at] = place


@loops
def max_pool_gather(
    grad_input: "T*",
    grad: "T*",
    index: "i64*",
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
    begin: int,
    end: int,
):
    """Adds the gradients of the windows whose value came from a place."""
    for at in range(begin, end):
        size = d * h * w
        place = at % size
        plane = at // size * od * oh * ow
        z = place // (w * h) + pd
        y = place // w % h + ph
        c = place % w + pw
        fz = max(0, (z - (kd - 1) * dd + sd - 1) // sd)
        fy = max(0, (y - (kh - 1) * dh + sh - 1) // sh)
        fx = max(0, (c - (kw - 1) * dw + sw - 1) // sw)
        total = T(0)
        for i in range(fz, min(od, z // sd + 1)):
            for j in range(fy, min(oh, y // sh + 1)):
                for k in range(fx, min(ow, c // sw + 1)):
                    o = plane + (i * oh + j) * ow + k
                    total = T(total + grad[o]) if index[o] == place else total
        grad_input[at] = total


@loops
def find_outside(index: "i64*", fault: "i64*", size: int, begin: int, end: int):
    """Notes a place that is outside of its plane."""
    for at in range(begin, end):
        if index[at] < 0 or index[at] >= size:
            fault[0] = index[at]
