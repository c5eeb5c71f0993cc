"""Fourier transforms of lines of some vectors, in two steps that stay in registers.

A line of ``r`` vectors of ``L`` lanes is a table of ``r`` rows: its columns are
transformed first, every lane its own, then its rows, which for that are turned. As many
lines as fill a square table are worked on at a time.

    load        the vectors of a line, real and imaginary parts apart
    columns     transforms of length r, turned by roots of one
    turn        L vectors of L lanes: those of one line or of several, side by side
    rows        transforms of length L; lanes are what the columns gave
    mirror      of real lines: what belongs together is a shuffle away
    store       scaled, parts together again
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
from rushlight.ops.contraction_loops import (
    blocks_of,
    minimum,
    moved,
    quotient,
    remainder,
    rolled,
)
from rushlight.ops.spectral_kernels import (
    VECTOR_BYTES,
    constant,
    minus,
    plus,
    small_transform,
    times,
)

ROWS = (2, 4, 8, 16)  # of a line, in vectors
# Lines that lie side by side: their lengths, and rows of how many elements they are.
BESIDE = {16: (4, 4), 32: (4, 8), 64: (8, 8), 128: (8, 16), 256: (16, 16)}
KEPT = 64  # tables that are remembered


def rows_of(size, itemsize):
    """How many vectors a line has, where it is of those that this module transforms.

    >>> rows_of(128, 4), rows_of(64, 8), rows_of(512, 4), rows_of(96, 4)
    (8, 8, None, None)
    """
    lanes = VECTOR_BYTES // itemsize
    rows = size // lanes
    return rows if rows in ROWS and rows <= lanes and rows * lanes == size else None


@functools.lru_cache(KEPT)
def roots_of(size, dtype, paired):
    """Roots of one by which columns are turned; of real lines those of mirrors as well.

    Real parts, then imaginary ones: of every result of a column but the first the lanes;
    then of every result of a row its lanes.
    """
    lanes = VECTOR_BYTES // dtype.itemsize
    rows = size // lanes
    lane = ops.arange(lanes, dtype=rushlight.float64)
    turns = ops.arange(1, rows, dtype=rushlight.float64).unsqueeze(1) * lane
    tables = [turns * (-2 * math.pi / size)]
    if paired:
        place = ops.arange(size, dtype=rushlight.float64).reshape([lanes, 1, rows])
        place = place.expand([lanes, lanes // rows, rows])
        tables.append(place * (-math.pi / size))
    parts = [part(one).flatten() for one in tables for part in (ops.cos, ops.sin)]
    return ops.cat(parts).to(dtype)


@functools.lru_cache(KEPT)
def table_of(size, dtype):
    """Roots of one by which columns of lines side by side are turned."""
    rows, places = BESIDE[size]
    turns = ops.arange(1, rows, dtype=rushlight.float64).unsqueeze(1)
    turns = turns * ops.arange(places, dtype=rushlight.float64) * (-2 * math.pi / size)
    return ops.cat([ops.cos(turns).flatten(), ops.sin(turns).flatten()]).to(dtype)


class Across:
    """The kernel of lines of one size, as it is written.

    Data: the result, the source, the scale, roots of one. Integers: steps from line to
    line in the source and in the result, in real numbers, those from set to set of lines,
    the lines of a set, and its blocks of as many as fill a square table. An item is a
    block; what a set's last one lacks is a line over again, so that a line's bits are the
    same among however many. Elements of a line are adjacent.

    Args:
        scaled: whether there is a scale other than one.
        paired: whether the result is the first half of a real line of twice the length.
    """

    def __init__(self, type, size, forward, scaled, paired):
        self.b = b = Builder()
        self.type, self.size, self.paired = type, size, paired
        self.order = (0, 1) if forward else (1, 0)  # inverses swap the parts
        self.lanes = VECTOR_BYTES // type.itemsize
        self.rows = size // self.lanes
        self.lines = self.lanes // self.rows
        names = ("out", "source", "scale", "roots")
        pointers = [b.let(n, ir.argument(k, type)) for k, n in enumerate(names)]
        self.out, self.source, scale, self.roots = pointers
        names = ("in_line", "out_line", "in_outer", "out_outer", "count", "blocks")
        self.n = {name: b.let(name, ir.integer(k)) for k, name in enumerate(names)}
        self.factor = None
        if scaled:
            self.factor = b.let("factor", Broadcast(self.lanes, load(scale, 0)))

    def write(self):
        """The statements of the whole kernel."""
        b, n = self.b, self.n
        with b.loop("item", ir.BEGIN, ir.END) as item:
            outer = b.let("outer", quotient(item, n["blocks"]))
            first = b.let("first", remainder(item, n["blocks"]) * self.lines)
            places = [
                b.let("place", minimum(first + k, n["count"] - 1))
                for k in range(self.lines)
            ]
            ins, outs = (
                [
                    b.let("line", moved(start, outer * n[far] + place * n[near]))
                    for place in places
                ]
                for start, far, near in (
                    (self.source, "in_outer", "in_line"),
                    (self.out, "out_outer", "out_line"),
                )
            )
            columns = [value for line in ins for value in self.columns(line)]
            parts = [transpose(b, list(part)) for part in zip(*columns, strict=True)]
            values = small_transform(b, list(zip(*parts, strict=True)))
            if self.paired:
                self.store_last(values[0], outs)
                values = self.mirrored(values)
            self.store(values, outs)
        return b.statements

    def columns(self, line):
        """The transforms of a line's columns, turned: a vector for each result."""
        b, lanes = self.b, self.lanes
        values = []
        for start in range(0, 2 * self.size, 2 * lanes):
            pair = [b.let("v", load(line, start + k * lanes, lanes)) for k in (0, 1)]
            parts = [b.let("v", Shuffle(range(k, 2 * lanes, 2), *pair)) for k in (0, 1)]
            values.append(tuple(parts[k] for k in self.order))
        first, *rest = small_transform(b, values)
        count = (self.rows - 1) * lanes
        return [first] + [
            times(b, value, self.root(k * lanes, count)) for k, value in enumerate(rest)
        ]

    def root(self, place, count):
        """A vector of roots of a table of some."""
        return tuple(
            self.b.let("w", load(self.roots, place + part * count, self.lanes))
            for part in range(2)
        )

    def mirrored(self, values):
        """The first half of real lines' transforms, from those of their pairs.

        What mirrors an element is in the vector that mirrors its own, in lanes the other
        way round; but for the first lane's, which is in the next one. One is stored before
        the next is made: there are registers for one side only.
        """
        b, rows, lanes = self.b, self.rows, self.lanes
        pick = [
            first + rows - k if k else lanes + first
            for first in range(0, lanes, rows)
            for k in range(rows)
        ]
        start = 2 * (rows - 1) * lanes
        for q, near in enumerate(values):
            sides = values[lanes - 1 - q], values[(lanes - q) % lanes]
            far = [
                b.let("m", Shuffle(pick, *side)) for side in zip(*sides, strict=True)
            ]
            even = b.let("a", near[0] + far[0]), b.let("a", near[1] - far[1])
            gap = b.let("s", near[0] - far[0]), b.let("s", near[1] + far[1])
            turned = gap[1], b.let("n", -gap[0])
            root = self.root(start + q * lanes, lanes * lanes)
            total = plus(b, even, times(b, turned, root))
            half = constant(near, 0.5)
            yield tuple(b.let("h", part * half) for part in total)

    def store_last(self, value, lines):
        """The middle of real lines' transforms, which is real."""
        b = self.b
        last, _ = minus(b, value, value[::-1])
        if self.factor is not None:
            last = b.let("last", last * self.factor)
        for k, line in enumerate(lines):
            b.store(line, 2 * self.size, ir.Extract(k * self.rows, last))
            b.store(line, 2 * self.size + 1, 0.0)

    def store(self, values, lines):
        """Every vector: some elements of every line."""
        b, lanes, rows = self.b, self.lanes, self.rows
        width = min(2 * rows, lanes)  # of what is stored at a time
        for q, value in enumerate(values):
            parts = [value[k] for k in self.order]
            if self.factor is not None:
                parts = [b.let("scaled", part * self.factor) for part in parts]
            for start in range(0, 2 * lanes, width):
                line, place = divmod(start, 2 * rows)
                pick = [k // 2 + k % 2 * lanes for k in range(start, start + width)]
                b.store(lines[line], 2 * rows * q + place, Shuffle(pick, *parts))


class Beside:
    """The kernel of lines that lie side by side, as it is written.

    Vectors run over lines, as many as they have lanes: nothing is turned. A line is a
    table as well, of rows whose number is close to its root's; what its columns gave
    waits in an array.

    Data: as of `Across`; roots are those of `Plan`. Integers: steps from element to
    element, and from one set of lines to the next, in the source and in the result, and
    how many blocks of lines a set has. An item is a block.

    Args:
        partly: whether a block is fewer lines than lanes; the last integer counts them.
    """

    def __init__(self, type, size, forward, scaled, partly):
        self.b = b = Builder()
        self.rows, self.places = BESIDE[size]
        self.lanes = VECTOR_BYTES // type.itemsize
        self.order = (0, 1) if forward else (1, 0)
        names = ("out", "source", "scale", "roots")
        pointers = [b.let(n, ir.argument(k, type)) for k, n in enumerate(names)]
        self.out, self.source, scale, self.roots = pointers
        names = ("in_step", "in_outer", "out_step", "out_outer", "blocks")
        self.n = {name: b.let(name, ir.integer(k)) for k, name in enumerate(names)}
        self.factor = None
        if scaled:
            self.factor = b.let("factor", Broadcast(self.lanes, load(scale, 0)))
        self.masks = None, None
        if partly:
            lane = ir.Ramp(self.lanes, Const(i64, 0), Const(i64, 1))
            left = b.let("left", ir.integer(len(names)) * 2)
            self.masks = [
                b.let("mask", lane < Broadcast(self.lanes, left - k * self.lanes))
                for k in (0, 1)
            ]
        self.room = b.array("room", type, 2 * size * self.lanes)

    def write(self):
        """The statements of the whole kernel."""
        b, n, lanes = self.b, self.n, self.lanes
        with b.loop("item", ir.BEGIN, ir.END) as item:
            outer = b.let("outer", quotient(item, n["blocks"]))
            place = b.let("place", remainder(item, n["blocks"]) * (2 * lanes))
            source = moved(self.source, outer * n["in_outer"] + place)
            out = moved(self.out, outer * n["out_outer"] + place)
            self.columns(b.let("lines", source))
            self.all_rows(b.let("result", out))
        return b.statements

    def columns(self, source):
        """Transforms of every ``places``-th element, turned, to the array."""
        b, lanes, rows, places = self.b, self.lanes, self.rows, self.places
        with b.loop("c", 0, places) as c:
            values = []
            for k in range(rows):
                at = b.let("at", moved(source, (c + k * places) * self.n["in_step"]))
                pair = [
                    b.let("v", load(at, half * lanes, lanes, mask=self.masks[half]))
                    for half in (0, 1)
                ]
                parts = [
                    b.let("v", Shuffle(range(part, 2 * lanes, 2), *pair))
                    for part in self.order
                ]
                values.append(tuple(parts))
            values = small_transform(b, values)
            for k in range(1, rows):
                root = tuple(
                    b.let("w", Broadcast(lanes, load(self.roots, c + start)))
                    for start in ((k - 1) * places, (k + rows - 2) * places)
                )
                values[k] = times(b, values[k], root)
            for k, value in enumerate(values):
                for part in range(2):
                    place = (c + k * places) * (2 * lanes) + part * lanes
                    b.store(self.room, place, value[part])

    def all_rows(self, out):
        """Transforms of what the columns gave, to the result."""
        b, lanes, rows, places = self.b, self.lanes, self.rows, self.places
        picks = [
            [k // 2 + k % 2 * lanes for k in range(half * lanes, (half + 1) * lanes)]
            for half in range(2)
        ]
        with b.loop("p", 0, rows) as p:
            values = []
            for k in range(places):
                place = b.let("at", (p * places + k) * (2 * lanes))
                values.append(tuple(
                    b.let("v", load(self.room, place + part * lanes, lanes))
                    for part in range(2)
                ))  # fmt: skip
            for q, value in enumerate(small_transform(b, values)):
                parts = [value[k] for k in self.order]
                if self.factor is not None:
                    parts = [b.let("scaled", part * self.factor) for part in parts]
                to = b.let("to", moved(out, (p + rows * q) * self.n["out_step"]))
                for half, pick in enumerate(picks):
                    mask = self.masks[half]
                    b.store(to, half * lanes, Shuffle(pick, *parts), mask=mask)


@functools.cache
def kernel_of(kind, name: str, *how):
    """The native kernel of a kind for parts of one type, one size and direction."""
    from rushlight.codegen.lower import lower
    from rushlight.ops import spectral_kernels

    symbol = "_".join(
        ["fourier", kind.__name__.lower(), name, *map(str, map(int, how))]
    )

    def write():
        return lower(ir.kernel(symbol, rolled(kind(Type(name), *how).write())))

    digest = host.cache.source_digest(__file__) + host.cache.source_digest(
        spectral_kernels.__file__
    )
    return host.cache.native(symbol, digest, write)


def transform_across(size, source, out, batch, forward, scale):
    """Transforms lines whose elements are adjacent.

    Args:
        size: of a line, or of the pairs of a real one.
        batch: sets of lines, and lines: how many, and the steps between them in the
            source and in the result, in real numbers.
        scale: a tensor of what results are multiplied by, and that number.
    """
    (outer, in_outer, out_outer), (count, in_line, out_line) = batch
    factor, number = scale
    dtype, paired = factor.dtype, not source.is_complex()
    lines = VECTOR_BYTES // dtype.itemsize // rows_of(size, dtype.itemsize)
    kernel = kernel_of(Across, dtype.name, size, forward, number != 1.0, paired)
    blocks = -(-count // lines)
    grain = max(1, host.launch.SMALLEST_TASK // (8 * size * lines))
    operands = (out, source, factor, roots_of(size, dtype, paired))
    ints = (in_line, out_line, in_outer, out_outer, count, blocks)
    host.launch.launch(kernel, operands, ints, outer * blocks, grain)


def transform_beside(size, source, out, batch, steps, forward, scale):
    """Transforms lines that lie side by side.

    Args:
        batch: as of `transform_across`.
        steps: between elements in the source and in the result, in real numbers.
        size, scale: as of `transform_across`.
    """
    (outer, in_outer, out_outer), (count, _, _) = batch
    factor, number = scale
    dtype = factor.dtype
    lanes = VECTOR_BYTES // dtype.itemsize
    grain = max(1, host.launch.SMALLEST_TASK // (8 * size * lanes))
    roots, ints = table_of(size, dtype), (steps[0], in_outer, steps[1], out_outer)
    blocks, left = divmod(count, lanes)
    how = dtype.name, size, forward, number != 1.0
    if blocks:
        operands = (out, source, factor, roots)
        kernel = kernel_of(Beside, *how, False)
        host.launch.launch(kernel, operands, (*ints, blocks), outer * blocks, grain)
    if left:
        last = [
            x.as_strided((1,), (1,), x.storage_offset() + blocks * lanes)
            for x in (out, source)
        ]
        kernel = kernel_of(Beside, *how, True)
        operands = (*last, factor, roots)
        host.launch.launch(kernel, operands, (*ints, 1, left), outer, grain)
