"""Plans of Fourier transforms: the order of radices, the roots of one, blocks of lines."""

import functools
import math

from rushlight.core.dtypes import float64, int64
from rushlight.core.roles import host, roles_for
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.kernels.fft.fft_radix import (
    COMPLEX,
    HALF,
    PAIRED,
    RADICES,
    REAL,
    lanes_of,
    lines_kernel,
    roots,
)
from rushlight.kernels.fft.fft_registers import SIZES, transform_short
from rushlight.kernels.fft.fft_steps import (
    steps_of,
    strided_steps,
    strided_transform,
    table_of,
    transform_along,
)
from rushlight.kernels.line_batches import batches
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor as make_tensor
from rushlight.operators.loop_calls import place_of

POWERS = (16, 8, 4, 2)  # radices of the kernel that most sizes need
ALONE = 512  # lines of this length or more have vectors of their own: a block of them,
ODD_ALONE = 1024  # or where radices are odd as well, leaves the first-level cache
NEAR = 1 << 17  # elements of a block, at most: it stays in the second-level cache
KEPT = 64  # plans that are remembered
MANY = 64  # lines from which short ones have a kernel of their own
LONG = 1 << 15  # elements of a line that is a table: no kernel keeps it in the caches,
FEW = 4  # where there are no more lines: of more each is a thread's own


def radices_of(size):
    """Radices whose product is a size, the largest first; None for other sizes.

    >>> radices_of(1000), radices_of(32), radices_of(11)
    ((8, 5, 5, 5), (8, 4), None)
    """
    found = []
    for prime in (7, 5, 3):
        while size % prime == 0:
            found.append(prime)
            size //= prime
    power = size.bit_length() - 1
    if size != 1 << power:
        return None
    # as few steps as can be, and of those the most even ones
    steps = -(-power // 4)
    while steps:
        bits = -(-power // steps)
        found.append(1 << bits)
        power -= bits
        steps -= 1
    return tuple(sorted(found, reverse=True))


def good_size(least):
    """The smallest power of two, or three times one, that is no less.

    >>> good_size(17), good_size(25)
    (24, 32)
    """
    power = 1 << max(least - 1, 1).bit_length()
    return power * 3 // 4 if power * 3 // 4 >= least and power >= 4 else power


class FFTPlan:
    """How lines of one length are transformed, in one type of parts."""

    def __init__(self, size, dtype):
        self.size, self.dtype = size, dtype
        self.radices = radices_of(size)
        if self.radices is None:
            return
        self.steps = make_tensor(self.radices or (1,), dtype=int64)

    @functools.cached_property
    def kernel(self):
        """The kernel of all sizes, or of powers of two: seconds to build where it is new."""
        powers = set(self.radices) <= set(POWERS)
        return lines_kernel(self.dtype.name, POWERS if powers else RADICES)

    @functools.cached_property
    def roots(self):
        """Roots of one for every step: real parts, then imaginary ones."""
        tables, length = [], self.size
        for radix in self.radices:
            rows = length // radix
            k = ops.arange(1, radix, dtype=float64).unsqueeze(1)
            phases = k * ops.arange(rows, dtype=float64)
            tables += [part.flatten() for part in roots(phases, length)]
            length = rows
        if not tables:
            return ops.zeros(1, dtype=self.dtype)
        return ops.cat(tables).to(self.dtype)

    @functools.cached_property
    def halves(self):
        """The first half of the roots for lines of twice the length."""
        phases = ops.arange(self.size // 2 + 1, dtype=float64)
        return ops.cat(roots(phases, 2 * self.size)).to(self.dtype)


@functools.lru_cache(KEPT)
def plan_for(size, dtype):
    """The plan, made once."""
    return FFTPlan(size, dtype)


@functools.lru_cache(KEPT)
def number(value, dtype):
    """A number where a kernel reads it."""
    return make_tensor([value], dtype=dtype)


def parts_of(tensor):
    """What a line's elements are, and how many real numbers one takes."""
    return (COMPLEX, 2) if tensor.is_complex() else (REAL, 1)


def transform_lines(source, out, dim, forward, scale, size=None):
    """One-dimensional transforms of all lines along a dimension.

    Args:
        source: what is read: complex, real, or with a real result and ``size`` the
            first half of complex lines.
        out: what is written, whose other sizes are those of the source; it may be the
            source.
        size: the length of the transform; by default that of the source's lines.
    """
    if not out.numel():
        return out
    return _transform(out, source, dim, forward, scale, size)


def _transform_on_device(out, source, dim, forward, scale, size):
    library = roles_for(place_of(out)).fft
    return library.transform_lines(source, out, dim, forward, scale, size)


def _transform_on_host(out, source, dim, forward, scale, size):
    parts = out.dtype.to_real() if out.is_complex() else out.dtype
    in_kind, in_unit = parts_of(source)
    out_kind, out_unit = parts_of(out)
    in_count, out_count = source.shape[dim], out.shape[dim]
    in_step, out_step = source.stride(dim), out.stride(dim)
    if size is None:
        size = in_count
    length = size
    if out_kind == REAL:
        in_kind, in_count = HALF, size // 2 + 1
        if size % 2 == 0 and out_step == 1:
            in_kind, out_kind = PAIRED, COMPLEX
            length, out_count, out_step = size // 2, size // 2, 2
    elif in_kind == REAL and size % 2 == 0 and in_step == 1:
        in_kind, out_kind = COMPLEX, PAIRED
        length, in_count, in_step = size // 2, size // 2, 2
    plan = plan_for(length, parts)
    if plan.radices is None and not steps_of(length):
        return transform_primes(source, out, dim, forward, scale, size)
    batch = batches(source, out, dim)
    if batch is None:
        return transform_copies(source, out, dim, forward, scale, size)
    (outer, in_outer, out_outer), (inner, in_line, out_line) = batch
    in_step, out_step = in_step * in_unit, out_step * out_unit
    steps = in_step, out_step
    whole = out_kind == PAIRED and out_count == 2 * length
    whole = whole and length > 1  # of two elements half of the transform is all
    if (
        in_kind in (COMPLEX, PAIRED)
        and out_kind != REAL
        and in_count == length + (in_kind == PAIRED)
        and (whole or out_count == length + (out_kind == PAIRED))
    ):
        lines = [(many, near * in_unit, far * out_unit) for many, near, far in batch]
        how = (length, source, out, lines)
        factor, few = (number(scale, parts), scale), outer * inner <= FEW
        if steps == (2, 2):
            if in_kind == COMPLEX and length in SIZES:
                if outer == 1 and inner >= MANY and not whole:
                    return transform_many(
                        source, out, dim, forward, scale, size, plan, batch[1]
                    )
            elif few and in_kind == out_kind == COMPLEX and sides_of(length):
                return transform_long(source, out, dim, forward, scale)
            elif has_table(length, inner, parts.itemsize):
                transform_along(*how, forward, factor, whole)
                return out
        elif (
            lines[1][1:] == (2, 2)
            and in_kind == out_kind == COMPLEX
            and strided_steps(length, parts.itemsize)
        ):
            strided_transform(*how, steps, forward, factor)
            return out
    if whole:
        return transform_whole(source, out, dim, forward, scale)
    if size % 2 and (in_kind, out_kind) != (COMPLEX, COMPLEX):
        if has_table(size, inner, parts.itemsize):
            return transform_as_complex(source, out, dim, forward, scale, size)
    if plan.radices is None:
        return transform_primes(source, out, dim, forward, scale, size)
    lanes = lanes_of(parts.itemsize)
    width = width_of(length, inner, lanes, in_step == out_step == 2)
    blocks = outer * -(-inner // width)
    work = length * width * blocks * (len(plan.radices) + 2)
    tasks = 1
    if work > 4 * host.launch.SMALLEST_TASK:
        tasks = min(blocks, 2 * host.pool.get_num_threads())
    room = (length + 1) * width
    scratch = ops.empty(tasks * 4 * room + lanes * lanes, dtype=parts)
    ints = (
        length, width, room, inner, blocks, tasks, len(plan.radices), not forward,
        in_kind, in_count, in_step, in_line * in_unit, in_outer * in_unit,
        out_kind, out_count, out_step, out_line * out_unit, out_outer * out_unit,
    )  # fmt: skip
    factor = number(scale, parts)
    operands = (out, source, scratch, plan.roots, factor, plan.steps, plan.halves)
    host.launch.launch(plan.kernel, operands, ints, tasks, 1)
    return out


_transform = KernelTable(
    cpu=_transform_on_host, cuda=_transform_on_device, meta=lambda out, *_: out
)


def has_table(size, count, itemsize):
    """Whether a kernel of one size is for so many lines.

    A quarter of its lanes must have one, or the size none of the radices of all sizes.
    """
    table = table_of(size, itemsize)
    return table is not None and (
        4 * count * table[0] >= lanes_of(itemsize) or radices_of(size) is None
    )


def transform_as_complex(source, out, dim, forward, scale, size):
    """Real lines of an odd length, by way of complex ones."""
    if out.is_complex():
        lines = source.movedim(dim, -1).to(out.dtype).contiguous()
    else:
        lines, scale = half_lines(source.movedim(dim, -1), size), 2 * scale
    transform_lines(lines, lines, lines.ndim - 1, forward, scale)
    target = out.movedim(dim, -1)
    lines = lines[..., : target.shape[-1]]
    target.copy_(lines if out.is_complex() else ops.real(lines))
    return out


def transform_many(source, out, dim, forward, scale, size, plan, batch):
    """Short lines in blocks that stay close by; the last few as others are."""
    count, in_line, out_line = batch
    factor = number(scale, out.dtype.to_real())
    steps = in_line * parts_of(source)[1], out_line * 2
    done = transform_short(source, out, count, *steps, forward, factor, plan)
    if done < count:
        rest = [
            x.as_strided(
                (count - done, x.shape[dim]),
                (step, x.stride(dim)),
                x.storage_offset() + done * step,
            )
            for x, step in ((source, in_line), (out, out_line))
        ]
        transform_lines(*rest, 1, forward, scale, size)
    return out


def transform_whole(source, out, dim, forward, scale):
    """Real lines, whose transform's second half mirrors the first."""
    half = source.shape[dim] // 2
    transform_lines(source, out.narrow(dim, 0, half + 1), dim, forward, scale)
    mirrored = ops.flip(out.narrow(dim, 1, half - 1), [dim])
    out.narrow(dim, half + 1, half - 1).copy_(ops.conj(mirrored))
    return out


@functools.lru_cache(KEPT)
def sides_of(size):
    """The most even rows and columns of a table that a long line is; None for others.

    >>> sides_of(65536), sides_of(100000), sides_of(1024)
    ((256, 256), (250, 400), None)
    """
    if size < LONG or radices_of(size) is None:
        return None
    rows = max(n for n in range(1, math.isqrt(size) + 1) if size % n == 0)
    return rows, size // rows


@functools.lru_cache(4)
def long_roots(rows, columns, dtype, forward):
    """What the columns' results are turned by: roots of one, as many as a long line has."""
    phases = ops.arange(rows, dtype=float64).unsqueeze(1)
    phases = phases * ops.arange(columns, dtype=float64)
    return ops.complex(*roots(phases if forward else -phases, rows * columns)).to(dtype)


def transform_long(source, out, dim, forward, scale):
    """Long lines in four steps: a table's columns, roots of one, its rows, transposed.

    Rows and columns are short lines that stay in the caches, and threads share them (Bailey,
    "FFTs in external or hierarchical memory"). Rows that were written as columns would go
    through the cache element by element: a copy transposes them in registers.
    """
    rows, columns = sides_of(source.shape[dim])
    table = source.movedim(dim, -1).unflatten(-1, (rows, columns))
    target = out.movedim(dim, -1).unflatten(-1, (columns, rows)).mT
    held = ops.empty(table.shape, dtype=out.dtype)
    transform_lines(table, held, held.ndim - 2, forward, 1.0)
    held.mul_(long_roots(rows, columns, out.dtype, forward))
    transform_lines(held, held, held.ndim - 1, forward, scale)
    target.copy_(held)
    return out


def transform_copies(source, out, dim, forward, scale, size):
    """Lines that lie too irregularly, by way of row-major copies."""
    held = ops.empty(out.shape, dtype=out.dtype)
    transform_lines(source.contiguous(), held, dim, forward, scale, size)
    return out.copy_(held)


def width_of(size, inner, lanes, near):
    """How many lines are worked on together."""
    alone = ODD_ALONE if size & (size - 1) else ALONE
    if near and (size >= alone or inner < lanes):
        return 1
    if near or size * lanes >= NEAR // 4:
        return min(inner, lanes if size * lanes <= NEAR else 1)
    return min(inner, max(lanes, 256 // size))


@functools.lru_cache(KEPT)
def chirp(size, dtype, forward):
    """``exp(-i pi k^2 / size)``, and the transform of its conjugate, for `transform_primes`."""
    phases = ops.remainder(ops.arange(size) ** 2, 2 * size).double()
    wave = ops.complex(*roots(phases if forward else -phases, 2 * size))
    room = good_size(2 * size - 1)
    around = ops.zeros(room, dtype=wave.dtype)
    mirror = wave.conj()
    around[:size] = mirror
    around[room - size + 1 :] = ops.flip(mirror[1:], [0])
    spectrum = ops.empty_like(around)
    transform_lines(around, spectrum, 0, True, 1.0)
    return wave.to(dtype), spectrum.to(dtype)


def transform_primes(source, out, dim, forward, scale, size):
    """Lengths with large primes: a convolution with a chirp (Bluestein)."""
    if out.is_complex():
        dtype, lines = out.dtype, source.to(out.dtype).movedim(dim, -1)
    else:
        dtype, lines = source.dtype, half_lines(source.movedim(dim, -1), size)
        scale = 2 * scale
    wave, spectrum = chirp(size, dtype, forward)
    room = spectrum.shape[0]
    padded = ops.empty((*lines.shape[:-1], room), dtype=dtype)
    ops.mul(lines, wave, out=padded[..., :size])
    padded[..., size:].zero_()
    transform_lines(padded, padded, padded.ndim - 1, True, 1.0)
    padded.mul_(spectrum)
    transform_lines(padded, padded, padded.ndim - 1, False, scale / room)
    target = out.movedim(dim, -1)
    count = target.shape[-1]
    if out.is_complex():
        ops.mul(padded[..., :count], wave[:count], out=target)
    else:
        target.copy_(ops.real(padded[..., :count] * wave[:count]))
    return out


def half_lines(half, size):
    """Lines whose transforms have half the real numbers that the first half's line gives.

    What mirrors the first half adds the conjugate of what that gives: it is left out. The
    first element has no mirror, nor the one in the middle; their imaginary parts count as
    zero.
    """
    count = size // 2 + 1
    lines = ops.empty((*half.shape[:-1], size), dtype=half.dtype)
    lines[..., :count].copy_(half[..., :count])
    lines[..., count:].zero_()
    for end in [0] if size % 2 else [0, size // 2]:
        ops.real(lines)[..., end].mul_(0.5)
        ops.imag(lines)[..., end].zero_()
    return lines
