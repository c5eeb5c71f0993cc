"""Distances between rows of matrices: one pair at a time, or from one product.

A vector of rows is worked on at a time: the second matrix lies by columns, so that its
rows are neighbours, and each lane sums for a row of its own. Sums are of blocks of 16.
"""

from __future__ import annotations

import math
import struct

from rushlight.codegen.language import float_of, maximum, pow, select, sqrt
from rushlight.codegen.loops import A, T, f64, local, loops, loops_inline, vectorized
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import brief, expect, fresh, name_of, run

COUNT, SUM, ROOT, LARGEST, POWER = range(5)
KINDS = {0.0: COUNT, 1.0: SUM, 2.0: ROOT, math.inf: LARGEST}


@loops_inline
def added(mass, gap, kind, order):
    """A sum with one more difference."""
    more = A(0)
    if kind == 0:
        more = mass + select(gap != gap, gap, select(gap != A(0), A(1), A(0)))
    elif kind == 1:
        more = mass + gap
    elif kind == 2:
        more = mass + gap * gap
    elif kind == 3:
        more = maximum(mass, gap)
    else:
        more = mass + pow(gap, order)
    return more


@loops
def row_distances(
    out: "T*",
    x: "T*",
    columns: "T*",
    rows: int,
    others: int,
    width: int,
    triangle: int,
    kind: int,
    order: int,
    begin: int,
    end: int,
):
    """``out[b, i, j]``: how far row ``i`` of ``x`` is from column ``j``.

    In a triangle only of the columns behind ``i``, one row of pairs after the other.
    """
    mass = local("A", 128)
    part = local("A", 128)
    p = A(float_of(order))
    for lane in range(begin, end):
        batch = lane // rows
        i = lane % rows
        first = i + 1 if triangle else 0
        base = lane * others
        if triangle:
            base = i * others - i * (i + 1) // 2 - i - 1
        for start in range(first, others, 128):
            count = min(others - start, 128)
            for j in vectorized(count):
                mass[j] = A(0)
            for block in range(0, width, 16):
                for j in vectorized(count):
                    part[j] = A(0)
                for k in range(block, min(block + 16, width)):
                    value = A(x[lane * width + k])
                    line = (batch * width + k) * others + start
                    for j in vectorized(count):
                        gap = abs(value - A(columns[line + j]))
                        part[j] = added(part[j], gap, kind, p)
                for j in vectorized(count):
                    if kind == 3:
                        mass[j] = maximum(mass[j], part[j])
                    else:
                        mass[j] = mass[j] + part[j]
            for j in vectorized(count):
                if kind == 2:
                    out[base + start + j] = T(sqrt(mass[j]))
                elif kind == 4:
                    out[base + start + j] = T(pow(f64(mass[j]), 1 / float_of(order)))
                else:
                    out[base + start + j] = T(mass[j])


def bits_of_float(number):
    """The bits of a float64 as an integer with a sign.

    >>> bits_of_float(1.0)
    4607182418800017408
    """
    return struct.unpack("<q", struct.pack("<d", number))[0]


def measure(out, x, y, p, triangle):
    """Fills ``out`` with the distances of the rows of ``x`` from those of ``y``."""
    *_, rows, width = x.shape
    others = y.shape[-2]
    kind = KINDS.get(float(p), POWER)
    columns = y.transpose(-1, -2).contiguous()
    ints = [rows, others, width, int(triangle), kind, bits_of_float(p)]
    lanes = math.prod(x.shape[:-1])
    work = others * width * (16 if kind == POWER else 1)
    run(
        row_distances, [out, x, columns], ints, lanes, work,
        T=name_of(x.dtype), kind=kind, triangle=int(triangle),
    )  # fmt: skip
    return out


def cdist_forward(x1, x2, p, compute_mode):
    """The distances of all pairs of rows, of batches of like sizes."""
    if min(x1.ndim, x2.ndim) < 2:
        raise RuntimeError(
            f"_cdist_forward: expected rows\n  x1: {brief(x1)}\n  x2: {brief(x2)}"
        )
    sizes = [*x1.shape[:-2], x2.shape[-2], x1.shape[-1]]
    expect("_cdist_forward", x2=(x2, sizes, x1.dtype))
    x1, x2 = x1.contiguous(), x2.contiguous()
    out = fresh(x1, [*x1.shape[:-1], x2.shape[-2]])
    return measure(out, x1, x2, p, False)


def distances_with_epilogue(self, p):
    """The distances of each row from those after it."""
    rows = self.shape[0]
    out = fresh(self, [rows * (rows - 1) // 2])
    return measure(out, self, self, p, True)


def euclidean_dist(x1, x2):
    """From the squares of the rows and their products, which one product adds up."""
    ones = ops.ones_like(x1.narrow(-1, 0, 1)), ops.ones_like(x2.narrow(-1, 0, 1))
    squares = ops.sum(x1 * x1, [-1], True), ops.sum(x2 * x2, [-1], True)
    left = ops.cat([x1 * -2, squares[0], ones[0]], -1)
    right = ops.cat([x2, ones[1], squares[1]], -1)
    return ops.matmul(left, right.mT).clamp_min_(0).sqrt_()


def euclidean_dist_gradient(grad, x1, x2, result):
    """Each pair pulls its rows apart; rows that meet have no direction."""
    ratio = ops.where(result == 0, 0.0, grad / result)
    return x1 * ops.sum(ratio, [-1], True) - ops.matmul(ratio, x2)
