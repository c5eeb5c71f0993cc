"""Random numbers of devices that compute them from their place in a stream.

Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) mixes a
counter under a key. PyTorch's kernels on CUDA give each thread a stream of its own, that
of its number, and four words at a time; a thread writes the elements a grid's width
apart. The width follows from the number of elements and from the device's processors, so
the same seed gives the same numbers on the same kind of device. Here each thread takes
one step of one of PyTorch's, and writes what that would have written.

What is not the same to the last bit: logarithms, sines and cosines, which PyTorch takes
from CUDA's approximations.
"""

from __future__ import annotations

import math
from struct import pack

from rushlight.codegen.language import cos, float_of, fma, log, sin, sqrt
from rushlight.codegen.loops import (
    T,
    f32,
    f64,
    i64,
    loops,
    loops_inline,
    stored,
    u32,
    u64,
)
from rushlight.core.device import backend_for
from rushlight.core.dtype import CODE_FLOAT32, by_code
from rushlight.core.dtypes import int32
from rushlight.core.window import address_of
from rushlight.dispatch.trace import unplanned
from rushlight.kernels.random.box_muller import cosine_and_sine, natural_log
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import run
from rushlight.random.generator import Generator

BLOCK = 256  # threads of a block of PyTorch's
WIDE = 1 << 28  # ranges from here on take words of 64 bits
FLOAT64, INT64 = 7, 4
UNIFORM, UNIFORM64, NORMAL, NORMAL64, WORD, WORD64 = range(6)
PLAIN, BETWEEN, SCALED, BELOW, BELOW_IN_WORDS = range(5)
PLAIN_TYPES = (6, 7, 6, 7, 4, 4)  # codes of the types that numbers of a kind have
BERNOULLI_STEPS = 12  # words that PyTorch counts for one launch of those


@loops_inline
def words(step, thread, seed):
    """The four words of a thread's step: ten rounds of Philox 4x32."""
    a = u32(step & 4294967295)
    b = u32(step >> 32)
    c = u32(thread & 4294967295)
    d = u32(thread >> 32)
    k = u32(seed & 4294967295)
    j = u32((seed >> 32) & 4294967295)
    for _ in range(10):
        first = u64(a) * u64(3528531795)
        second = u64(c) * u64(3449720151)
        a = u32(second >> u64(32)) ^ b ^ k
        b = u32(second & u64(4294967295))
        c = u32(first >> u64(32)) ^ d ^ j
        d = u32(first & u64(4294967295))
        k = k + u32(2654435769)
        j = j + u32(3144134277)
    return a, b, c, d


@loops_inline
def uniform32(word):
    """In (0, 1], as cuRAND rounds it."""
    return f32(word) * f32(2.3283064365386963e-10) + f32(1.1641532182693481e-10)


@loops_inline
def uniform64(low, high):
    """In (0, 1], of the 53 bits that cuRAND takes."""
    bits = u64(low) ^ (u64(high) << u64(21))
    return f64(bits) * f64(1.1102230246251565e-16) + f64(5.551115123125783e-17)


@loops_inline
def word_of(part, a, b, c, d):
    """One of a step's four words."""
    word = c if part == 2 else d
    word = b if part == 1 else word
    word = a if part == 0 else word
    return word


@loops_inline
def normal32(part, a, b, c, d):
    """One of four numbers by Box and Muller, as cuRAND pairs the words."""
    one = a if part < 2 else c
    two = b if part < 2 else d
    radius = sqrt(f32(-2) * natural_log(uniform32(one)))
    angle = f32(two) * f32(1.4629180792671596e-09)
    cosine, sine = cosine_and_sine(angle + f32(7.314590396335798e-10))
    return radius * (sine if part % 2 == 0 else cosine)


@loops_inline
def normal64(part, a, b, c, d):
    """One of two, of doubles."""
    length = sqrt(f64(-2) * log(uniform64(a, b)))
    angle_unit = f64(u64(c) ^ (u64(d) << u64(21))) * f64(2.220446049250313e-16)
    angle = (angle_unit + f64(1.1102230246251565e-16)) * f64(3.141592653589793)
    return length * (sin(angle) if part == 0 else cos(angle))


@loops
def set_position(state: "i64*", key: int, offset: int, begin: int, end: int):
    """A seed, and how far its stream was read, for launches that were written down."""
    for _ in range(begin, end):
        state[0] = key
        state[1] = offset


@loops
def set_position_after(place: "i64*", state: "i64*", offset: int, begin: int, end: int):
    """A seed, and a place that is counted from where its stream is."""
    for _ in range(begin, end):
        place[0] = state[0]
        place[1] = state[1] + offset


@loops
def philox(
    out: "T*",
    state: "i64*",
    key: int,
    offset: int,
    width: int,
    count: int,
    low: int,
    span: int,
    high: int,
    mode: int,
    ending: int,
    each: int,
    from_state: int,
    narrow: int,
    begin: int,
    end: int,
):
    """The four words of a thread's step, and the elements that they become.

    ``mode`` says what numbers the words make, ``ending`` what is done with them: nothing,
    or ``low + number * span`` below ``high`` (`BETWEEN`), or that with any ends (`SCALED`),
    or whether a number is below ``high`` (`BELOW`), four such bytes in a word where a thread
    has as many neighbours (`BELOW_IN_WORDS`); those three are the bits of doubles.
    A thread's elements are a grid's width apart, or ``each`` of them neighbours. Where
    ``from_state`` is set, the seed and the place that ``offset`` is counted from are in memory.
    ``narrow`` says that a step's number fits 32 bits, which are divided much faster.
    """
    seed = state[0] if from_state != 0 else key
    place = state[1] + offset if from_state != 0 else offset
    wide = mode == 1 or mode == 3 or mode == 5
    unroll = 2 if wide else 4
    halves = 2 if each == 8 else 1
    for at in range(begin, end):
        half = at % halves
        own = at // halves
        quotient = i64(u32(own) // u32(width)) if narrow != 0 else own // width
        thread = own - quotient * width
        step = place // 4 + quotient * halves + half
        a, b, c, d = words(step, thread, seed)
        packed = u32(0)
        for part in range(unroll):
            offset_in_block = quotient * width * unroll + part * width + thread
            to = own * each + half * 4 + part if each != 0 else offset_in_block
            good = to < count and (each == 0 or part < each)
            if mode == 0:
                drawn = uniform32(word_of(part, a, b, c, d))
                near = stored("T", fma(drawn, f32(float_of(span)), f32(float_of(low))))
                least = f32(float_of(low))
                most = stored("T", f32(float_of(high)))
                if good and ending == 0:
                    out[to] = T(drawn)
                if good and ending == 1:
                    out[to] = T(least) if near == most else T(near)
                if good and ending == 3:
                    out[to] = T(f64(drawn) < float_of(high))
                if ending == 4:
                    packed = packed | (
                        u32(f64(drawn) < float_of(high)) << u32(8 * part)
                    )
            if mode == 1:
                drawn64 = uniform64(a, b) if part == 0 else uniform64(c, d)
                near64 = fma(drawn64, float_of(span), float_of(low))
                near64 = float_of(low) if near64 == float_of(high) else near64
                if good:
                    out[to] = T(near64) if ending == 1 else T(drawn64)
            if mode == 2:
                number = normal32(part, a, b, c, d)
                scaled = fma(number, f32(float_of(span)), f32(float_of(low)))
                if good:
                    out[to] = T(scaled) if ending == 2 else T(number)
            if mode == 3:
                normal64_value = normal64(part, a, b, c, d)
                scaled64 = fma(normal64_value, float_of(span), float_of(low))
                if good:
                    out[to] = T(scaled64) if ending == 2 else T(normal64_value)
            if mode == 4 and good:
                out[to] = T(i64(word_of(part, a, b, c, d)))
            if mode == 5 and good:
                upper = a if part == 0 else c
                lower = b if part == 0 else d
                out[to] = T((u64(upper) << u64(32)) | u64(lower))
        if ending == 4 and own * each + half * 4 < count:
            out[own * (each // 4) + half] = T(packed)


@loops
def shuffle_equals(
    positions: "T*",
    keys: "i64*",
    state: "i64*",
    key: int,
    offset: int,
    size: int,
    from_state: int,
    begin: int,
    end: int,
):
    """Shuffles the places of equal keys, which are in order: the first of them does.

    Its numbers are those of the thread that has its place, one word for each exchange.
    """
    seed = state[0] if from_state != 0 else key
    start = state[1] + offset if from_state != 0 else offset
    for at in range(begin, end):
        same = 1
        if at + 1 < size and (at == 0 or keys[at - 1] != keys[at]):
            while at + same < size and keys[at + same] == keys[at]:
                same = same + 1
        for taken in range(same - 1):
            step = (start + taken) // 4
            part = (start + taken) % 4
            a, b, c, d = words(step, at, seed)
            word = word_of(part, a, b, c, d)
            last = same - 1 - taken
            other = i64(word) % (last + 1)
            kept = positions[at + last]
            positions[at + last] = positions[at + other]
            positions[at + other] = kept


def grid_width(count, processors, threads):
    """How many threads PyTorch's grid has for so many elements.

    >>> grid_width(1000, 132, 2048), grid_width(10**9, 132, 2048)
    (1024, 270336)
    """
    blocks = -(-count // BLOCK)
    return BLOCK * min(blocks, processors * (threads // BLOCK))


def draw(like, mode, generator, ending=PLAIN, ends=(0.0, 0.0, 0.0), out=None, each=0):
    """Numbers of a kind, one for each element of ``like``, in a row, on its device.

    Args:
        like: a tensor.
        mode: what numbers.
        generator: where they come from; the device's own where it is None.
        ending: what is done with them.
        ends: low end, span and high end, as ``ending`` takes them.
        out: where they go.
        each: how many neighbours a thread takes; 0 where its elements lie apart.
    """
    device, count = like.device, like.numel()
    backend = backend_for(device.type)
    source = backend.generator(device) if generator is None else generator
    if isinstance(source, Generator) and backend_for(source.device) is not backend:
        raise RuntimeError(
            f"Expected a '{device.type}' device type for generator but found "
            f"'{source.device.type}'"
        )
    if out is None:
        out = ops.empty((count,), dtype=by_code(PLAIN_TYPES[mode]), device=device)
    width = grid_width(count, *backend.processors(device))
    unroll = 2 if mode in (UNIFORM64, NORMAL64, WORD64) else 4
    angle_unit = -(-count // (width * unroll))
    place = place_for(device, source, 4 * angle_unit)
    if each:
        angle_unit = -(-count // (width * each)) * max(1, each // 4)
    launch(out, place, width, count, angle_unit * width, mode, ending, ends, each)
    return out


def launch(
    out, place, width, count, steps, mode, ending=PLAIN, ends=(0.0,) * 3, each=0
):
    """Has so many steps drawn; ``place`` is what `place_for` has given."""
    key, offset, state = place
    types = {"T": out.dtype.name, "mode": mode, "ending": ending, "each": each}
    types |= {"from_state": int(state is not None), "narrow": int(steps < 1 << 31)}
    bits = [int.from_bytes(pack("<d", end), "little", signed=True) for end in ends]
    run(philox, [out, state], [key, offset, width, count, *bits], steps, **types)


def place_for(device, source, steps):
    """Where a launch reads a stream.

    Returns:
        The seed as a signed number, the place, and the tensor of two integers that they
        are in where the launch is written down, when the place is counted from there;
        otherwise None.
    """
    unplanned()  # the next call reads on
    recorder = backend_for(device.type).graphs.recorder(device)
    if recorder is None:
        seed, offset = source.take(steps)
        return signed(seed), offset, None
    offset, from_state = recorder.place(source, steps, lambda: LaunchState(device))
    return 0, offset, from_state.state


def place_in(state, offset):
    """A tensor of a seed and a place, counted from those that ``state`` tells then."""
    place = ops.empty_like(state)
    run(set_position_after, [place, state], [offset], 1)
    return place


class LaunchState:
    """A seed and a place in memory, for launches that were written down.

    Args:
        device: where they are read.

    Attributes:
        queues: that have been told them.
    """

    def __init__(self, device):
        self.state = ops.empty((2,), dtype=by_code(INT64), device=device)
        self.address, self.queues = address_of(self.state), set()

    def __call__(self, seed, offset):
        run(set_position, [self.state], [signed(seed), offset], 1)


def signed(seed):
    """A seed's bits as a number with a sign."""
    return seed - (1 << 64) if seed >= 1 << 63 else seed


def uniforms(self, generator):
    """One number in (0, 1] for each element: a double for doubles."""
    return draw(self, UNIFORM64 if self.dtype.code == FLOAT64 else UNIFORM, generator)


def fill_uniform(self, generator, low, high):
    mode = UNIFORM64 if self.dtype.code == FLOAT64 else UNIFORM
    return draw(self, mode, generator, BETWEEN, (low, high - low, high), self)


def fill_normal(self, generator, mean, std, exponential=False):
    mode = NORMAL64 if self.dtype.code == FLOAT64 else NORMAL
    if exponential:
        return ops.exp(draw(self, mode, generator, SCALED, (mean, std, 0.0)))
    return draw(self, mode, generator, SCALED, (mean, std, 0.0), self)


def fill_exponential(self, generator, rate):
    x = uniforms(self, generator)
    tiny = (2.0**-23 if x.dtype.code == CODE_FLOAT32 else 2.0**-52) / 2
    logs = ops.where(ops.ge(x, 1 - tiny), ops.full_like(x, -tiny), ops.log(x))
    return ops.mul(logs, -1 / rate)


def fill_cauchy(self, generator, median, sigma):
    x = uniforms(self, generator)
    tiny = 2.0**-23 if x.dtype.code == CODE_FLOAT32 else 2.0**-52
    x = ops.clamp(x, tiny, 1 - tiny)
    angle = ops.mul(ops.sub(x, 0.5), 3.141592653589793)
    return ops.add(ops.mul(ops.tan(angle), sigma), median)


def fill_geometric(self, generator, p):
    from math import log1p

    return ops.ceil(ops.div(ops.log(uniforms(self, generator)), log1p(-p)))


def fill_bernoulli(self, generator, p):
    return ops.lt(uniforms(self, generator), p)


def fill_kept(self, generator, p, itemsize):
    """Which elements of so many bytes a dropout keeps, in the order of its kernel.

    Threads of PyTorch's take as many neighbours as fill a load and divide all elements.
    """
    each = 16 // itemsize
    while self.numel() % each:
        each //= 2
    each = 0 if each == 1 else each
    ending, out = BELOW, self
    if each >= 4:
        ending, out = BELOW_IN_WORDS, self.view(int32)
    draw(self, UNIFORM, generator, ending, (0.0, 0.0, p), out, each)
    return self


def bernoulli_of(self, chances, generator):
    """Ones with each element's own probability, else zeros.

    A thread of PyTorch's takes four neighbours, in one step of its stream.
    """
    backend = backend_for(self.device.type)
    source = backend.generator(self.device) if generator is None else generator
    count = chances.numel()
    x = ops.empty(chances.shape, dtype=by_code(CODE_FLOAT32), device=self.device)
    threads = -(-count // 4)
    place = place_for(self.device, source, BERNOULLI_STEPS)
    launch(x, place, threads, count, threads, UNIFORM, each=4)
    return ops.copy_(self, ops.le(x, chances))


def fill_full_range(self, generator):
    from rushlight.random.distributions import FULL_RANGES

    low, high = FULL_RANGES[self.dtype.code]
    wide = self.dtype.code in (INT64, FLOAT64)
    return remainders(self, generator, wide, high - low, low)


def fill_integers(self, generator, low, span):
    return remainders(self, generator, span >= WIDE or not span, span, low)


def remainders(self, generator, wide, span, low):
    """Words modulo a range, and what that begins at."""
    x = draw(self, WORD64 if wide else WORD, generator)
    if wide and span:
        x = remainder64(x, span)
    elif span:
        x = ops.remainder(x, span)
    low = low - (1 << 64) if low >= 1 << 63 else low
    return ops.add(x, low) if low else x


def remainder64(x, span):
    """What is left of numbers of 64 bits, without a sign, after division."""
    if span >= 1 << 63:
        over = ops.bitwise_and(ops.lt(x, 0), ops.ge(x, span - (1 << 64)))
        return ops.where(over, ops.sub(x, span - (1 << 64)), x)
    # the upper half is what a sign bit would take away
    negative = ops.lt(x, 0)
    rest = ops.remainder(ops.bitwise_and(x, (1 << 63) - 1), span)
    more = ops.mul(negative, (1 << 63) % span)
    total = ops.sub(rest, ops.sub(span, more))  # no sum may pass 63 bits
    return ops.where(ops.lt(total, 0), ops.add(total, span), total)


def fill_permutation(self, generator):
    """The order of numbers drawn at random, of as many bits as leave few of them equal.

    What has equal ones is shuffled once more. How many bits: https://osf.io/af2hy/.
    """
    count, device = self.numel(), self.device
    chance = 12 * math.log(0.9)
    bits = min(64, math.ceil(math.log2(count - (6 * count**2 + 1) / chance)))
    size = 32 if bits <= 32 else 64
    low = -(1 << (size - 1))
    whole = ops.empty((count,), dtype=by_code(INT64), device=device)
    keys = remainders(whole, generator, True, (1 << size) - 1, low)
    if bits < size:
        keys = ops.bitwise_and(keys, (1 << bits) - 1)
    keys, positions = ops.sort(keys, stable=True, dim=0, descending=False)
    backend = backend_for(device.type)
    source = backend.generator(device) if generator is None else generator
    key, offset, state = place_for(device, source, -(-count // 4) * 4)
    operands, from_state = [positions, keys, state], int(state is not None)
    run(
        shuffle_equals,
        operands,
        [key, offset, count],
        count,
        T="int64",
        from_state=from_state,
    )
    return positions


FILLS = {
    name: function for name, function in globals().items() if name.startswith("fill_")
}
FILLS["fill_normal_serial"] = fill_normal


def fill(self, name, generator, *parameters):
    """Fills a tensor as a function of `rushlight.core` would that of the host.

    Elements are counted in the order of their memory where that is dense, as PyTorch's
    kernels do, and else row by row.
    """
    if self.numel() == 0:
        return self
    target = self
    strides = self.stride()
    order = sorted(range(self.ndim), key=lambda dim: -strides[dim])
    permuted = ops.permute(self, order)
    dense = permuted.is_contiguous()
    if dense:
        target, flat = permuted, ops.view(permuted, (-1,))
    else:
        flat = ops.empty((self.numel(),), dtype=self.dtype, device=self.device)
    values = FILLS[name](flat, generator, *parameters)
    if not dense or values is not flat:
        ops.copy_(target, ops.reshape(values, target.shape))
    return self
