"""Random numbers of a distribution, written to memory: PyTorch's use of the stream.

Each function fills ``count`` elements of a dtype (PyTorch's number for it) at an
address. Which words are drawn, and in which order, is part of what it promises.
"""

import cython
from cython.cimports.libc.math import ceil, fma, log, log1p, tan
from cython.cimports.libc.stdint import (
    int8_t,
    int16_t,
    int32_t,
    int64_t,
    uint16_t,
    uint32_t,
    uint64_t,
    uintptr_t,
)
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core.dtype import (
    CODE_BFLOAT16,
    CODE_BOOL,
    CODE_FLOAT16,
    CODE_FLOAT32,
    CODE_FLOAT64,
    CODE_INT8,
    CODE_INT16,
    CODE_INT32,
    CODE_INT64,
    CODE_UINT8,
    CODE_UINT16,
    CODE_UINT32,
    CODE_UINT64,
)
from cython.cimports.rushlight.core.elements import (
    bfloat16_to_float,
    float_to_half,
    half_to_float,
)
from cython.cimports.rushlight.core.keys import KEY_ABSENT
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.random.generator import Generator, generator_or_default

PI = cython.declare(cython.double, 3.14159265358979323846)
TWO_TO_MINUS_53 = cython.declare(cython.double, 1.0 / 9007199254740992.0)
TWO_TO_MINUS_24 = cython.declare(cython.float, 1.0 / 16777216.0)
# From this span on PyTorch takes 64 bits for an integer, not 32.
WIDE_SPAN = cython.declare(uint64_t, 1 << 28)
# From this length on a permutation takes 64 bits a step: 2**32 / 20.
WIDE_PERMUTATION = cython.declare(int64_t, 214748364)


def plain_address(tensor: Tensor) -> int:
    """Where a row-major tensor on the host with elements begins; 0 for any other.

    Raises:
        NotImplementedError: the tensor has no memory of its own.
    """
    if (tensor.keys >> KEY_ABSENT) & 1:
        raise NotImplementedError("a tensor without memory of its own has no elements")
    if tensor.numel_ == 0 or not tensor.storage.device.on_host or not tensor.row_major:
        return 0
    return cython.cast(uintptr_t, tensor.pointer())


# Words to uniform numbers.


@cython.cfunc
@cython.exceptval(check=False)
def uniform_doubles(
    generator: Generator, out: cython.p_double, count: cython.int
) -> cython.void:
    words: uint32_t[WORDS]
    i: cython.int
    bits: int64_t
    generator.draw(words, 2 * count)
    for i in range(count):
        # The high word's upper 11 bits fall away: 53 are left.
        bits = (cython.cast(int64_t, words[2 * i] & 0x1FFFFF) << 32) | words[2 * i + 1]
        out[i] = cython.cast(cython.double, bits) * TWO_TO_MINUS_53


@cython.cfunc
@cython.exceptval(check=False)
def uniform_floats(
    generator: Generator, out: cython.p_float, count: cython.int
) -> cython.void:
    words: uint32_t[BLOCK]
    i: cython.int
    generator.draw(words, count)
    for i in range(count):
        out[i] = (
            cython.cast(cython.float, cython.cast(int32_t, words[i] & 0xFFFFFF))
            * TWO_TO_MINUS_24
        )


# Numbers to elements.


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def bfloat16_bits(value: cython.float) -> uint16_t:
    """Rounded to nearest, ties to even; the value is no NaN."""
    bits: uint32_t = cython.cast(cython.pointer(uint32_t), cython.address(value))[0]
    return cython.cast(uint16_t, (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


@cython.cfunc
@cython.exceptval(check=False)
def store_floats(
    code: cython.int,
    out: cython.p_char,
    start: int64_t,
    values: cython.pointer(cython.const[cython.float]),
    count: cython.int,
) -> cython.void:
    """Writes floats as float16 or bfloat16."""
    i: cython.int
    halves: cython.pointer(uint16_t) = cython.cast(cython.pointer(uint16_t), out)
    halves += start
    if code == CODE_BFLOAT16:
        for i in range(count):
            halves[i] = bfloat16_bits(values[i])
    else:
        for i in range(count):
            halves[i] = float_to_half(values[i])


@cython.cfunc
@cython.exceptval(-1, check=False)
def store(
    code: cython.int,
    out: cython.p_char,
    start: int64_t,
    values: cython.pointer(cython.const[cython.double]),
    count: cython.int,
) -> cython.int:
    i: cython.int
    whole: int64_t[BLOCK]
    floats: cython.float[BLOCK]
    if code == CODE_FLOAT32:
        for i in range(count):
            cython.cast(cython.p_float, out)[start + i] = cython.cast(
                cython.float, values[i]
            )
    elif code == CODE_FLOAT64:
        for i in range(count):
            cython.cast(cython.p_double, out)[start + i] = values[i]
    elif code == CODE_FLOAT16 or code == CODE_BFLOAT16:
        for i in range(count):
            floats[i] = cython.cast(cython.float, values[i])
        store_floats(code, out, start, floats, count)
    else:
        for i in range(count):
            whole[i] = cython.cast(int64_t, values[i])
        store_integers(code, out, start, whole, count)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def store_integers(
    code: cython.int,
    out: cython.p_char,
    start: int64_t,
    values: cython.pointer(cython.const[int64_t]),
    count: cython.int,
) -> cython.int:
    i: cython.int
    numbers: cython.double[BLOCK]
    if code == CODE_INT64 or code == CODE_UINT64:  # int64, uint64
        for i in range(count):
            cython.cast(cython.pointer(int64_t), out)[start + i] = values[i]
    elif code == CODE_INT32 or code == CODE_UINT32:  # int32, uint32
        for i in range(count):
            cython.cast(cython.pointer(int32_t), out)[start + i] = cython.cast(
                int32_t, values[i]
            )
    elif code == CODE_INT16 or code == CODE_UINT16:  # int16, uint16
        for i in range(count):
            cython.cast(cython.pointer(int16_t), out)[start + i] = cython.cast(
                int16_t, values[i]
            )
    elif code == CODE_UINT8 or code == CODE_INT8:  # uint8, int8
        for i in range(count):
            out[start + i] = cython.cast(int8_t, values[i])
    elif code == CODE_BOOL:
        for i in range(count):
            out[start + i] = values[i] != 0
    elif code in (CODE_FLOAT16, CODE_FLOAT32, CODE_FLOAT64, CODE_BFLOAT16):
        for i in range(count):
            numbers[i] = cython.cast(cython.double, values[i])
        store(code, out, start, numbers, count)
    else:
        raise TypeError(f"random numbers can't be written as dtype number {code}")
    return 0


# Uniform.


def fill_uniform(
    generator,
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    low: cython.double,
    high: cython.double,
):
    """Numbers in ``[low, high)``: 53 bits for float64, 24 bits for the other dtypes.

    A number that rounds to ``high`` becomes ``low``, as in PyTorch.
    """
    source: Generator = generator_or_default(generator)
    out: cython.p_char = cython.cast(cython.p_char, address)
    doubles: cython.p_double = cython.cast(cython.p_double, address)
    floats: cython.float[BLOCK]
    start: int64_t = 0
    size: cython.int
    while start < count:
        size = left_of(count, start)
        if code == CODE_FLOAT64:
            uniform_doubles(source, doubles + start, size)
            if low != 0 or high != 1:
                scale_doubles(doubles + start, size, low, high)
        elif code == CODE_FLOAT32:
            uniform_floats(source, cython.cast(cython.p_float, out) + start, size)
            if low != 0 or high != 1:
                scale_floats(cython.cast(cython.p_float, out) + start, size, low, high)
        else:
            uniform_floats(source, floats, size)
            scale_floats(floats, size, low, high)
            store_floats(code, out, start, floats, size)
            wrap_halves(code, out, start, size, low, high)
        start += size


@cython.cfunc
@cython.exceptval(check=False)
def scale_doubles(
    numbers: cython.p_double, size: cython.int, low: cython.double, high: cython.double
) -> cython.void:
    i: cython.int
    for i in range(size):
        numbers[i] = fma(numbers[i], high - low, low)
        if numbers[i] == high:
            numbers[i] = low


@cython.cfunc
@cython.exceptval(check=False)
def scale_floats(
    numbers: cython.p_float, size: cython.int, low: cython.double, high: cython.double
) -> cython.void:
    i: cython.int
    first: cython.float = cython.cast(cython.float, low)
    end: cython.float = cython.cast(cython.float, high)
    width: cython.double = cython.cast(cython.float, end - first)
    base: cython.double = first
    for i in range(size):
        # Exact in float64, then rounded once: what a fused multiply-add gives.
        numbers[i] = cython.cast(cython.float, numbers[i] * width + base)
        numbers[i] = first if numbers[i] == end else numbers[i]


@cython.cfunc
@cython.exceptval(check=False)
def wrap_halves(
    code: cython.int,
    out: cython.p_char,
    start: int64_t,
    size: cython.int,
    low: cython.double,
    high: cython.double,
) -> cython.void:
    """Replaces elements that were rounded up to ``high`` by ``low``."""
    i: cython.int
    halves: cython.pointer(uint16_t) = cython.cast(cython.pointer(uint16_t), out)
    halves += start
    bounds: cython.float[2]
    ends: uint16_t[2]
    bounds[0] = cython.cast(cython.float, low)
    bounds[1] = cython.cast(cython.float, high)
    store_floats(code, cython.cast(cython.p_char, ends), 0, bounds, 2)
    for i in range(size):
        if halves[i] == ends[1]:
            halves[i] = ends[0]


# Transforms of one 53-bit uniform number.


def fill_exponential(
    generator, address: uintptr_t, count: int64_t, code: cython.int, rate: cython.double
):
    """Exponential numbers: ``-log1p(-u) / rate``."""
    source: Generator = generator_or_default(generator)
    numbers: cython.double[BLOCK]
    scale: cython.double = -1.0 / rate
    start: int64_t = 0
    i: cython.int
    while start < count:
        size: cython.int = left_of(count, start)
        uniform_doubles(source, numbers, size)
        for i in range(size):
            numbers[i] = scale * log1p(-numbers[i])
        store(code, cython.cast(cython.p_char, address), start, numbers, size)
        start += size


def fill_geometric(
    generator, address: uintptr_t, count: int64_t, code: cython.int, p: cython.double
):
    """Trials up to the first success: ``ceil(log(u) / log1p(-p))``."""
    source: Generator = generator_or_default(generator)
    numbers: cython.double[BLOCK]
    divisor: cython.double = log1p(-p)
    start: int64_t = 0
    i: cython.int
    while start < count:
        size: cython.int = left_of(count, start)
        uniform_doubles(source, numbers, size)
        for i in range(size):
            numbers[i] = ceil(log(numbers[i]) / divisor)
        store(code, cython.cast(cython.p_char, address), start, numbers, size)
        start += size


def fill_cauchy(
    generator,
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    median: cython.double,
    sigma: cython.double,
):
    """Cauchy numbers: ``median + sigma * tan(pi * (u - 1/2))``."""
    source: Generator = generator_or_default(generator)
    numbers: cython.double[BLOCK]
    start: int64_t = 0
    i: cython.int
    while start < count:
        size: cython.int = left_of(count, start)
        uniform_doubles(source, numbers, size)
        for i in range(size):
            numbers[i] = median + sigma * tan(PI * (numbers[i] - 0.5))
        store(code, cython.cast(cython.p_char, address), start, numbers, size)
        start += size


# Bernoulli.


def fill_bernoulli(
    generator,
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    p: cython.double,
    one: cython.double = 1.0,
):
    """``one`` with probability ``p``, else 0: a 53-bit uniform number below ``p``."""
    source: Generator = generator_or_default(generator)
    words: uint32_t[WORDS]
    numbers: cython.double[BLOCK]
    # u < p for u = k / 2**53 is k < p * 2**53, a product without rounding.
    bound: int64_t = cython.cast(int64_t, ceil(p * 9007199254740992.0))
    start: int64_t = 0
    bits: int64_t
    i: cython.int
    single: cython.float = cython.cast(cython.float, one)
    floats: cython.pointer(uint32_t) = cython.cast(cython.pointer(uint32_t), address)
    pattern: uint32_t
    below: uint32_t
    memcpy(cython.address(pattern), cython.address(single), 4)
    while start < count:
        size: cython.int = left_of(count, start)
        source.draw(words, 2 * size)
        for i in range(size):
            bits = (cython.cast(int64_t, words[2 * i] & 0x1FFFFF) << 32) | words[
                2 * i + 1
            ]
            below = bits < bound
            if code == CODE_FLOAT32:
                # without a branch on what is drawn: half of them would be mispredicted
                floats[start + i] = pattern & (0 - below)
            else:
                numbers[i] = one if below else 0
        if code != CODE_FLOAT32:
            store(code, cython.cast(cython.p_char, address), start, numbers, size)
        start += size


def fill_bernoulli_from(
    generator,
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    probabilities: uintptr_t,
    probability_code: cython.int,
):
    """1 with each element's own probability (contiguous), else 0.

    Float64 probabilities meet 53-bit uniform numbers, all others 24-bit ones.

    Raises:
        RuntimeError: a probability is not within [0, 1].
    """
    source: Generator = generator_or_default(generator)
    chances: cython.double[BLOCK]
    numbers: cython.double[BLOCK]
    floats: cython.float[BLOCK]
    start: int64_t = 0
    i: cython.int
    while start < count:
        size: cython.int = left_of(count, start)
        load(
            probability_code,
            cython.cast(cython.p_char, probabilities),
            start,
            chances,
            size,
        )
        if probability_code == CODE_FLOAT64:
            uniform_doubles(source, numbers, size)
        else:
            uniform_floats(source, floats, size)
            for i in range(size):
                numbers[i] = floats[i]
        for i in range(size):
            if not 0 <= chances[i] <= 1:
                raise RuntimeError(
                    f"Expected p_in >= 0 && p_in <= 1 to be true, but got {chances[i]}"
                )
            numbers[i] = numbers[i] < chances[i]
        store(code, cython.cast(cython.p_char, address), start, numbers, size)
        start += size


def fill_slopes(
    generator,
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    source: uintptr_t,
    low: cython.double,
    high: cython.double,
):
    """A number drawn from ``[low, high)`` where an element is not above zero, else 1.

    Elements and results are contiguous and of one floating type; numbers have 53 bits, are
    drawn for those elements alone and rounded after each step, as PyTorch's are here; bounds
    are float32 but for float64.
    """
    words: Generator = generator_or_default(generator)
    if code != CODE_FLOAT64:
        low, high = cython.cast(cython.float, low), cython.cast(cython.float, high)
    values: cython.double[BLOCK]
    drawn: cython.double[BLOCK]
    start: int64_t = 0
    i: cython.int
    wanted: cython.int
    while start < count:
        size: cython.int = left_of(count, start)
        load(code, cython.cast(cython.p_char, source), start, values, size)
        wanted = 0
        for i in range(size):
            wanted += values[i] <= 0
        uniform_doubles(words, drawn, wanted)
        wanted = 0
        for i in range(size):
            if values[i] <= 0:
                values[i] = drawn[wanted] * (high - low) + low
                wanted += 1
            else:
                values[i] = 1
        store(code, cython.cast(cython.p_char, address), start, values, size)
        start += size


@cython.cfunc
@cython.exceptval(-1, check=False)
def load(
    code: cython.int,
    source: cython.p_char,
    start: int64_t,
    out: cython.p_double,
    count: cython.int,
) -> cython.int:
    """Floating elements as doubles."""
    i: cython.int
    halves: cython.pointer(uint16_t) = (
        cython.cast(cython.pointer(uint16_t), source) + start
    )
    if code == CODE_FLOAT32:
        for i in range(count):
            out[i] = cython.cast(cython.p_float, source)[start + i]
    elif code == CODE_FLOAT64:
        for i in range(count):
            out[i] = cython.cast(cython.p_double, source)[start + i]
    elif code == CODE_FLOAT16:
        for i in range(count):
            out[i] = half_to_float(halves[i])
    elif code == CODE_BFLOAT16:
        for i in range(count):
            out[i] = bfloat16_to_float(halves[i])
    else:
        raise TypeError(f"probabilities can't have dtype number {code}")
    return 0


# Integers.


@cython.cfunc
@cython.exceptval(check=False)
def narrow_integers(
    source: Generator,
    out: cython.pointer(int64_t),
    count: cython.int,
    span: uint32_t,
    low: int64_t,
) -> cython.void:
    """``word % span + low``; the span is less than 2**31."""
    words: uint32_t[BLOCK]
    inverse: cython.double = 1.0 / span
    word: cython.double
    quotient: int32_t
    rest: int32_t
    i: cython.int
    source.draw(words, count)
    if span & (span - 1) == 0:
        for i in range(count):
            out[i] = (words[i] & (span - 1)) + low
        return
    for i in range(count):
        # Dividing in float64 misses the quotient by one at most, and can use vectors.
        word = (
            cython.cast(
                cython.double,
                cython.cast(int32_t, words[i] ^ cython.cast(uint32_t, 0x80000000)),
            )
            + 2147483648.0
        )
        quotient = cython.cast(int32_t, word * inverse)
        rest = cython.cast(int32_t, words[i] - cython.cast(uint32_t, quotient) * span)
        rest = rest + (cython.cast(int32_t, span) if rest < 0 else 0)
        rest = rest - (
            cython.cast(int32_t, span) if rest >= cython.cast(int32_t, span) else 0
        )
        out[i] = rest + low


@cython.cfunc
@cython.exceptval(check=False)
def wide_integers(
    source: Generator,
    out: cython.pointer(int64_t),
    count: cython.int,
    span: uint64_t,
    low: uint64_t,
) -> cython.void:
    """64 bits ``% span + low``; 0 stands for 2**64, to which PyTorch adds nothing."""
    words: uint32_t[WORDS]
    bits: uint64_t
    mask: uint64_t = span - 1
    i: cython.int
    source.draw(words, 2 * count)
    if span & mask == 0:
        if span == 0:
            low = 0
        for i in range(count):
            bits = (cython.cast(uint64_t, words[2 * i]) << 32) | words[2 * i + 1]
            out[i] = cython.cast(int64_t, (bits & mask) + low)
        return
    for i in range(count):
        bits = (cython.cast(uint64_t, words[2 * i]) << 32) | words[2 * i + 1]
        out[i] = cython.cast(int64_t, bits % span + low)


@cython.cfunc
@cython.exceptval(-1, check=False)
def write_integers(
    source: Generator,
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    low: int64_t,
    span: uint64_t,
    wide: cython.bint,
) -> cython.int:
    block: int64_t[BLOCK]
    values: cython.pointer(int64_t) = block
    start: int64_t = 0
    size: cython.int
    while start < count:
        size = left_of(count, start)
        if code == CODE_INT64:
            values = cython.cast(cython.pointer(int64_t), address) + start
        if wide:
            wide_integers(source, values, size, span, low)
        else:
            narrow_integers(source, values, size, cython.cast(uint32_t, span), low)
        if code != CODE_INT64:
            store_integers(
                code, cython.cast(cython.p_char, address), start, values, size
            )
        start += size
    return 0


def fill_integers(
    generator,
    address: uintptr_t,
    count: int64_t,
    code: cython.int,
    low: int64_t,
    span: uint64_t,
):
    """Integers in ``[low, low + span)``; a span of 0 stands for 2**64.

    Spans from 2**28 up take two words an element, the high one first.
    """
    wide: cython.bint = span == 0 or span >= WIDE_SPAN
    source: Generator = generator_or_default(generator)
    write_integers(source, address, count, code, low, span, wide)


# dtype -> whether an element takes 64 bits, and the end of random_() without bounds.
FULL_RANGES = {
    CODE_UINT8: (False, 1 << 8),
    CODE_INT8: (False, 1 << 7),
    CODE_INT16: (False, 1 << 15),
    CODE_INT32: (False, 1 << 31),
    CODE_INT64: (True, 1 << 63),
    CODE_FLOAT16: (False, (1 << 11) + 1),
    CODE_FLOAT32: (False, (1 << 24) + 1),
    CODE_FLOAT64: (True, (1 << 53) + 1),
    CODE_BOOL: (False, 2),
    CODE_BFLOAT16: (False, (1 << 8) + 1),
}


def fill_full_range(generator, address: uintptr_t, count: int64_t, code: cython.int):
    """Integers from 0 up to the largest that the dtype counts to without gaps."""
    wide, span = FULL_RANGES[code]
    write_integers(generator_or_default(generator), address, count, code, 0, span, wide)


def fill_permutation(generator, address: uintptr_t, count: int64_t, code: cython.int):
    """The integers below ``count`` in random order, by Fisher and Yates."""
    source: Generator = generator_or_default(generator)
    values: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), address)
    i: int64_t
    if code != CODE_INT64:
        values = cython.cast(cython.pointer(int64_t), malloc(8 * max(count, 1)))
        if values == cython.NULL:
            raise MemoryError(f"randperm: no memory for {count} integers")
    for i in range(count):
        values[i] = i
    if count < WIDE_PERMUTATION:
        shuffle(source, values, count)
    else:
        shuffle_wide(source, values, count)
    if code != CODE_INT64:
        try:
            for i in range(0, count, BLOCK):
                store_integers(
                    code,
                    cython.cast(cython.p_char, address),
                    i,
                    values + i,
                    left_of(count, i),
                )
        finally:
            free(values)


@cython.cfunc
@cython.exceptval(check=False)
def shuffle(
    source: Generator, values: cython.pointer(int64_t), count: int64_t
) -> cython.void:
    words: uint32_t[BLOCK]
    start: int64_t = 0
    i: int64_t
    other: int64_t
    kept: int64_t
    while start < count - 1:
        size: cython.int = left_of(count - 1, start)
        source.draw(words, size)
        for i in range(start, start + size):
            other = i + words[i - start] % cython.cast(uint32_t, count - i)
            kept = values[i]
            values[i] = values[other]
            values[other] = kept
        start += size


@cython.cfunc
@cython.exceptval(check=False)
def shuffle_wide(
    source: Generator, values: cython.pointer(int64_t), count: int64_t
) -> cython.void:
    i: int64_t
    other: int64_t
    kept: int64_t
    for i in range(count - 1):
        other = source.draw64() % cython.cast(uint64_t, count - i)
        other += i
        kept = values[i]
        values[i] = values[other]
        values[other] = kept


def single_quotient(dividend: cython.float, divisor: cython.float) -> float:
    """A quotient in single precision."""
    return dividend / divisor
