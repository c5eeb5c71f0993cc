"""Normal random numbers: Box and Muller's transform, laid out as PyTorch lays it out.

A scalar draw makes a pair from two 53-bit uniform numbers and keeps the second. Arrays
of 16 and more are made in blocks of 16, in float32 or float64 throughout.
"""

import cython
from cython.cimports.libc.math import cos, exp, fma, log, log1p, sin, sqrt, sqrtf
from cython.cimports.libc.stdint import int32_t, int64_t, uintptr_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core.dtype import CODE_FLOAT32, CODE_FLOAT64
from cython.cimports.rushlight.random.distributions import (
    BLOCK,
    PAIRS,
    left_of,
    store,
    store_floats,
    uniform_doubles,
    uniform_floats,
)
from cython.cimports.rushlight.random.generator import Generator, generator_or_default

TWO_PI = cython.declare(cython.double, 2.0 * 3.14159265358979323846)


@cython.cfunc
@cython.exceptval(check=False)
def next_normal(source: Generator) -> cython.double:
    """One standard normal number: a pair is made, the second kept for the next call."""
    pair: cython.double[2]
    radius: cython.double
    angle: cython.double
    if source.has_double:
        source.has_double = False
        return source.next_double
    uniform_doubles(source, pair, 2)
    radius = sqrt(-2.0 * log1p(-pair[1]))
    angle = TWO_PI * pair[0]
    source.next_double = radius * sin(angle)
    source.has_double = True
    return radius * cos(angle)


def fill_normal_serial(
    generator,
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    mean: cython.double,
    std: cython.double,
    logarithmic: cython.bint = False,
):
    """Normal numbers one by one (their exponentials if ``logarithmic``).

    This is what PyTorch does for fewer than 16 elements, for memory with gaps, and
    for log-normal numbers.
    """
    source: Generator = generator_or_default(generator)
    numbers: cython.double[BLOCK]
    start: int64_t = 0
    i: cython.int
    while start < count:
        size: cython.int = left_of(count, start)
        for i in range(size):
            numbers[i] = fma(next_normal(source), std, mean)
            if logarithmic:
                numbers[i] = exp(numbers[i])
        store(code, cython.cast(cython.p_char, address), start, numbers, size)
        start += size


def fill_normal(
    generator,
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    mean: cython.double,
    std: cython.double,
):
    """Normal numbers in contiguous memory.

    From 16 elements up they come in blocks of 16: eight cosines, then eight sines.
    Where the count is no multiple of 16 the last 16 elements are drawn anew.
    """
    source: Generator = generator_or_default(generator)
    if count < 16:
        fill_normal_serial(source, address, count, code, mean, std)
    elif code == CODE_FLOAT64:
        normal_doubles(source, cython.cast(cython.p_double, address), count, mean, std)
    elif code == CODE_FLOAT32:
        normal_floats(
            source,
            cython.cast(cython.p_float, address),
            count,
            cython.cast(cython.float, mean),
            cython.cast(cython.float, std),
        )
    else:
        normal_halves(
            source,
            cython.cast(cython.p_char, address),
            count,
            code,
            cython.cast(cython.float, mean),
            cython.cast(cython.float, std),
        )


@cython.cfunc
@cython.exceptval(check=False)
def normal_doubles(
    source: Generator,
    out: cython.p_double,
    count: int64_t,
    mean: cython.double,
    std: cython.double,
) -> cython.void:
    """Uniform numbers first for the whole array, then each block in place."""
    start: int64_t
    for start in range(0, count, BLOCK):
        uniform_doubles(source, out + start, left_of(count, start))
    for start in range(0, count - 15, 16):
        normal_16(out + start, mean, std)
    if count % 16:
        uniform_doubles(source, out + count - 16, 16)
        normal_16(out + count - 16, mean, std)


@cython.cfunc
@cython.exceptval(check=False)
def normal_16(
    numbers: cython.p_double, mean: cython.double, std: cython.double
) -> cython.void:
    i: cython.int
    radius: cython.double
    angle: cython.double
    for i in range(8):
        radius = sqrt(-2.0 * log(1.0 - numbers[i]))
        angle = TWO_PI * numbers[i + 8]
        numbers[i] = fma(radius * cos(angle), std, mean)
        numbers[i + 8] = fma(radius * sin(angle), std, mean)


@cython.cfunc
@cython.exceptval(check=False)
def normal_floats(
    source: Generator,
    out: cython.p_float,
    count: int64_t,
    mean: cython.float,
    std: cython.float,
) -> cython.void:
    whole: int64_t = count - count % 16
    start: int64_t
    for start in range(0, count, BLOCK):
        uniform_floats(source, out + start, left_of(count, start))
    for start in range(0, whole, BLOCK):
        box_muller(out + start, left_of(whole, start), mean, std)
    if count % 16:
        uniform_floats(source, out + count - 16, 16)
        box_muller(out + count - 16, 16, mean, std)


@cython.cfunc
@cython.exceptval(check=False)
def normal_halves(
    source: Generator,
    out: cython.p_char,
    count: int64_t,
    code: cython.int,
    mean: cython.float,
    std: cython.float,
) -> cython.void:
    """The half-width dtypes draw only whole blocks, and 16 more for a remainder."""
    whole: int64_t = count - count % 16
    start: int64_t = 0
    size: cython.int
    floats: cython.float[BLOCK]
    while start < count:
        size = 16 if start == whole else left_of(whole, start)
        uniform_floats(source, floats, size)
        box_muller(floats, size, mean, std)
        store_floats(code, out, count - 16 if start == whole else start, floats, size)
        start += size


# Coefficients of the Cephes library's single-precision log, sin and cos.
LOG_COEFFICIENTS = cython.declare(cython.float[9])
LOG_COEFFICIENTS[:] = [
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def fused(a: cython.float, b: cython.float, c: cython.float) -> cython.float:
    """``a * b + c`` rounded once, as PyTorch's compiler has it.

    The product is exact in double precision. The sum is rounded there first, which
    tells only where it then lies half way between two numbers: once in 2 ** 29.
    """
    wide: cython.double = a
    return cython.cast(cython.float, wide * b + c)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def natural_log(x: cython.float) -> cython.float:
    """log of a positive normal number, branch-free so that loops over it vectorise."""
    bits: int32_t = cython.cast(cython.pointer(int32_t), cython.address(x))[0]
    # Halve the interval so that the mantissa lies in [sqrt(1/2), sqrt(2)).
    shifted: int32_t = bits - 0x3F3504F3
    exponent: cython.float = cython.cast(cython.float, shifted >> 23)
    bits = (shifted & 0x7FFFFF) + 0x3F3504F3
    m: cython.float = cython.cast(cython.p_float, cython.address(bits))[0] - 1
    z: cython.float = m * m
    p: cython.float = LOG_COEFFICIENTS[0]
    p = fused(p, m, LOG_COEFFICIENTS[1])
    p = fused(p, m, LOG_COEFFICIENTS[2])
    p = fused(p, m, LOG_COEFFICIENTS[3])
    p = fused(p, m, LOG_COEFFICIENTS[4])
    p = fused(p, m, LOG_COEFFICIENTS[5])
    p = fused(p, m, LOG_COEFFICIENTS[6])
    p = fused(p, m, LOG_COEFFICIENTS[7])
    p = fused(p, m, LOG_COEFFICIENTS[8])
    p = fused(p * m, z, exponent * cython.cast(cython.float, -2.12194440e-4))
    p = fused(cython.cast(cython.float, -0.5), z, p)
    return fused(exponent, cython.cast(cython.float, 0.693359375), m + p)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def box_muller(
    numbers: cython.p_float, count: cython.int, mean: cython.float, std: cython.float
) -> cython.void:
    """Turns uniform numbers into normal ones, 16 by 16, in place."""
    radius: cython.float[PAIRS]
    cosine: cython.float[PAIRS]
    sine: cython.float[PAIRS]
    i: cython.int
    half: cython.int = count >> 1
    for i in range(0, half, 8):
        memcpy(radius + i, numbers + 2 * i, 32)
        memcpy(cosine + i, numbers + 2 * i + 8, 32)
    for i in range(half):
        radius[i] = sqrtf(-2 * natural_log(1 - radius[i]))
    cosines_and_sines(cosine, sine, half)
    for i in range(half):
        cosine[i] = fused(radius[i] * cosine[i], std, mean)
        sine[i] = fused(radius[i] * sine[i], std, mean)
    for i in range(0, half, 8):
        memcpy(numbers + 2 * i, cosine + i, 32)
        memcpy(numbers + 2 * i + 8, sine + i, 32)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def cosines_and_sines(
    phases: cython.p_float, sine: cython.p_float, count: cython.int
) -> cython.void:
    """cos (in place) and sin of ``2 * pi * phases``, for turns in [0, 1)."""
    i: cython.int
    octant: int32_t
    angle: cython.float
    x: cython.float
    z: cython.float
    y: cython.float
    c: cython.float
    s: cython.float
    sign: cython.float
    for i in range(count):
        angle = phases[i] * cython.cast(cython.float, 6.283185307179586)
        y = angle * cython.cast(cython.float, 1.2732395447351628)
        octant = cython.cast(int32_t, y)
        octant = (octant + 1) & ~1
        y = cython.cast(cython.float, octant)
        # pi/4 in three parts, the first two short enough for an exact product.
        x = fused(y, cython.cast(cython.float, -0.78515625), angle)
        x = fused(y, cython.cast(cython.float, -2.4187564849853515625e-4), x)
        x = fused(y, cython.cast(cython.float, -3.77489497744594108e-8), x)
        z = x * x
        c = cython.cast(cython.float, 2.443315711809948e-5)
        c = fused(c, z, cython.cast(cython.float, -1.388731625493765e-3))
        c = fused(c, z, cython.cast(cython.float, 4.166664568298827e-2))
        c = fused(c * z, z, cython.cast(cython.float, -0.5) * z) + 1
        s = cython.cast(cython.float, -1.9515295891e-4)
        s = fused(s, z, cython.cast(cython.float, 8.3321608736e-3))
        s = fused(s, z, cython.cast(cython.float, -1.6666654611e-1))
        s = fused(s * z, x, x)
        # A quarter turn swaps the two; the signs follow from the octant's bits.
        sign = cython.cast(cython.float, 1 - (((octant + 2) & 4) >> 1))
        phases[i] = sign * (s if octant & 2 else c)
        sign = cython.cast(cython.float, 1 - ((octant & 4) >> 1))
        sine[i] = sign * (c if octant & 2 else s)
