"""Random numbers of devices that compute them from their place in a stream.

Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) mixes a
counter under a key. PyTorch's kernels on CUDA give each thread a stream of its own, that
of its number, and four words at a time; a thread writes the elements a grid's width
apart. The width follows from the number of elements and from the device's processors, so
the same seed gives the same numbers on the same kind of device. Here every element works
out which thread of PyTorch's would have written it, and at which of its steps.

What is not the same to the last bit: logarithms, sines and cosines, which PyTorch takes
from CUDA's approximations.
"""

from __future__ import annotations

from rushlight.codegen.language import cos, log, sin, sqrt
from rushlight.codegen.loops import T, f32, f64, i64, loops, loops_inline, u32, u64
from rushlight.core.device import backend_for
from rushlight.core.dtype import CODE_FLOAT32, by_code
from rushlight.core.window import address_of
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import run
from rushlight.random.generator import Generator

BLOCK = 256  # threads of a block of PyTorch's
WIDE = 1 << 28  # ranges from here on take words of 64 bits
FLOAT64, INT64 = 7, 4
UNIFORM, UNIFORM64, NORMAL, NORMAL64, WORD, WORD64 = range(6)


@loops_inline
def uniform32(word):
    """In (0, 1], as cuRAND rounds it."""
    return f32(word) * f32(2.3283064365386963e-10) + f32(1.1641532182693481e-10)


@loops_inline
def uniform64(low, high):
    """In (0, 1], of the 53 bits that cuRAND takes."""
    bits = u64(low) ^ (u64(high) << u64(21))
    return f64(bits) * f64(1.1102230246251565e-16) + f64(5.551115123125783e-17)


@loops
def tell_place(state: "i64*", key: int, offset: int, begin: int, end: int):
    """A seed, and how far its stream was read, for launches that were written down."""
    for _ in range(begin, end):
        state[0] = key
        state[1] = offset


@loops
def tell_place_after(place: "i64*", state: "i64*", offset: int, begin: int, end: int):
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
    close: int,
    mode: int,
    told: int,
    begin: int,
    end: int,
):
    """One element at each place: a number, or its words as an integer.

    Where ``close`` is set a thread's elements are neighbours. Where ``told`` is set, the
    seed and the place that ``offset`` is counted from are in memory.
    """
    seed = state[0] if told != 0 else key
    place = state[1] + offset if told != 0 else offset
    wide = mode == 1 or mode == 3 or mode == 5
    unroll = 2 if wide else 4
    for at in range(begin, end):
        turn = at // (width * unroll)
        rest = at % (width * unroll)
        part = rest % unroll if close != 0 else rest // width
        thread = rest // unroll if close != 0 else rest % width
        step = place // 4 + turn
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
        if mode == 0:
            word = c if part == 2 else d
            word = b if part == 1 else word
            word = a if part == 0 else word
            out[at] = T(uniform32(word))
        if mode == 1:
            out[at] = T(uniform64(a, b) if part == 0 else uniform64(c, d))
        if mode == 2:
            near = a if part < 2 else c
            far = b if part < 2 else d
            radius = sqrt(f32(-2) * log(uniform32(near)))
            angle = f32(far) * f32(1.4629180792671596e-09) + f32(7.314590396335798e-10)
            turned = sin(angle) if part % 2 == 0 else cos(angle)
            out[at] = T(radius * turned)
        if mode == 3:
            length = sqrt(f64(-2) * log(uniform64(a, b)))
            turns = f64(u64(c) ^ (u64(d) << u64(21))) * f64(2.220446049250313e-16)
            angle64 = (turns + f64(1.1102230246251565e-16)) * f64(3.141592653589793)
            turned64 = sin(angle64) if part == 0 else cos(angle64)
            out[at] = T(length * turned64)
        if mode == 4:
            word4 = c if part == 2 else d
            word4 = b if part == 1 else word4
            word4 = a if part == 0 else word4
            out[at] = T(i64(word4))
        if mode == 5:
            high = a if part == 0 else c
            low = b if part == 0 else d
            out[at] = T((u64(high) << u64(32)) | u64(low))


def grid_width(count, processors, threads):
    """How many threads PyTorch's grid has for so many elements.

    >>> grid_width(1000, 132, 2048), grid_width(10**9, 132, 2048)
    (1024, 270336)
    """
    blocks = -(-count // BLOCK)
    return BLOCK * min(blocks, processors * (threads // BLOCK))


def draw(like, count, mode, generator, close=False):
    """``count`` numbers of a kind, in a row, on the device of ``like``."""
    device = like.device
    backend = backend_for(device.type)
    source = backend.generator(device) if generator is None else generator
    if isinstance(source, Generator) and source.device.type != device.type:
        raise RuntimeError(
            f"Expected a '{device.type}' device type for generator but found "
            f"'{source.device.type}'"
        )
    kinds = {UNIFORM: 6, NORMAL: 6, UNIFORM64: 7, NORMAL64: 7, WORD: 4, WORD64: 4}
    out = ops.empty((count,), dtype=by_code(kinds[mode]), device=device)
    width = grid_width(count, *backend.processors(device))
    unroll = 2 if mode in (UNIFORM64, NORMAL64, WORD64) else 4
    key, offset, state = place_for(
        device, source, 4 * ((count - 1) // (width * unroll) + 1)
    )
    types = {"T": out.dtype.name, "mode": mode, "told": int(state is not None)}
    run(philox, [out, state], [key, offset, width, int(close)], count, **types)
    return out


def place_for(device, source, steps):
    """Where a launch reads a stream.

    Returns:
        The seed as a signed number, the place, and the tensor of two integers that they
        are in where the launch is written down, when the place is counted from there;
        otherwise None.
    """
    recorder = backend_for(device.type).graphs.recorder(device)
    if recorder is None:
        seed, offset = source.take(steps)
        return signed(seed), offset, None
    offset, told = recorder.place(source, steps, lambda: Told(device))
    return 0, offset, told.state


def place_in(state, offset):
    """A tensor of a seed and a place, counted from those that ``state`` tells then."""
    place = ops.empty_like(state)
    run(tell_place_after, [place, state], [offset], 1)
    return place


class Told:
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
        run(tell_place, [self.state], [signed(seed), offset], 1)


def signed(seed):
    """A seed's bits as a number with a sign."""
    return seed - (1 << 64) if seed >= 1 << 63 else seed


def uniforms(self, generator):
    """One number in (0, 1] for each element: a double for doubles."""
    mode = UNIFORM64 if self.dtype.code == FLOAT64 else UNIFORM
    return draw(self, self.numel(), mode, generator)


def fill_uniform(self, generator, low, high):
    span = high - low
    x = uniforms(self, generator)
    x = ops.add(ops.mul(x, span), low) if span != 1 or low else x
    x = ops.to(x, self.dtype)
    return ops.where(ops.eq(x, high), ops.full_like(x, low), x)


def normals(self, generator, mean, std):
    mode = NORMAL64 if self.dtype.code == FLOAT64 else NORMAL
    x = draw(self, self.numel(), mode, generator)
    return ops.add(ops.mul(x, std), mean)


def fill_normal(self, generator, mean, std, exponential=False):
    x = normals(self, generator, mean, std)
    return ops.exp(x) if exponential else x


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
    """Which elements of so many bytes a dropout keeps, in the order of its kernel."""
    close = itemsize == 4 and self.numel() % 4 == 0
    return ops.lt(draw(self, self.numel(), UNIFORM, generator, close), p)


def bernoulli_of(self, chances, generator):
    """Ones with each element's own probability, else zeros."""
    x = ops.reshape(uniforms(chances, generator), chances.shape)
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
    x = draw(self, self.numel(), WORD64 if wide else WORD, generator)
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
    """The order of numbers drawn at random; equal ones keep theirs."""
    keys = draw(self, self.numel(), WORD64, generator)
    return ops.argsort(keys, stable=True)


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
    values = FILLS[name](self, generator, *parameters)
    target = self
    strides = self.stride()
    order = sorted(range(self.ndim), key=lambda dim: -strides[dim])
    turned = ops.permute(self, order)
    if turned.is_contiguous():
        target = turned
    ops.copy_(target, ops.reshape(values, target.shape))
    return self
