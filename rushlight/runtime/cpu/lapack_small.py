"""Factorizations of small real matrices, where a call of LAPACK costs more than its work.

The algorithms are LAPACK's unblocked ones, with its pivots, signs and codes, in loops
along the columns. `lapack` chooses them in the place of calls of LAPACK.

A product is not rounded before it is subtracted. A matrix that is singular but for the
rounding of its elements keeps a last pivot that says so, a small one, where rounded
products would cancel to a zero and to the refusal of what PyTorch solves.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.math import fabs, fma, hypot, sqrt
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.runtime.cpu.lapack_tasks import getrf_t
from cython.cimports.rushlight.runtime.cpu.scratch import scratch

RealPointer = cython.fused_type(cython.p_float, cython.p_double)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def less(
    like: RealPointer, value: cython.double, x: cython.double, y: cython.double
) -> cython.double:
    """``value - x * y``, rounded once, to the type that is pointed to."""
    if RealPointer is cython.p_float:
        # a product of two floats is exact in double precision
        return cython.cast(cython.float, value - x * y)
    else:
        return fma(-x, y, value)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def inverted(like: RealPointer, pivot: cython.double) -> cython.double:
    """The reciprocal to multiply by, or zero where it overflows."""
    if RealPointer is cython.p_float:
        return cython.cast(cython.float, 1 / pivot) if fabs(pivot) > 1e-38 else 0
    else:
        return 1 / pivot if fabs(pivot) > 1e-307 else 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def factor_triangle(a: RealPointer, n: int64_t, upper: cython.bint) -> cython.int:
    """Cholesky factors in place; the code that LAPACK gives."""
    i: int64_t
    j: int64_t
    k: int64_t
    total: cython.double
    rest: cython.double
    factor: cython.double
    pivot: cython.double
    if upper:
        for j in range(n):
            for i in range(j):
                total = a[j * n + i]
                for k in range(i):
                    total = less(a, total, a[i * n + k], a[j * n + k])
                a[j * n + i] = total / a[i * n + i]
            rest = a[j * n + j]
            for k in range(j):
                rest = less(a, rest, a[j * n + k], a[j * n + k])
            if not rest > 0:
                return j + 1
            a[j * n + j] = sqrt(rest)
        return 0
    for j in range(n):
        pivot = a[j * n + j]
        if not pivot > 0:
            return j + 1
        pivot = sqrt(pivot)
        a[j * n + j] = pivot
        for i in range(j + 1, n):
            a[j * n + i] = a[j * n + i] / pivot
        for k in range(j + 1, n):
            factor = a[j * n + k]
            for i in range(k, n):
                a[k * n + i] = less(a, a[k * n + i], a[j * n + i], factor)
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def factor_pivoted(
    a: RealPointer, m: int64_t, n: int64_t, pivots: cython.p_int
) -> cython.int:
    """LU factors in place, and where rows were exchanged."""
    i: int64_t
    j: int64_t
    k: int64_t
    best: int64_t
    pivot: cython.double
    factor: cython.double
    value: cython.double
    code: cython.int = 0
    for k in range(min(m, n)):
        best = k
        largest = fabs(a[k * m + k])
        for i in range(k + 1, m):
            if fabs(a[k * m + i]) > largest:
                largest = fabs(a[k * m + i])
                best = i
        pivots[k] = cython.cast(cython.int, best + 1)
        if a[k * m + best] == 0:
            if code == 0:
                code = cython.cast(cython.int, k + 1)
            continue
        if best != k:
            for j in range(n):
                held = a[j * m + k]
                a[j * m + k] = a[j * m + best]
                a[j * m + best] = held
        pivot = a[k * m + k]
        # the last of four rows or fewer is divided, as MKL does: these are its bits
        factor = 0 if m == n and m <= 4 and k == m - 2 else inverted(a, pivot)
        for i in range(k + 1, m):
            value = a[k * m + i]
            a[k * m + i] = value / pivot if factor == 0 else value * factor
        for j in range(k + 1, n):
            factor = a[j * m + k]
            for i in range(k + 1, m):
                a[j * m + i] = less(a, a[j * m + i], a[k * m + i], factor)
    return code


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def solve_triangle(
    a: RealPointer,
    b: RealPointer,
    n: int64_t,
    columns: int64_t,
    upper: cython.bint,
    transposed: cython.bint,
    unit: cython.bint,
) -> cython.void:
    """Solves with a triangle, or the transposed one, from the left."""
    i: int64_t
    k: int64_t
    at: int64_t
    c: int64_t
    value: cython.double
    for c in range(columns):
        for at in range(n):
            # a lower triangle starts at the first row, as a transposed upper one does
            k = at if upper == transposed else n - 1 - at
            value = b[c * n + k]
            if transposed:
                if upper:
                    for i in range(k):
                        value = less(a, value, a[k * n + i], b[c * n + i])
                else:
                    for i in range(k + 1, n):
                        value = less(a, value, a[k * n + i], b[c * n + i])
            if not unit:
                value = value / a[k * n + k]
            b[c * n + k] = value
            value = b[c * n + k]
            if not transposed:
                if upper:
                    for i in range(k):
                        b[c * n + i] = less(b, b[c * n + i], a[k * n + i], value)
                else:
                    for i in range(k + 1, n):
                        b[c * n + i] = less(b, b[c * n + i], a[k * n + i], value)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def solve_triangle_right(
    a: RealPointer,
    b: RealPointer,
    m: int64_t,
    n: int64_t,
    upper: cython.bint,
    transposed: cython.bint,
    unit: cython.bint,
) -> cython.void:
    """Solves with a triangle, or the transposed one, from the right."""
    i: int64_t
    k: int64_t
    j: int64_t
    at: int64_t
    factor: cython.double
    for at in range(n):
        k = at if upper != transposed else n - 1 - at
        for j in range(n):
            if j == k or (j < k) != (upper != transposed):
                continue
            factor = a[j * n + k] if transposed else a[k * n + j]
            for i in range(m):
                b[k * m + i] = less(b, b[k * m + i], b[j * m + i], factor)
        if not unit:
            pivot = a[k * n + k]
            for i in range(m):
                b[k * m + i] = b[k * m + i] / pivot


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def exchange(
    b: RealPointer,
    n: int64_t,
    columns: int64_t,
    pivots: cython.p_int,
    back: cython.bint,
) -> cython.void:
    """Exchanges rows as a factorization did, or undoes it."""
    c: int64_t
    k: int64_t
    at: int64_t
    other: int64_t
    for c in range(columns):
        for at in range(n):
            k = n - 1 - at if back else at
            other = pivots[k] - 1
            held = b[c * n + k]
            b[c * n + k] = b[c * n + other]
            b[c * n + other] = held


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def length(x: RealPointer, n: int64_t) -> cython.double:
    """The root of the sum of squares, without overflow."""
    i: int64_t
    largest: cython.double = 0
    total: cython.double = 0
    value: cython.double
    for i in range(n):
        value = x[i]
        total += value * value
        largest = max(largest, fabs(value))
    if largest == 0 or (1e-280 < total < 1e300):
        return sqrt(total)
    total = 0
    for i in range(n):
        value = x[i] / largest
        total += value * value
    return largest * sqrt(total)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def reflect(
    v: RealPointer, tau: cython.double, c: RealPointer, n: int64_t
) -> cython.void:
    """Applies a reflector, whose first element is one, to a column."""
    i: int64_t
    total: cython.double = c[0]
    for i in range(1, n):
        total += cython.cast(cython.double, v[i]) * c[i]
    total *= tau
    c[0] -= total
    for i in range(1, n):
        c[i] -= total * v[i]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def factor_reflected(
    a: RealPointer, m: int64_t, n: int64_t, tau: RealPointer
) -> cython.void:
    """R in the upper triangle, reflectors below it."""
    i: int64_t
    j: int64_t
    k: int64_t
    first: cython.double
    rest: cython.double
    size: cython.double
    for k in range(min(m, n)):
        first = a[k * m + k]
        rest = length(a + k * m + k + 1, m - k - 1)
        if rest == 0:
            tau[k] = 0
            continue
        size = hypot(first, rest)
        if first >= 0:  # of zero, too, whichever its sign
            size = -size
        tau[k] = (size - first) / size
        for i in range(k + 1, m):
            a[k * m + i] = a[k * m + i] / (first - size)
        for j in range(k + 1, n):
            reflect(a + k * m + k, tau[k], a + j * m + k, m - k)
        a[k * m + k] = size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def expand(
    a: RealPointer, m: int64_t, n: int64_t, k: int64_t, tau: RealPointer
) -> cython.void:
    """The product of the reflectors in their place."""
    i: int64_t
    j: int64_t
    at: int64_t
    for j in range(k, n):
        for i in range(m):
            a[j * m + i] = 0
        a[j * m + j] = 1
    for at in range(k):
        j = k - 1 - at
        for i in range(j + 1, n):
            reflect(a + j * m + j, tau[j], a + i * m + j, m - j)
        for i in range(j + 1, m):
            a[j * m + i] = -tau[j] * a[j * m + i]
        a[j * m + j] = 1 - tau[j]
        for i in range(j):
            a[j * m + i] = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def small_potrf(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of matrices and codes."""
    i: int64_t
    n: int64_t = ints[2]
    codes: cython.p_int = cython.cast(cython.p_int, data[2])
    if ints[0] == 0:
        for i in range(begin, end):
            codes[i] = factor_triangle(
                cython.cast(cython.p_float, data[1]) + i * n * n, n, ints[1] == 85
            )
    else:
        for i in range(begin, end):
            codes[i] = factor_triangle(
                cython.cast(cython.p_double, data[1]) + i * n * n, n, ints[1] == 85
            )
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def small_getrf(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of matrices, pivots and codes."""
    i: int64_t
    m: int64_t = ints[1]
    n: int64_t = ints[2]
    pivots: cython.p_int = cython.cast(cython.p_int, data[2])
    codes: cython.p_int = cython.cast(cython.p_int, data[3])
    if ints[0] == 0:
        for i in range(begin, end):
            codes[i] = factor_pivoted(
                cython.cast(cython.p_float, data[1]) + i * m * n,
                m,
                n,
                pivots + i * min(m, n),
            )
    else:
        for i in range(begin, end):
            codes[i] = factor_pivoted(
                cython.cast(cython.p_double, data[1]) + i * m * n,
                m,
                n,
                pivots + i * min(m, n),
            )
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def repeated_getrf(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """LAPACK's, and where that meets a pivot of zero, our own loops.

    OpenBLAS adds products up before it subtracts them, and so rounds twice.
    """
    i: int64_t
    call: getrf_t = cython.cast(getrf_t, data[0])
    m: cython.int = ints[1]
    n: cython.int = ints[2]
    step: int64_t = ints[1] * ints[2] * (4 << ints[0])
    pivots: cython.p_int = cython.cast(cython.p_int, data[2])
    codes: cython.p_int = cython.cast(cython.p_int, data[3])
    copied: cython.p_char = scratch(step)
    for i in range(begin, end):
        if copied != cython.NULL:
            memcpy(copied, data[1] + i * step, step)
        call(
            cython.address(m),
            cython.address(n),
            data[1] + i * step,
            cython.address(m),
            pivots + i * min(m, n),
            codes + i,
        )
        if codes[i] > 0 and copied != cython.NULL:
            memcpy(data[1] + i * step, copied, step)
            small_getrf(data, ints, i, i + 1)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def small_potrs(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of factors and right-hand sides."""
    i: int64_t
    n: int64_t = ints[2]
    columns: int64_t = ints[3]
    upper: cython.bint = ints[1] == 85
    float_a: cython.p_float
    float_b: cython.p_float
    double_a: cython.p_double
    double_b: cython.p_double
    if ints[0] == 0:
        for i in range(begin, end):
            float_a = cython.cast(cython.p_float, data[1]) + i * n * n
            float_b = cython.cast(cython.p_float, data[2]) + i * n * columns
            solve_triangle(float_a, float_b, n, columns, upper, upper, False)
            solve_triangle(float_a, float_b, n, columns, upper, not upper, False)
    else:
        for i in range(begin, end):
            double_a = cython.cast(cython.p_double, data[1]) + i * n * n
            double_b = cython.cast(cython.p_double, data[2]) + i * n * columns
            solve_triangle(double_a, double_b, n, columns, upper, upper, False)
            solve_triangle(double_a, double_b, n, columns, upper, not upper, False)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def small_getrs(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of factors, pivots and right-hand sides."""
    i: int64_t
    n: int64_t = ints[2]
    columns: int64_t = ints[3]
    transposed: cython.bint = ints[1] != 78
    pivots: cython.p_int = cython.cast(cython.p_int, data[2])
    float_a: cython.p_float
    float_b: cython.p_float
    double_a: cython.p_double
    double_b: cython.p_double
    if ints[0] == 0:
        for i in range(begin, end):
            float_a = cython.cast(cython.p_float, data[1]) + i * n * n
            float_b = cython.cast(cython.p_float, data[3]) + i * n * columns
            if transposed:
                solve_triangle(float_a, float_b, n, columns, True, True, False)
                solve_triangle(float_a, float_b, n, columns, False, True, True)
                exchange(float_b, n, columns, pivots + i * n, True)
            else:
                exchange(float_b, n, columns, pivots + i * n, False)
                solve_triangle(float_a, float_b, n, columns, False, False, True)
                solve_triangle(float_a, float_b, n, columns, True, False, False)
    else:
        for i in range(begin, end):
            double_a = cython.cast(cython.p_double, data[1]) + i * n * n
            double_b = cython.cast(cython.p_double, data[3]) + i * n * columns
            if transposed:
                solve_triangle(double_a, double_b, n, columns, True, True, False)
                solve_triangle(double_a, double_b, n, columns, False, True, True)
                exchange(double_b, n, columns, pivots + i * n, True)
            else:
                exchange(double_b, n, columns, pivots + i * n, False)
                solve_triangle(double_a, double_b, n, columns, False, False, True)
                solve_triangle(double_a, double_b, n, columns, True, False, False)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def small_trsm(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of triangles and right-hand sides."""
    i: int64_t
    left: cython.bint = ints[1] == 76
    upper: cython.bint = ints[2] == 85
    transposed: cython.bint = ints[3] != 78
    unit: cython.bint = ints[4] == 85
    m: int64_t = ints[5]
    n: int64_t = ints[6]
    if ints[0] == 0:
        for i in range(begin, end):
            if left:
                solve_triangle(
                    cython.cast(cython.p_float, data[1]) + i * m * m,
                    cython.cast(cython.p_float, data[2]) + i * m * n,
                    m,
                    n,
                    upper,
                    transposed,
                    unit,
                )
            else:
                solve_triangle_right(
                    cython.cast(cython.p_float, data[1]) + i * n * n,
                    cython.cast(cython.p_float, data[2]) + i * m * n,
                    m,
                    n,
                    upper,
                    transposed,
                    unit,
                )
    else:
        for i in range(begin, end):
            if left:
                solve_triangle(
                    cython.cast(cython.p_double, data[1]) + i * m * m,
                    cython.cast(cython.p_double, data[2]) + i * m * n,
                    m,
                    n,
                    upper,
                    transposed,
                    unit,
                )
            else:
                solve_triangle_right(
                    cython.cast(cython.p_double, data[1]) + i * n * n,
                    cython.cast(cython.p_double, data[2]) + i * m * n,
                    m,
                    n,
                    upper,
                    transposed,
                    unit,
                )
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def small_qr(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Of matrices and factors."""
    i: int64_t
    m: int64_t = ints[1]
    n: int64_t = ints[2]
    k: int64_t = ints[3]
    if ints[0] == 0:
        for i in range(begin, end):
            if k < 0:
                factor_reflected(
                    cython.cast(cython.p_float, data[1]) + i * m * n,
                    m,
                    n,
                    cython.cast(cython.p_float, data[2]) + i * min(m, n),
                )
            else:
                expand(
                    cython.cast(cython.p_float, data[1]) + i * m * n,
                    m,
                    n,
                    k,
                    cython.cast(cython.p_float, data[2]) + i * k,
                )
    else:
        for i in range(begin, end):
            if k < 0:
                factor_reflected(
                    cython.cast(cython.p_double, data[1]) + i * m * n,
                    m,
                    n,
                    cython.cast(cython.p_double, data[2]) + i * min(m, n),
                )
            else:
                expand(
                    cython.cast(cython.p_double, data[1]) + i * m * n,
                    m,
                    n,
                    k,
                    cython.cast(cython.p_double, data[2]) + i * k,
                )
    return 0
