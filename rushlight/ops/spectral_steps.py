"""Fourier transforms of lines in steps whose vectors are full, for one size each.

A line of ``n = a m`` elements, ``a`` a power of two of no more than a vector's lanes, is
a table of ``a`` rows of ``m``: its columns are transformed first, every lane its own,
and turned. Of as many lines as a vector has lanes for their results, vectors are full
from there on: what is left, transforms of length ``m``, are steps of small radices in
Stockham's order whose roots are one number for all lanes.

    load        vectors along the rows of a table, real and imaginary parts apart;
                of half lines with real transforms, of what mirrors each other at once
    columns     transforms of length a, turned by roots of one
    turn        a square of lanes: lines, and within each what its columns gave
    steps       transforms of length r, turned by roots of one, from array to array
    mirror      of real lines: what belongs together is a shuffle away
    store       from the last step, scaled, parts together again
"""

from __future__ import annotations

import functools
import math

import rushlight
from rushlight.backends.roles import host
from rushlight.codegen import expr as ir
from rushlight.codegen.builder import Builder
from rushlight.codegen.expr import Broadcast, Const, Shuffle, Type, i64, load
from rushlight.codegen.turned_rows import transpose
from rushlight.ops import call as ops
from rushlight.ops.contraction_loops import minimum, moved, quotient, remainder, rolled
from rushlight.ops.spectral_kernels import (
    VECTOR_BYTES,
    minus,
    plus,
    small_transform,
    times,
)

RADICES = (16, 15, 14, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2)
ROOM = 1 << 17  # bytes of an array of lines, at most: two stay in the second-level cache
KEPT = 64  # tables that are remembered


@functools.cache
def steps_of(size):
    """As few radices as multiply to a size, the most even ones; None for other sizes.

    >>> steps_of(125), steps_of(128), steps_of(120), steps_of(1), steps_of(22)
    ((5, 5, 5), (16, 8), (12, 10), (), None)
    """
    if size == 1:
        return ()
    found = []
    for radix in RADICES:
        if size % radix == 0:
            rest = steps_of(size // radix)
            if rest is not None:
                found.append(tuple(sorted((radix, *rest), reverse=True)))
    return min(found, key=lambda radices: (len(radices), radices), default=None)


@functools.cache
def radices_for(size, itemsize):
    """The rows of a line's table and the steps of what is left of it; None where none fit.

    At least half of the lanes that run over columns must be columns.

    >>> radices_for(1000, 4), radices_for(512, 4), radices_for(96, 4), radices_for(96, 8)
    ((8, 5, 5, 5), (16, 8, 4), (8, 12), (4, 6, 4))
    """
    lanes = VECTOR_BYTES // itemsize
    best = None
    rows = 2
    while rows <= lanes and size % rows == 0:
        columns = size // rows
        full = columns / (-(-columns // lanes) * lanes)
        fits = 2 * size * (lanes // rows) * itemsize <= ROOM
        steps = steps_of(columns)
        if full >= 0.5 and fits and steps and (best is None or full >= best[0]):
            best = full, (rows, *steps)
        rows *= 2
    return best and best[1]


@functools.lru_cache(KEPT)
def roots_of(size, dtype, pairs):
    """Roots of one of all steps, in the order in which they are read.

    Those of columns: for every result but the first the columns' real parts, then the
    imaginary ones. Of other steps: for every place a pair for every result but the first.
    Then those of mirrors: as many as elements of half a line that is read, or for every
    vector of the results of a line that is written as half of a real one.
    """
    lanes = VECTOR_BYTES // dtype.itemsize
    rows, *steps = radices_for(size, dtype.itemsize)
    tables, length = [], size // rows

    def count(*ends):
        return ops.arange(*ends, dtype=rushlight.float64)

    turns = count(1, rows).unsqueeze(1) * count(length) * (-2 * math.pi / size)
    tables += [ops.cos(turns).flatten(), ops.sin(turns).flatten()]
    for radix in steps[:-1]:
        places = length // radix
        turns = count(places).unsqueeze(1) * count(1, radix) * (-2 * math.pi / length)
        tables.append(ops.stack([ops.cos(turns), ops.sin(turns)], -1).flatten())
        length = places
    turns = count(size) * (-math.pi / size)
    if pairs == "in":
        tables += [ops.cos(turns), ops.sin(turns)]
    if pairs == "out":
        turns = turns.reshape([size // rows, 1, 1, rows])
        turns = turns.expand([size // rows, 1, lanes // rows, rows])
        tables.append(ops.cat([ops.cos(turns), ops.sin(turns)], 1).flatten())
    tables.append(ops.zeros([lanes], dtype=rushlight.float64))
    return ops.cat(tables).to(dtype)


class Steps:
    """The kernel of lines of one size, as it is written.

    Data: the result, the source, the scale, roots of one. Integers: steps from line to
    line in the source and in the result, in real numbers, those from set to set of lines,
    the lines of a set, and its blocks of as many as fill a vector. An item is a block;
    what a set's last one lacks is a line over again, so that a line's bits are the same
    among however many. Elements of a line are adjacent.

    Args:
        scaled: whether there is a scale other than one.
        pairs: "in" where the source is the first half of a line whose transform is real,
            "out" where the result is the first half of that of a real line, of twice the
            length; "" for neither.
    """

    def __init__(self, type, size, forward, scaled, pairs):
        self.b = b = Builder()
        self.type, self.size, self.pairs = type, size, pairs
        self.order = (0, 1) if forward else (1, 0)  # inverses swap the parts
        self.lanes = VECTOR_BYTES // type.itemsize
        self.rows, *self.steps = radices_for(size, type.itemsize)
        self.columns = size // self.rows
        self.lines = self.lanes // self.rows
        names = ("out", "source", "scale", "roots")
        pointers = [b.let(n, ir.argument(k, type)) for k, n in enumerate(names)]
        self.out, self.source, scale, self.roots = pointers
        names = ("in_line", "out_line", "in_outer", "out_outer", "count", "blocks")
        self.n = {name: b.let(name, ir.integer(k)) for k, name in enumerate(names)}
        self.factor = None
        if scaled or pairs == "out":
            factor = load(scale, 0)
            if pairs == "out":
                factor = factor * 0.5
            self.factor = b.let("factor", Broadcast(self.lanes, factor))
        self.arrays = [
            b.array("room", type, 2 * self.columns * self.lanes) for _ in range(2)
        ]

    def write(self):
        """The statements of the whole kernel."""
        b = self.b
        with b.loop("item", ir.BEGIN, ir.END) as item:
            ins, outs = self.places(item)
            here, there = self.arrays
            self.all_columns(ins, here)
            table = 2 * (self.rows - 1) * self.columns
            length, side = self.columns, 1
            for radix in self.steps[:-1]:
                length //= radix
                self.step(radix, length, side, here, there, table)
                table += 2 * (radix - 1) * length
                side *= radix
                here, there = there, here
            with b.loop("q", 0, side) as q:
                values = self.read(here, [q + side * j for j in range(self.steps[-1])])
                for k, value in enumerate(small_transform(b, values)):
                    if self.pairs == "out":
                        self.keep(there, q + side * k, value)
                    else:
                        self.store(value, q + side * k, outs)
            if self.pairs == "out":
                self.mirrored(there, table, outs)
        return b.statements

    def places(self, item):
        """Where the lines of a block begin, in the source and in the result."""
        b, n = self.b, self.n
        outer = b.let("outer", quotient(item, n["blocks"]))
        first = b.let("first", remainder(item, n["blocks"]) * self.lines)
        places = [
            b.let("place", minimum(first + k, n["count"] - 1))
            for k in range(self.lines)
        ]
        return (
            [
                b.let("line", moved(start, outer * n[far] + place * n[near]))
                for place in places
            ]
            for start, far, near in (
                (self.source, "in_outer", "in_line"),
                (self.out, "out_outer", "out_line"),
            )
        )

    def all_columns(self, lines, array):
        """The transforms of all columns, turned: a vector for each of them.

        The last vector of columns begins where it ends with the last of them.
        """
        b, lanes, columns = self.b, self.lanes, self.columns
        with b.loop("v", 0, columns, lanes) as v:
            first = v
            if columns > lanes:
                first = b.let("first", minimum(v, columns - lanes))
            roots = [
                self.root(first + k * columns, (self.rows - 1) * columns)
                for k in range(self.rows - 1)
            ]
            values = []
            for line in lines:
                read = [self.column(line, first, k) for k in range(self.rows)]
                head, *rest = small_transform(b, read)
                values += [head, *(times(b, *two) for two in zip(rest, roots, strict=True))]
            parts = [transpose(b, list(part)) for part in zip(*values, strict=True)]
            for k, value in enumerate(zip(*parts, strict=True)):
                if k < columns:
                    self.keep(array, first + k, value)

    def column(self, line, first, row):
        """A vector of elements of one row of a line's table."""
        b, start = self.b, first + row * self.columns
        near = self.apart(line, start)
        if self.pairs == "in":
            last = row * self.columns == 0
            near = self.unmirrored(line, start, near, last)
        return tuple(near[k] for k in self.order)

    def apart(self, line, start, backwards=False):
        """The parts of as many elements as a vector has lanes, or as a row has columns.

        Args:
            start: where the elements begin; those that are read backwards end there.
        """
        b, lanes, count = self.b, self.lanes, 2 * self.columns
        pair = []
        for half in range(2):
            begin, some = half * lanes, count - half * lanes
            if backwards:
                begin, some = 2 - 2 * lanes + begin, count - (1 - half) * lanes
            mask = None
            if some <= 0:
                pair.append(b.let("v", Const(self.type.vector(lanes), 0.0)))
                continue
            if some < lanes:
                lane = ir.Ramp(lanes, Const(i64, 0), Const(i64, 1))
                some = Broadcast(lanes, Const(i64, lanes - some if backwards else some))
                mask = b.let("mask", lane >= some if backwards else lane < some)
            at = b.let("at", moved(line, start * 2))
            pair.append(b.let("v", load(at, begin, lanes, mask=mask)))
        picks = [range(part, 2 * lanes, 2) for part in range(2)]
        if backwards:
            picks = [range(2 * lanes - 2 + part, -1, -2) for part in range(2)]
        return [b.let("v", Shuffle(pick, *pair)) for pick in picks]

    def unmirrored(self, line, start, near, ends):
        """Pairs of a line whose transform is real, from elements of its first half.

        Args:
            ends: whether the first element may be among them: of that, and the one in the
                middle, imaginary parts count as zero.
        """
        b, lanes = self.b, self.lanes
        far = self.apart(line, self.size - start, True)
        if ends:
            ramp = ir.Ramp(lanes, start, Const(i64, 1))
            inside = b.let("inside", ramp > Broadcast(lanes, Const(i64, 0)))
            zero = Const(self.type.vector(lanes), 0.0)
            near, far = (
                (real, b.let("z", ir.Select(inside, imag, zero)))
                for real, imag in (near, far)
            )
        even = b.let("a", near[0] + far[0]), b.let("a", near[1] - far[1])
        gap = b.let("s", near[0] - far[0]), b.let("s", near[1] + far[1])
        real, imag = self.root(start + self.halves, self.size)
        back = times(b, gap, (real, b.let("n", -imag)))
        return b.let("z", even[0] - back[1]), b.let("z", even[1] + back[0])

    @property
    def halves(self):
        """Where the roots of mirrors begin."""
        place, length = 2 * (self.rows - 1) * self.columns, self.columns
        for radix in self.steps[:-1]:
            length //= radix
            place += 2 * (radix - 1) * length
        return place

    def root(self, place, count):
        """A vector of roots of a table of some, whose parts are apart."""
        return tuple(
            self.b.let("w", load(self.roots, place + part * count, self.lanes))
            for part in range(2)
        )

    def step(self, radix, length, side, source, array, table):
        """One step; its roots, a number for every place and result, lie at ``table``."""
        b = self.b
        with b.loop("p", 0, length) as p:
            place = b.let("table", table + p * (2 * (radix - 1)))
            with b.loop("q", 0, side) as q:
                at = [(p + length * j) * side + q for j in range(radix)]
                values = small_transform(b, self.read(source, at))
                for k, value in enumerate(values):
                    if k:
                        root = tuple(
                            b.let(
                                "w",
                                Broadcast(
                                    self.lanes,
                                    load(self.roots, place + (2 * k - 2 + part)),
                                ),
                            )
                            for part in range(2)
                        )
                        value = times(b, value, root)
                    self.keep(array, (p * radix + k) * side + q, value)

    def read(self, array, places):
        """Vectors of an array, both parts of each."""
        b, lanes = self.b, self.lanes
        return [
            tuple(
                b.let("v", load(array, place * (2 * lanes) + part * lanes, lanes))
                for part in range(2)
            )
            for place in places
        ]

    def keep(self, array, place, value):
        """Both parts of a vector, to an array."""
        for part in range(2):
            at = place * (2 * self.lanes) + part * self.lanes
            self.b.store(array, at, value[part])

    def mirrored(self, array, table, lines):
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
        with b.loop("u", 0, count) as u:
            after = b.let("after", remainder(count - u, Const(i64, count)))
            near, *sides = self.read(array, [u, count - 1 - u, after])
            far = [
                b.let("m", Shuffle(pick, *side)) for side in zip(*sides, strict=True)
            ]
            even = b.let("a", near[0] + far[0]), b.let("a", near[1] - far[1])
            gap = b.let("s", near[0] - far[0]), b.let("s", near[1] + far[1])
            turned = gap[1], b.let("n", -gap[0])
            [root] = self.read(moved(self.roots, Const(i64, table)), [u])
            self.store(plus(b, even, times(b, turned, root)), u, lines)
        [value] = self.read(array, [0])
        last, _ = minus(b, value, value[::-1])
        last = b.let("last", (last + last) * self.factor)
        for k, line in enumerate(lines):
            b.store(line, 2 * self.size, ir.Extract(k * rows, last))
            b.store(line, 2 * self.size + 1, 0.0)

    def store(self, value, place, lines):
        """A vector: as many elements of every line as its table has rows."""
        b, lanes, rows = self.b, self.lanes, self.rows
        width = min(2 * rows, lanes)  # of what is stored at a time
        parts = [value[k] for k in self.order]
        if self.factor is not None:
            parts = [b.let("scaled", part * self.factor) for part in parts]
        for start in range(0, 2 * lanes, width):
            line, rest = divmod(start, 2 * rows)
            pick = [k // 2 + k % 2 * lanes for k in range(start, start + width)]
            b.store(lines[line], place * (2 * rows) + rest, Shuffle(pick, *parts))


@functools.cache
def steps_kernel(name: str, size: int, forward: bool, scaled: bool, pairs: str):
    """The native kernel for parts of one type, one size and direction."""
    from rushlight.codegen.lower import lower
    from rushlight.ops import spectral_kernels

    how = ["forward" if forward else "back", *["scaled"] * scaled, pairs]
    symbol = "_".join(["fourier_steps", name, str(size), *filter(None, how)])

    def write():
        body = Steps(Type(name), size, forward, scaled, pairs).write()
        return lower(ir.kernel(symbol, rolled(body)))

    digest = host.cache.source_digest(__file__) + host.cache.source_digest(
        spectral_kernels.__file__
    )
    return host.cache.native(symbol, digest, write)


def transform_steps(size, source, out, batch, forward, scale):
    """Transforms lines whose elements are adjacent.

    Args:
        size: of a line, or of the pairs of a real one.
        batch: sets of lines, and lines: how many, and the steps between them in the
            source and in the result, in real numbers.
        scale: a tensor of what results are multiplied by, and that number.
    """
    (outer, in_outer, out_outer), (count, in_line, out_line) = batch
    factor, number = scale
    dtype = factor.dtype
    pairs = "" if out.is_complex() else "in"
    if not source.is_complex():
        pairs = "out"
    lines = VECTOR_BYTES // dtype.itemsize // radices_for(size, dtype.itemsize)[0]
    scaled = number != 1.0 and pairs != "out"
    kernel = steps_kernel(dtype.name, size, forward, scaled, pairs)
    blocks = -(-count // lines)
    grain = max(1, host.launch.SMALLEST_TASK // (8 * size * lines))
    operands = (out, source, factor, roots_of(size, dtype, pairs))
    ints = (in_line, out_line, in_outer, out_outer, count, blocks)
    host.launch.launch(kernel, operands, ints, outer * blocks, grain)
