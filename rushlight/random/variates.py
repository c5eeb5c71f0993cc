"""Gamma, Poisson and binomial numbers, drawn by rejection as PyTorch draws them.

Each function fills ``count`` contiguous elements from as many contiguous parameters.
How many words a number takes depends on the words, so the order of the draws and the
precision in which each is judged are part of what is promised.
"""

import cython
from cython.cimports.libc.math import (
    ceil,
    exp,
    fabs,
    floor,
    isnan,
    lgamma,
    log,
    log1p,
    pow,
    sqrt,
)
from cython.cimports.libc.stdint import int64_t, uint32_t, uintptr_t
from cython.cimports.rushlight.core.dtype import CODE_FLOAT32
from cython.cimports.rushlight.random.distributions import (
    BLOCK,
    left_of,
    load,
    store,
    uniform_doubles,
)
from cython.cimports.rushlight.random.generator import (
    Generator,
    generator_or_default,
    tempered,
)
from cython.cimports.rushlight.random.normal import next_normal

TINY_FLOAT = cython.declare(cython.double, 1.1754943508222875e-38)
TINY_DOUBLE = cython.declare(cython.double, 2.2250738585072014e-308)
# Constants of the gamma sampler are single precision, whatever the numbers are.
THIRD = cython.declare(cython.double, 0.3333333432674408)
SQUEEZE = cython.declare(cython.double, 0.033100001513957977)
TWO_TO_MINUS_53 = cython.declare(cython.double, 1.0 / 9007199254740992.0)
HALF_LOG_TWO_PI = cython.declare(cython.double, 0.9189385332046728)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def next_uniform(source: Generator) -> cython.double:
    """One number in [0, 1) with 53 random bits: `uniform_doubles` of one.

    The words are taken where they lie, unless they are the state's last.
    """
    number: cython.double
    high: uint32_t
    low: uint32_t
    if source.left < 3:
        uniform_doubles(source, cython.address(number), 1)
        return number
    high = tempered(source.state[source.next])
    low = tempered(source.state[source.next + 1])
    source.next += 2
    source.left -= 2
    # The high word's upper 11 bits fall away: 53 are left.
    return (
        cython.cast(cython.double, (cython.cast(int64_t, high & 0x1FFFFF) << 32) | low)
        * TWO_TO_MINUS_53
    )


# Gamma.


@cython.cfunc
@cython.exceptval(check=False)
def next_gamma(
    source: Generator, shape: cython.double, single: cython.bint
) -> cython.double:
    """A gamma number of unit rate: Marsaglia and Tsang's cubed normal.

    Shapes below one are raised by one, and the number scaled by a power of a uniform
    one. In single precision the shape is rounded at each step that PyTorch rounds it.
    """
    scale: cython.double = 1.0
    exponent: cython.double
    d: cython.double
    c: cython.double
    x: cython.double
    y: cython.double
    u: cython.double
    if shape < 1:
        if shape == 0:
            return 0.0
        exponent = 1.0 / shape
        if single:
            exponent = cython.cast(cython.float, exponent)
        scale = pow(1.0 - next_uniform(source), exponent)
        shape = shape + 1.0
        if single:
            shape = cython.cast(cython.float, shape)
    d = shape - THIRD
    if single:
        d = cython.cast(cython.float, d)
    c = 1.0 / sqrt(9.0 * d)
    while True:
        x = next_normal(source)
        y = 1.0 + c * x
        while y <= 0:
            x = next_normal(source)
            y = 1.0 + c * x
        y = y * y * y
        u = 1.0 - next_uniform(source)
        x = x * x
        if u < 1.0 - SQUEEZE * x * x:
            return scale * d * y
        if log(u) < 0.5 * x + d * (1.0 - y + log(y)):
            return scale * d * y


def fill_gamma(
    generator,
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    shapes: uintptr_t,
    single: cython.bint,
):
    """Gamma numbers of unit rate, none below the dtype's least normal number.

    Args:
        shapes: address of as many shapes, of the same dtype.
        single: whether PyTorch computes with shapes of single precision.
    """
    source: Generator = generator_or_default(generator)
    block: cython.double[BLOCK]
    least: cython.double = TINY_FLOAT if code == CODE_FLOAT32 else TINY_DOUBLE
    start: int64_t = 0
    i: cython.int
    size: cython.int
    while start < count:
        size = left_of(count, start)
        load(code, cython.cast(cython.p_char, shapes), start, block, size)
        for i in range(size):
            # A shape that is no positive number ends here too.
            if block[i] > 0:
                block[i] = next_gamma(source, block[i], single)
            elif isnan(block[i]) or block[i] < 0:
                block[i] = hopeless_gamma(source, block[i])
            if not block[i] >= least:
                block[i] = least
        store(code, cython.cast(cython.p_char, address), start, block, size)
        start += size


@cython.cfunc
@cython.exceptval(check=False)
def hopeless_gamma(source: Generator, shape: cython.double) -> cython.double:
    """For a shape without a distribution: the words that one number takes, and zero."""
    if shape < 1:
        next_uniform(source)
    next_normal(source)
    next_uniform(source)
    return 0.0


# Poisson.


@cython.cfunc
@cython.exceptval(check=False)
def next_poisson(source: Generator, rate: cython.double) -> cython.double:
    """A Poisson count: a product of uniform numbers, or Hoermann's rejection from 10 up."""
    k: cython.double = 0.0
    product: cython.double = 1.0
    bound: cython.double
    if rate == 0:
        return 0.0
    if rate >= 10:
        return reject_poisson(source, rate)
    bound = exp(-rate)
    while True:
        product = product * next_uniform(source)
        if product <= bound:
            return k
        k = k + 1


@cython.cfunc
@cython.exceptval(check=False)
def reject_poisson(source: Generator, rate: cython.double) -> cython.double:
    """Hoermann's transformed rejection (PTRS)."""
    b: cython.double = 0.931 + 2.53 * sqrt(rate)
    a: cython.double = -0.059 + 0.02483 * b
    inverse_alpha: cython.double = 1.1239 + 1.1328 / (b - 3.4)
    tight: cython.double = 0.9277 - 3.6224 / (b - 2)
    log_rate: cython.double = log(rate)
    u: cython.double
    v: cython.double
    gap: cython.double
    k: cython.double
    while True:
        u = next_uniform(source) - 0.5
        v = next_uniform(source)
        gap = 0.5 - fabs(u)
        k = floor((2 * a / gap + b) * u + rate + 0.43)
        if gap >= 0.07 and v <= tight:
            return k
        if k < 0 or (gap < 0.013 and v > gap):
            continue
        v = log(v) + log(inverse_alpha) - log(a / (gap * gap) + b)
        if v <= -rate + k * log_rate - lgamma(k + 1):
            return k


def fill_poisson(
    generator, address: uintptr_t, count: int64_t, code: cython.int, rates: uintptr_t
):
    """Poisson counts.

    Args:
        rates: address of as many rates, of the same dtype.

    Raises:
        RuntimeError: a rate is negative or NaN.
    """
    source: Generator = generator_or_default(generator)
    block: cython.double[BLOCK]
    start: int64_t = 0
    i: cython.int
    size: cython.int
    while start < count:
        size = left_of(count, start)
        load(code, cython.cast(cython.p_char, rates), start, block, size)
        for i in range(size):
            if not block[i] >= 0:
                raise RuntimeError(
                    "invalid Poisson rate, expected rate to be non-negative\n"
                    f"  element {start + i} is {block[i]}"
                )
            if block[i] * 0 != 0:  # infinite: the largest negative integer there is
                block[i] = -9223372036854775808.0
            else:
                block[i] = next_poisson(source, block[i])
        store(code, cython.cast(cython.p_char, address), start, block, size)
        start += size


# Binomial.


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def as_kept(value: cython.double, single: cython.bint) -> cython.double:
    """A double as a variable of the result's precision holds it."""
    return cython.cast(cython.float, value) if single else value


@cython.cfunc
@cython.exceptval(check=False)
def stirling_tail(k: cython.double) -> cython.double:
    """What Stirling's formula leaves of ``log(k!)``."""
    square: cython.double = (k + 1) * (k + 1)
    if k <= 9:
        return lgamma(k + 1) - HALF_LOG_TWO_PI - (k + 0.5) * log(k + 1) + (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


@cython.cfunc
@cython.exceptval(check=False)
def wait_binomial(
    source: Generator, trials: cython.double, p: cython.double, single: cython.bint
) -> cython.double:
    """A count of successes from the waiting times between them."""
    log_failure: cython.double = as_kept(log1p(-p), single)
    passed: cython.double = 0
    successes: cython.double = 0
    u: cython.double
    while True:
        u = as_kept(next_uniform(source), single)
        passed = as_kept(
            passed + ceil(as_kept(as_kept(log(u), single) / log_failure, single)),
            single,
        )
        if not passed <= trials:
            return successes
        successes = successes + 1


@cython.cfunc
@cython.exceptval(check=False)
def reject_binomial(
    source: Generator, trials: cython.double, p: cython.double, single: cython.bint
) -> cython.double:
    """Hoermann's transformed rejection with squeeze (BTRS).

    Products of the two parameters alone are rounded to the result's precision.
    """
    failure: cython.double = as_kept(1 - p, single)
    expected: cython.double = as_kept(trials * p, single)
    std: cython.double = as_kept(sqrt(as_kept(expected * failure, single)), single)
    b: cython.double = 1.15 + 2.53 * std
    a: cython.double = -0.0873 + 0.0248 * b + 0.01 * p
    tight: cython.double = 0.92 - 4.2 / b
    odds: cython.double = as_kept(p / failure, single)
    alpha: cython.double = (2.83 + 5.1 / b) * std
    mode: cython.double = floor(as_kept(as_kept(trials + 1, single) * p, single))
    u: cython.double
    v: cython.double
    gap: cython.double
    k: cython.double
    bound: cython.double
    while True:
        u = next_uniform(source) - 0.5
        v = next_uniform(source)
        gap = 0.5 - fabs(u)
        k = floor((2 * a / gap + b) * u + (expected + 0.5))
        if gap >= 0.07 and v <= tight:
            return k
        if k < 0 or k > trials:
            continue
        v = log(v * alpha / (a / (gap * gap) + b))
        bound = (
            (mode + 0.5) * log((mode + 1) / (odds * (trials - mode + 1)))
            + (trials + 1) * log((trials - mode + 1) / (trials - k + 1))
            + (k + 0.5) * log(odds * (trials - k + 1) / (k + 1))
            + stirling_tail(mode)
            + stirling_tail(trials - mode)
            - stirling_tail(k)
            - stirling_tail(trials - k)
        )
        if v <= bound:
            return k


@cython.cfunc
@cython.exceptval(check=False)
def next_binomial(
    source: Generator, trials: cython.double, p: cython.double, single: cython.bint
) -> cython.double:
    """A count of successes; above one half the failures are counted instead."""
    rare: cython.double = p
    count: cython.double
    if trials <= 0 or p <= 0:
        return 0.0
    if p >= 1:
        return trials
    if isnan(p):
        return p
    if p > 0.5:
        rare = as_kept(1.0 - p, single)
    if as_kept(trials * rare, single) < 10:
        count = wait_binomial(source, trials, rare, single)
    else:
        count = reject_binomial(source, trials, rare, single)
    return trials - count if p > 0.5 else count


def fill_binomial(
    generator,
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    trials: uintptr_t,
    chances: uintptr_t,
):
    """Counts of successes.

    Args:
        trials: address of as many numbers of trials, of the same dtype.
        chances: address of as many probabilities of success, of the same dtype.
    """
    source: Generator = generator_or_default(generator)
    block: cython.double[BLOCK]
    rates: cython.double[BLOCK]
    single: cython.bint = code == CODE_FLOAT32
    start: int64_t = 0
    i: cython.int
    size: cython.int
    while start < count:
        size = left_of(count, start)
        load(code, cython.cast(cython.p_char, trials), start, block, size)
        load(code, cython.cast(cython.p_char, chances), start, rates, size)
        for i in range(size):
            block[i] = next_binomial(source, block[i], rates[i], single)
        store(code, cython.cast(cython.p_char, address), start, block, size)
        start += size
