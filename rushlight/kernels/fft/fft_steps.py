"""Fourier transforms of lines in steps whose vectors are full, for one size each.

What lanes are is the same all the way, so that every vector is full: lines that lie side
by side, or of a line what the columns of a table gave. The steps are those of small
radices in Stockham's order (`spectral_kernels`), whose roots are one number for all
lanes, from array to array: the first one reads the source, the last one writes the
result.

Elements of one line lie together in most tensors. A line of ``n = a m`` elements, ``a`` a
power of two of no more than a vector's lanes, is a table of ``a`` rows of ``m``. Its
columns are transformed first, every lane its own, and turned:

    load        vectors along the rows of a table, real and imaginary parts apart;
                of half lines with real transforms, of what mirrors each other at once
    columns     transforms of length a, turned by roots of one
    turn        a square of lanes: lines, and within each what its columns gave
    steps       transforms of length m
    mirror      of real lines: what belongs together is a shuffle away
    store       scaled, parts together again
"""

import functools
import math
from contextlib import nullcontext

from rushlight.codegen.schedule.register_transpose import transpose
from rushlight.core.dtypes import float64
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Const, Shuffle, Type, i64, load
from rushlight.kernels.fft.fft_primes import LongStep, twiddle_count, waves
from rushlight.kernels.fft.fft_radix import (
    lanes_of,
    minus,
    plus,
    roots,
    small_transform,
    times,
)
from rushlight.kernels.loop_helpers import minimum, moved, quotient, remainder, rolled
from rushlight.operators import call as ops

RADICES = (31, 29, 23, 19, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2)
ROOM = (
    1 << 17
)  # bytes of an array of lines, at most: two stay in the second-level cache
WRITTEN = RADICES[0]  # radices up to it are written out, primes up to
LONGEST = 256  # this one are loops, and larger ones are not for these kernels
KEPT = 64  # tables that are remembered
# Which is half a line whose transform is real, or the transform of a real line, of which
# the half is made and perhaps its mirror.
NEITHER, FROM_HALF, TO_HALF, TO_WHOLE = 0, 1, 2, 3


@functools.cache
def steps_of(size):
    """As few radices as multiply to a size, the most even ones; None for other sizes.

    The first step reads a root for every vector, the last one none: the largest is last.

    >>> steps_of(125), steps_of(128), steps_of(120), steps_of(1), steps_of(22), steps_of(74)
    ((5, 5, 5), (8, 16), (10, 12), (), (2, 11), (2, 37))
    """
    if size == 1:
        return ()
    found = []
    for radix in RADICES:
        if size % radix == 0:
            rest = steps_of(size // radix)
            if rest is not None:
                found.append(tuple(sorted((radix, *rest))))
    if not found:
        return long_steps(size)
    return min(found, key=lambda steps: (len(steps), steps[::-1]), default=None)


def long_steps(size):
    """The same where the size has a prime factor that is not written out, but in loops."""
    prime = next((p for p in range(2, LONGEST + 1) if size % p == 0), None)
    rest = None if prime is None else steps_of(size // prime)
    return None if rest is None else tuple(sorted((prime, *rest)))


def fits(size, lines, itemsize):
    """Whether an array of lines stays close by."""
    return 2 * size * lines * itemsize <= ROOM


def work(rows, steps, lanes):
    """About how many instructions a vector takes from load to store.

    A transform of length ``r`` takes some ``2.5 log2(r)`` an element, roots of one four,
    loads and stores five; columns that fill no vector cost as much as those that do, and
    so do few elements of many lines where results are stored.
    """
    columns = math.prod(steps)
    full = columns / (-(-columns // lanes) * lanes)
    stores = 1.5 * lanes / rows
    return (
        (16 + 2.5 * math.log2(rows)) / full + 9 * len(steps)
        + 2.5 * math.log2(columns) + stores
    )  # fmt: skip


@functools.cache
def table_of(size, itemsize):
    """The rows of a line's table and the steps of what is left of it; None where none fit.

    At least half of the lanes that run over columns must be columns. One row is a line of
    its own: every lane has another.

    >>> from rushlight.codegen.target import named, using
    >>> with using(named("x86-64-v4")):
    ...     table_of(1000, 4), table_of(512, 4), table_of(96, 4), table_of(243, 4)
    ((8, 5, 5, 5), (16, 4, 8), (8, 12), (1, 3, 9, 9))
    """
    lanes = lanes_of(itemsize)
    found = []
    rows = 1
    while rows <= lanes and size % rows == 0:
        columns, lines = size // rows, lanes // rows
        steps = steps_of(columns)
        full = rows == 1 or 2 * columns >= lanes
        if full and steps and fits(size, lines, itemsize):
            found.append((work(rows, steps, lanes), rows, *steps))
        rows *= 2
    return min(found)[1:] if found else None


@functools.cache
def strided_steps(size, itemsize):
    """The steps of a line among others that lie side by side; None where none fit."""
    return steps_of(size) if fits(size, lanes_of(itemsize), itemsize) else None


@functools.lru_cache(KEPT)
def table_roots(rows, steps, halves, dtype):
    """Roots of one in the order in which they are read.

    Those of mirrors: for every element of a line that is half of a longer one; or, of what
    is written, for every vector its lanes. Those of columns: for every result but the
    first the columns' real parts, then the imaginary ones. Those of other steps: for every
    place a pair for every result but the first.
    """
    lanes = lanes_of(dtype.itemsize)
    columns = length = math.prod(steps)
    size = rows * columns
    tables = []

    def count(*ends):
        return ops.arange(*ends, dtype=float64)

    if halves == FROM_HALF:
        tables += roots(count(size), 2 * size)
    if halves in (TO_HALF, TO_WHOLE):
        phases = count(size).reshape([columns, 1, rows])
        phases = phases.expand([columns, lanes // rows, rows])
        tables.append(ops.stack(roots(phases, 2 * size), 1))
    if rows > 1:
        tables += roots(count(1, rows).unsqueeze(1) * count(columns), size)
    for radix in steps[:-1]:
        phases = count(length // radix).unsqueeze(1) * count(1, radix)
        tables.append(ops.stack(roots(phases, length), -1))
        length //= radix
    tables += [part for radix in steps if radix > WRITTEN for part in waves(radix)]
    # vectors of fewer columns than lanes read beyond their own
    tables.append(ops.zeros([lanes], dtype=float64))
    return ops.cat([table.flatten() for table in tables]).to(dtype)


class Steps:
    """What kernels of lines of one size have in common.

    Data: the result, the source, the scale, roots of one. An item is a block: as many
    lines as vectors hold.

    Args:
        steps: the radices.
        names: of the integers, in order.
        scaled: whether there is a scale other than one.
    """

    def __init__(self, type, steps, forward, scaled, names):
        self.b = b = Builder()
        self.type, self.steps, self.arrays = type, steps, []
        self.order = (0, 1) if forward else (1, 0)  # inverses swap the parts
        self.lanes = lanes_of(type.itemsize)
        pointers = ("out", "source", "scale", "roots")
        pointers = [b.let(n, ir.argument(k, type)) for k, n in enumerate(pointers)]
        self.out, self.source, self.scale, self.roots = pointers
        self.n = {name: b.let(name, ir.integer(k)) for k, name in enumerate(names)}
        self.factor = self.spread(load(self.scale, 0)) if scaled else None

    def spread(self, value):
        """A number in every lane."""
        return self.b.let("spread", Broadcast(self.lanes, value))

    def array(self):
        """Room for lines: a vector of real parts, one of imaginary ones, and so on.

        There are two, which take turns: what is in one is read while the other is written.
        """
        if len(self.arrays) == 2:
            self.arrays.reverse()
        else:
            size = 2 * math.prod(self.steps) * self.lanes
            self.arrays.insert(0, self.b.array("room", self.type, size))
        return self.arrays[0]

    def all_steps(self, table, read, keep=None):
        """From a function that reads vectors by their places to one that keeps them.

        Args:
            table: where the roots begin.
            keep: by default what it would keep is left in an array, which is returned.
        """
        length, side = math.prod(self.steps), 1
        far = table + twiddle_count(self.steps)  # where roots for long steps begin
        for radix in self.steps:
            length //= radix
            held = self.array() if length > 1 or keep is None else None
            put = keep if held is None else functools.partial(self.hold, held)
            if radix > WRITTEN:
                LongStep(self, radix, length, side, (table, far)).write(read, put)
                far += 2 * (radix // 2) ** 2
            else:
                self.step(radix, length, side, table, read, put)
            read = functools.partial(self.held, held)
            table += 2 * (radix - 1) * length
            side *= radix
        return held

    def step(self, radix, length, side, table, read, keep):
        """One step; its roots, a number for every place and result, lie at ``table``."""
        b = self.b
        with self.each("p", length) as p, self.each("q", side) as q:
            values = [read((p + length * j) * side + q) for j in range(radix)]
            for k, value in enumerate(small_transform(b, values)):
                if k and length > 1:
                    place = p * (2 * (radix - 1)) + (table + 2 * k - 2)
                    pair = [load(self.roots, place + part) for part in range(2)]
                    value = times(b, value, [self.spread(part) for part in pair])
                keep((p * radix + k) * side + q, value)

    def each(self, name, stop, start=0):
        """A loop; a lone place is a number that is known when the kernel is written."""
        alone = stop - start == 1
        return nullcontext(start) if alone else self.b.loop(name, start, stop)

    def held(self, array, place):
        """Both parts of a vector of an array."""
        at, b = ir.as_expr(place * (2 * self.lanes), i64), self.b
        return tuple(
            b.let("v", load(array, at + part * self.lanes, self.lanes))
            for part in range(2)
        )

    def hold(self, array, place, value):
        """Writes both parts of a vector to an array."""
        at = place * (2 * self.lanes)
        for part in range(2):
            self.b.store(array, at + part * self.lanes, value[part])

    def parted(self, pair, backwards=False):
        """The parts of complex numbers that fill two vectors."""
        picks = [range(part, 2 * self.lanes, 2) for part in range(2)]
        if backwards:
            picks = [range(2 * self.lanes - 2 + part, -1, -2) for part in range(2)]
        return [self.b.let("v", Shuffle(pick, *pair)) for pick in picks]

    def result(self, value):
        """The parts of results, scaled."""
        parts = [value[k] for k in self.order]
        if self.factor is not None:
            parts = [self.b.let("scaled", part * self.factor) for part in parts]
        return parts

    def first_lanes(self, count):
        """True in as many lanes, from the first."""
        ramp = ir.Ramp(self.lanes, Const(i64, 0), Const(i64, 1))
        return self.b.let("mask", ramp < Broadcast(self.lanes, count))


class Along(Steps):
    """The kernel of lines whose elements are adjacent, as it is written.

    Integers: steps from line to line in the source and in the result, in real numbers,
    those from set to set of lines, the lines of a set, and its blocks. What a set's last
    block lacks is a line over again, so that a line's bits are the same among however
    many.

    Args:
        halves: `FROM_HALF` where the source is the first half of a line whose transform
            is real, `TO_HALF` where the result is that of the transform of a real line,
            `TO_WHOLE` where it is all of it; the line is of twice the size.
    """

    def __init__(self, type, size, forward, scaled, halves):
        names = ("in_line", "out_line", "in_outer", "out_outer", "count", "blocks")
        self.rows, *steps = table_of(size, type.itemsize)
        super().__init__(type, steps, forward, scaled, names)
        self.size, self.halves = size, halves
        self.columns = size // self.rows
        self.lines = self.lanes // self.rows
        if halves in (TO_HALF, TO_WHOLE):
            self.factor = self.spread(load(self.scale, 0) * 0.5)
        # where the roots of columns begin, behind those of mirrors
        self.phases = (0, 2 * size, *[2 * self.columns * self.lanes] * 2)[halves]

    def write(self):
        """The statements of the whole kernel."""
        b = self.b
        with b.loop("item", ir.BEGIN, ir.END) as item:
            ins, outs = self.positions(item)
            read = self.all_columns(ins)
            table = self.phases + 2 * (self.rows - 1) * self.columns
            if self.halves in (TO_HALF, TO_WHOLE):
                self.mirrored(self.all_steps(table, read), outs)
            else:
                self.all_steps(table, read, functools.partial(self.store, outs))
        return b.statements

    def positions(self, item):
        """Where the lines of a block begin, in the source and in the result."""
        b, n = self.b, self.n
        outer = b.let("outer", quotient(item, n["blocks"]))
        first = b.let("first", remainder(item, n["blocks"]) * self.lines)
        positions = [
            b.let("place", minimum(first + k, n["count"] - 1))
            for k in range(self.lines)
        ]
        return (
            [
                b.let("line", moved(start, outer * n[far] + place * n[near]))
                for place in positions
            ]
            for start, far, near in (
                (self.source, "in_outer", "in_line"),
                (self.out, "out_outer", "out_line"),
            )
        )

    def all_columns(self, lines):
        """The transforms of all columns, turned: what reads them, a vector for each.

        As many as a vector has lanes stay in registers. The last vector of more begins
        where it ends with the last column.
        """
        if self.columns <= self.lanes:
            return self.some_columns(lines, 0).__getitem__
        b, held = self.b, self.array()
        with b.loop("v", 0, self.columns, self.lanes) as v:
            first = b.let("first", minimum(v, self.columns - self.lanes))
            for k, value in enumerate(self.some_columns(lines, first)):
                self.hold(held, first + k, value)
        return functools.partial(self.held, held)

    def some_columns(self, lines, first):
        """The transforms of columns from one on."""
        b, count = self.b, (self.rows - 1) * self.columns
        values = []
        for line in lines:
            read = [self.column(line, first, row) for row in range(self.rows)]
            head, *rest = small_transform(b, read)
            values.append(head)
            for k, value in enumerate(rest):
                root = self.roots_at(first + (self.phases + k * self.columns), count)
                values.append(times(b, value, root))
        parts = [transpose(b, list(part)) for part in zip(*values, strict=True)]
        return list(zip(*parts, strict=True))

    def roots_at(self, place, count):
        """A vector of roots whose parts are apart."""
        return tuple(
            self.b.let("w", load(self.roots, place + part * count, self.lanes))
            for part in range(2)
        )

    def column(self, line, first, row):
        """A vector of elements of one row of a line's table."""
        start = self.b.let("start", ir.as_expr(first + row * self.columns, i64))
        values = self.split(line, start)
        if self.halves == FROM_HALF:
            values = self.unmirrored(line, start, values, row == 0)
        return tuple(values[k] for k in self.order)

    def split(self, line, start, backwards=False):
        """The parts of as many elements as a vector has lanes, or as a row has columns.

        Args:
            start: where the elements begin; those that are read backwards end there.
        """
        b, lanes, pair = self.b, self.lanes, []
        for begin in (0, lanes):
            inside = 2 * self.columns - begin  # what is read of a vector is in the line
            if backwards:
                inside, begin = inside + 2 * begin - lanes, begin - 2 * (lanes - 1)
            if inside <= 0:
                pair.append(Const(self.type.vector(lanes), 0.0))
                continue
            mask = None
            if inside < lanes:
                mask = self.first_lanes(Const(i64, inside))
                if backwards:
                    mask = b.let("mask", ~self.first_lanes(Const(i64, lanes - inside)))
            here = moved(line, start * 2)
            pair.append(b.let("v", load(here, begin, lanes, mask=mask)))
        return self.parted(pair, backwards)

    def unmirrored(self, line, start, near, ends):
        """Pairs of a line whose transform is real, from elements of its first half.

        Args:
            ends: whether the first element may be among them: of that, and of the one in
                the middle, imaginary parts count as zero.
        """
        b, lanes = self.b, self.lanes
        far = self.split(line, self.size - start, True)
        if ends:
            ramp = ir.Ramp(lanes, start, Const(i64, 1))
            inner = b.let("inner", ramp > Broadcast(lanes, Const(i64, 0)))
            zero = Const(self.type.vector(lanes), 0.0)
            near, far = (
                (real, b.let("z", ir.Select(inner, imag, zero)))
                for real, imag in (near, far)
            )
        even = b.let("a", near[0] + far[0]), b.let("a", near[1] - far[1])
        gap = b.let("s", near[0] - far[0]), b.let("s", near[1] + far[1])
        real, imag = self.roots_at(start, self.size)
        back = times(b, gap, (real, b.let("n", -imag)))
        return b.let("z", even[0] - back[1]), b.let("z", even[1] + back[0])

    def mirrored(self, array, lines):
        """The first half of real lines' transforms, from those of their pairs.

        What mirrors an element is in the vector that mirrors its own, in lanes the other
        way round; but for the first lane's, which is in the next one.
        """
        b, rows, lanes, count = self.b, self.rows, self.lanes, self.columns
        pick = [
            first + rows - k if k else lanes + first
            for first in range(0, lanes, rows)
            for k in range(rows)
        ]
        # the first vector, whose first element is its own mirror, then the others
        for start, stop in ((0, 1), (1, count)):
            with self.each("u", stop, start) as u:
                positions = u, count - 1 - u, count - u if start else 0
                near, *sides = [self.held(array, place) for place in positions]
                far = [
                    b.let("m", Shuffle(pick, *side))
                    for side in zip(*sides, strict=True)
                ]
                even = b.let("a", near[0] + far[0]), b.let("a", near[1] - far[1])
                gap = b.let("s", near[0] - far[0]), b.let("s", near[1] + far[1])
                rotated = gap[1], b.let("n", -gap[0])
                rest = times(b, rotated, self.held(self.roots, u))
                value = plus(b, even, rest)
                self.store(lines, u, value)
                if self.halves == TO_WHOLE:
                    self.store_mirror(lines, u, value)
        value = self.held(array, 0)
        last, _ = minus(b, value, value[::-1])
        last = b.let("last", (last + last) * self.factor)
        for k, line in enumerate(lines):
            b.store(line, 2 * self.size, ir.Extract(k * rows, last))
            b.store(line, 2 * self.size + 1, 0.0)

    def store(self, lines, place, value):
        """A vector: as many elements of every line as its table has rows."""
        lanes, rows = self.lanes, self.rows
        parts = self.result(value)
        width = min(2 * rows, lanes)  # of what is stored at a time
        for start in range(0, 2 * lanes, width):
            line, rest = divmod(start, 2 * rows)
            pick = [k // 2 + k % 2 * lanes for k in range(start, start + width)]
            pairs = Shuffle(pick, *parts)
            self.b.store(lines[line], place * (2 * rows) + rest, pairs)

    def store_mirror(self, lines, place, value):
        """Conjugates of a vector's elements, as far from the end as those from the start.

        The first element of all has none: it would be the first of the next line.
        """
        b, lanes, rows = self.b, self.lanes, self.rows
        real, imag = self.result(value)
        parts = real, b.let("n", -imag)
        width = min(2 * rows, lanes)
        ramp = ir.Ramp(width, Const(i64, 0), Const(i64, 1))
        for start in range(0, 2 * lanes, width):
            line, rest = divmod(start, 2 * rows)
            last = (line + 1) * rows - 1
            pick = [last - k // 2 + k % 2 * lanes for k in range(rest, rest + width)]
            mask = None
            if isinstance(place, int) and not place and rest + width == 2 * rows:
                mask = b.let("mask", ramp < Broadcast(width, Const(i64, width - 2)))
            at = 4 * self.size + 2 - 2 * rows + rest - place * (2 * rows)
            b.store(lines[line], at, Shuffle(pick, *parts), mask=mask)


class StridedTransform(Steps):
    """The kernel of lines that lie side by side, as it is written: nothing is turned.

    Integers: steps from element to element, and from one set of lines to the next, in the
    source and in the result, and how many blocks of lines a set has.

    Args:
        partly: whether a block is fewer lines than lanes; the last integer counts them.
    """

    def __init__(self, type, size, forward, scaled, partly):
        names = ["in_step", "in_outer", "out_step", "out_outer", "blocks"]
        steps = strided_steps(size, type.itemsize)
        super().__init__(type, steps, forward, scaled, names + ["left"] * partly)
        self.masks = None, None
        if partly:
            left = self.n["left"] * 2
            self.masks = [self.first_lanes(left - k * self.lanes) for k in (0, 1)]

    def write(self):
        """The statements of the whole kernel."""
        b, n = self.b, self.n
        with b.loop("item", ir.BEGIN, ir.END) as item:
            outer = b.let("outer", quotient(item, n["blocks"]))
            place = b.let("place", remainder(item, n["blocks"]) * (2 * self.lanes))
            source = b.let("lines", moved(self.source, outer * n["in_outer"] + place))
            out = b.let("result", moved(self.out, outer * n["out_outer"] + place))
            self.all_steps(
                0,
                functools.partial(self.read, source),
                functools.partial(self.store, out),
            )
        return b.statements

    def read(self, source, place):
        """An element of every line."""
        at = self.b.let("at", moved(source, ir.as_expr(place, i64) * self.n["in_step"]))
        parts = self.parted([
            self.b.let("v", load(at, half * self.lanes, self.lanes, mask=mask))
            for half, mask in enumerate(self.masks)
        ])  # fmt: skip
        return tuple(parts[k] for k in self.order)

    def store(self, out, place, value):
        """An element of every line, scaled."""
        lanes, parts = self.lanes, self.result(value)
        to = self.b.let("to", moved(out, ir.as_expr(place, i64) * self.n["out_step"]))
        for half, mask in enumerate(self.masks):
            pick = [
                k // 2 + k % 2 * lanes
                for k in range(half * lanes, half * lanes + lanes)
            ]
            self.b.store(to, half * lanes, Shuffle(pick, *parts), mask=mask)


@functools.cache
def kernel_of(kind, name: str, *how):
    """The native kernel of a kind for parts of one type, one size and direction."""
    from rushlight.codegen.lower import lower

    symbol = "_".join(
        ["fourier", kind.__name__.lower(), name, *map(str, map(int, how))]
    )

    def write():
        return lower(ir.kernel(symbol, rolled(kind(Type(name), *how).write())))

    return host.code_cache.native(symbol, "", write)


def transform_along(size, source, out, batch, forward, scale, whole=False):
    """Transforms lines whose elements are adjacent.

    Args:
        size: of a line, or of the pairs of a real one.
        batch: sets of lines, and lines: how many, and the steps between them in the
            source and in the result, in real numbers.
        scale: a tensor of what results are multiplied by, and that number.
        whole: whether of real lines more is wanted than the first half.
    """
    (outer, in_outer, out_outer), (count, in_line, out_line) = batch
    factor, number = scale
    dtype = factor.dtype
    halves = NEITHER if out.is_complex() else FROM_HALF
    if not source.is_complex():
        halves = TO_WHOLE if whole else TO_HALF
    rows, *steps = table_of(size, dtype.itemsize)
    lines = lanes_of(dtype.itemsize) // rows
    scaled = number != 1.0 and halves in (NEITHER, FROM_HALF)
    kernel = kernel_of(Along, dtype.name, size, forward, scaled, halves)
    blocks = -(-count // lines)
    grain = max(1, host.launch.SMALLEST_TASK // (8 * size * lines))
    operands = (out, source, factor, table_roots(rows, tuple(steps), halves, dtype))
    ints = (in_line, out_line, in_outer, out_outer, count, blocks)
    host.launch.launch(kernel, operands, ints, outer * blocks, grain)


def strided_transform(size, source, out, batch, steps, forward, scale):
    """Transforms lines that lie side by side.

    Args:
        batch: as of `transform_along`.
        steps: between elements in the source and in the result, in real numbers.
        size, scale: as of `transform_along`.
    """
    (outer, in_outer, out_outer), (count, _, _) = batch
    factor, number = scale
    dtype = factor.dtype
    lanes = lanes_of(dtype.itemsize)
    grain = max(1, host.launch.SMALLEST_TASK // (8 * size * lanes))
    radices = strided_steps(size, dtype.itemsize)
    table, ints = (
        table_roots(1, radices, NEITHER, dtype),
        (steps[0], in_outer, steps[1], out_outer),
    )
    blocks, left = divmod(count, lanes)
    how = dtype.name, size, forward, number != 1.0
    if blocks:
        operands = (out, source, factor, table)
        kernel = kernel_of(StridedTransform, *how, False)
        host.launch.launch(kernel, operands, (*ints, blocks), outer * blocks, grain)
    if left:
        last = [
            x.as_strided((1,), (1,), x.storage_offset() + blocks * lanes)
            for x in (out, source)
        ]
        kernel = kernel_of(StridedTransform, *how, True)
        operands = (*last, factor, table)
        host.launch.launch(kernel, operands, (*ints, 1, left), outer, grain)
