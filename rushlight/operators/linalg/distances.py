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


@loops_inline
def added_four(mass, x, at, columns, here, others, kind, order):
    """A sum with the differences of four neighbours, in registers between."""
    gap = abs(A(x[at]) - A(columns[here]))
    so_far = added(mass, gap, kind, order)
    gap = abs(A(x[at + 1]) - A(columns[here + others]))
    so_far = added(so_far, gap, kind, order)
    gap = abs(A(x[at + 2]) - A(columns[here + 2 * others]))
    so_far = added(so_far, gap, kind, order)
    gap = abs(A(x[at + 3]) - A(columns[here + 3 * others]))
    return added(so_far, gap, kind, order)


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
                last = min(block + 16, width)
                fours = last - (last - block) % 4
                for k in range(block, fours, 4):
                    at = lane * width + k
                    line = (batch * width + k) * others + start
                    for j in vectorized(count):
                        part[j] = added_four(
                            part[j], x, at, columns, line + j, others, kind, p
                        )
                for k in range(fours, last):
                    line = (batch * width + k) * others + start
                    for j in vectorized(count):
                        gap = abs(A(x[lane * width + k]) - A(columns[line + j]))
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


@loops_inline
def slope_of_pair(gap, weight, distance, kind, order):
    """The slope of a pair's distance along one difference, times ``weight``.

    The weight is the gradient over the power of the distance that divides it.
    """
    sign = select(gap > A(0), A(1), select(gap < A(0), A(-1), gap))
    slope = weight * gap
    if kind == 1:
        slope = weight * sign
    elif kind == 3:
        left = abs(abs(gap) - distance)
        slope = weight * sign * select(left > A(0), A(0), A(1) - left)
    elif kind == 4:
        near = order < A(2)  # a gap of nothing has an infinite power of less than one
        power = pow(abs(gap), order - (A(1) if near else A(2)))
        slope = (sign if near else gap) * power * weight
        slope = select((gap == A(0)) & (order < A(1)), A(0), slope)
    return slope


@loops_inline
def other_row(row, index):
    """The row at ``index`` among all but ``row``."""
    return index + 1 if index >= row else index


@loops_inline
def weigh_pairs(weight, length, grad, distances, rows, i, block, count, kind, order):
    """The distances of row ``i`` from ``count`` others, and the weights of their slopes."""
    for j in range(count):
        other = other_row(i, block + j)
        first = min(i, other)
        pair = first * rows - first * (first + 1) // 2 - first - 1
        length[j] = A(distances[pair + max(i, other)])
        weight[j] = A(grad[pair + max(i, other)])
    for j in vectorized(count):
        if kind == 2:
            weight[j] = select(length[j] == A(0), A(0), weight[j] / length[j])
        elif kind == 4:
            power = pow(length[j], order - A(1))
            weight[j] = select(length[j] == A(0), A(0), weight[j] / power)
    for j in range(count, count + 3):
        weight[j] = A(0)
        length[j] = length[count - 1]
    return count


@loops
def pull_rows(
    out: "T*",
    grad: "T*",
    distances: "T*",
    x: "T*",
    rows: int,
    width: int,
    kind: int,
    order: int,
    begin: int,
    end: int,
):
    """``out[i]``: how the distances of row ``i`` from all others pull it."""
    weight = local("A", 131)
    length = local("A", 131)
    p = A(float_of(order))
    for i in range(begin, end):
        for k in vectorized(width):
            out[i * width + k] = T(0)
        for block in range(0, rows - 1, 128):
            count = min(rows - 1 - block, 128)
            weigh_pairs(weight, length, grad, distances, rows, i, block, count, kind, p)
            for j in range(0, count, 4):  # the last row again, without a weight
                a = other_row(i, block + j)
                b = other_row(i, block + min(j + 1, count - 1))
                c = other_row(i, block + min(j + 2, count - 1))
                d = other_row(i, block + min(j + 3, count - 1))
                for k in vectorized(width):
                    y = A(x[i * width + k])
                    gap = y - A(x[a * width + k])
                    slope = slope_of_pair(gap, weight[j], length[j], kind, p)
                    gap = y - A(x[b * width + k])
                    slope += slope_of_pair(gap, weight[j + 1], length[j + 1], kind, p)
                    gap = y - A(x[c * width + k])
                    more = slope_of_pair(gap, weight[j + 2], length[j + 2], kind, p)
                    gap = y - A(x[d * width + k])
                    more += slope_of_pair(gap, weight[j + 3], length[j + 3], kind, p)
                    out[i * width + k] = T(A(out[i * width + k]) + (slope + more))


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


def distances_gradient(grad, self, p, distances):
    """Each pair pulls its two rows apart; pairs that meet have no direction."""
    rows, width = self.shape
    kind = KINDS.get(float(p), POWER)
    operands = [t.contiguous() for t in (grad, distances, self)]
    work = rows * width * (16 if kind == POWER else 1)
    run(
        pull_rows, [out := fresh(self, self.shape), *operands],
        [rows, width, kind, bits_of_float(p)], rows, work,
        T=name_of(self.dtype), kind=kind,
    )  # fmt: skip
    return out


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
