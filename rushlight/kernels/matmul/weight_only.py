"""Products with weights of eight and of four bits, which become numbers in registers.

Rows are few where tokens are generated: weights are read once, and the time is theirs.
"""

import functools
import struct
from functools import partial

from rushlight.codegen.target import current
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import (
    Broadcast,
    Call,
    Const,
    Pointer,
    Reinterpret,
    Shuffle,
    Type,
    cast,
    i64,
    load,
)
from rushlight.kernels.loop_helpers import (
    minimum,
    moved,
    multiply_add,
    multiply_pairs,
    quotient,
    rolled,
)
from rushlight.kernels.micro_kernels import dot_products, outer_product

COLUMNS = 64  # whose half bytes lie together for each place of the depth
TOGETHER = 4  # rows of x that share what is read of bytes, at most
f32, i16, i32, u8 = map(Type, ("float32", "int16", "int32", "uint8"))
BYTES_ROWS = 4
_WIDE = {2: (Type("int16"), i32), 4: (i32, i64)}


def named(b, names):
    """The integers of a kernel, in order."""
    return {key: b.let(key, ir.integer(i)) for i, key in enumerate(names.split())}


class _HalfBytes:
    """The loops of `half_bytes`."""

    positions, add = 1, staticmethod(multiply_add)  # of the depth, in a lane of numbers

    def __init__(self, stored, lanes, rows):
        self.b = b = Builder()
        self.stored, self.lanes, self.rows = stored, lanes, rows
        # vectors of bytes of a pass: sums, numbers and a piece of x are all in registers
        self.wide = 2 if rows <= 2 or current().registers >= 32 else 1
        self.chains = 2 if rows * self.wide <= 4 else 1  # sums that go on side by side
        self.n = named(b, "depth columns group row0")
        self.half, wide = _WIDE[stored.itemsize]
        types = stored, f32, u8, wide, f32
        names = "out", "x", "packed", "pairs", "masses"
        self.out, self.x, self.packed, self.pairs, self.masses = (
            b.let(key, ir.argument(i, kind))
            for i, (key, kind) in enumerate(zip(names, types))
        )
        self.table = [Const(f32, q - 8) for q in range(16)]

    def write(self):
        """The statements."""
        b, n = self.b, self.n
        with b.loop("block", ir.BEGIN, ir.END) as block:
            start = b.let("start", block * (n["depth"] * (COLUMNS // 2)))
            for first in range(0, COLUMNS // 2, self.wide * self.lanes):
                columns = [first + v * self.lanes for v in range(self.wide)]
                columns += [COLUMNS // 2 + c for c in columns]
                self.pass_over(block, start + first, columns)
        return b.statements

    def pass_over(self, block, start, columns):
        """Vectors of columns of a block, over the whole depth."""
        b, n, lanes = self.b, self.n, self.lanes
        zero = Const(f32.vector(lanes), 0)
        totals = [
            b.array("totals", f32, len(columns) * lanes) for _ in range(self.rows)
        ]
        for total in totals:
            for v in range(len(columns)):
                b.store(total, v * lanes, zero)
        rows = (n["row0"] + r for r in range(self.rows))
        lines = [b.let("x_line", self.line(row)) for row in rows]
        groups = b.let("groups", quotient(n["depth"], n["group"]))
        with b.loop("g", 0, groups) as g:
            k0 = b.let("k0", g * n["group"])
            found = (
                load(self.masses, (n["row0"] + r) * groups + g)
                for r in range(self.rows)
            )
            masses = [b.let("mass", Broadcast(lanes, each)) for each in found]
            sums = self.sums_of(lines, start, k0, masses)
            for v, column in enumerate(columns):
                self.scale(g, block * COLUMNS + column, v, sums, masses, totals)
        for r, total in enumerate(totals):
            line = (n["row0"] + r) * n["columns"] + block * COLUMNS
            for v, column in enumerate(columns):
                value = load(total, v * lanes, lanes)
                b.store(self.out, line + column, cast(self.stored, value))

    def line(self, row):
        """Where a row of x is."""
        return moved(self.x, row * self.n["depth"])

    def sums_of(self, lines, start, k0, masses):
        """For each row of x the sums of a group, of a pass's vectors of columns."""
        b, lanes, positions = self.b, self.lanes, self.positions
        zero = Const(f32.vector(lanes), 0)
        sums = [
            [[b.declare("sum", zero) for _ in range(2 * self.wide)] for _ in lines]
            for _ in range(self.chains)
        ]
        with b.loop("k", k0, k0 + self.n["group"], positions * self.chains) as k:
            for chain, own in enumerate(sums):
                at = b.let("place", quotient(k, positions) + chain)
                numbers = self.numbers(start + at * (positions * COLUMNS // 2))
                rows = (Broadcast(lanes, load(line, at)) for line in lines)
                rows = (b.let("spread", row) for row in rows)
                outer_product(b, own, rows, numbers, self.add)
        return [
            [sum(rest, first) for first, *rest in zip(*of_row, strict=True)]
            for of_row in zip(*sums, strict=True)
        ]

    def numbers(self, at):
        """The numbers of vectors of columns, of half bytes from an index on."""
        b, lanes = self.b, self.lanes
        found = [load(self.packed, at + v * lanes, lanes) for v in range(self.wide)]
        found = [b.let("bytes", cast(i32, each)) for each in found]
        both = [*((q, q & 15) for q in found), *((q >> 4, q >> 4) for q in found)]
        if lanes >= len(self.table):  # which is in one register then
            kind = f32.vector(lanes)
            both = [Call("lookup", kind, q, *self.table) for q, _ in both]
        else:
            both = [cast(f32, q - 8) for _, q in both]
        return [b.let("q", each) for each in both]

    def scale(self, g, column, v, sums, masses, totals):
        """Bring the sums of a group into those of the depth."""
        b, lanes = self.b, self.lanes
        both = b.let("both", load(self.pairs, g * self.n["columns"] + column, lanes))
        scale, point = (
            b.let("part", _part_of(both, self.stored, self.half, shift))
            for shift in (0, 8 * self.stored.itemsize)
        )
        for r, total in enumerate(totals):
            value = multiply_add(masses[r], point, load(total, v * lanes, lanes))
            b.store(total, v * lanes, multiply_add(sums[r][v], scale, value))


def half_bytes(name, stored, lanes, rows):
    """``out = x (q - 8) s + z``: s and z for each column and group of the depth.

    The parallel axis counts blocks of columns. Within a group products with the integers
    are added up; then they are scaled, and the sum of x brings the zero point in.

    Args:
        stored: the type of the results, and of pairs of scale and zero; x is float32,
            or of the same where `takes_pairs` says so.
        lanes: of a vector.
        rows: of x, which go together.
    """
    form = _HalfBytes
    if takes_pairs(stored):
        form = _HalfPairs
    elif stored.itemsize == 2 and lanes == 16 and rows <= 2:
        form = _HalfMantissas
    return ir.kernel(name, rolled(form(stored, lanes, rows).write()))


class _HalfPairs(_HalfBytes):
    """The same by products of pairs of bfloat16, where x is such.

    Two places of the depth lie side by side: their bytes become words, whose low bits pick
    the numbers of both from a table.
    """

    positions, add = 2, staticmethod(multiply_pairs)

    def __init__(self, stored, lanes, rows):
        super().__init__(stored, lanes, rows)
        self.x = self.b.let("pairs_of_x", Reinterpret(Pointer(i32), self.x))
        bits = (bfloat16_bits(q - 8) for q in range(16))
        self.table = [Const(i16, word) for word in bits] * 2

    def line(self, row):
        return moved(self.x, row * quotient(self.n["depth"], 2))

    def numbers(self, at):
        b, lanes = self.b, self.lanes
        both = b.let("bytes", load(self.packed, at, COLUMNS))
        found = []
        for first in range(0, COLUMNS // 2, lanes):
            own = range(first, first + lanes)
            spread = [c + k for c in own for k in (0, 0, COLUMNS // 2, COLUMNS // 2)]
            words = Reinterpret(i16.vector(2 * lanes), Shuffle(spread, both, both))
            found.append(b.let("words", words))
        kind = i16.vector(2 * lanes)
        looked = [Call("lookup", kind, word, *self.table) for word in found]
        looked += [Call("lookup", kind, word >> 4, *self.table) for word in found]
        return [b.let("q", Reinterpret(i32.vector(lanes), each)) for each in looked]


class _HalfMantissas(_HalfBytes):
    """The same for one or two rows of 16 bits, where a vector has 64 bytes.

    A byte in the highest bits of a mantissa is ``1 + q / 16`` of its upper half and, without
    that, ``1 + q / 256`` of the lower one: a shift serves 32 numbers, and no table is read.
    Halves of vectors are two places of the depth. What is too much comes out by the sum of
    x, and costs five bits of float32, which a result of 16 bits has no use for.
    """

    LOWER, UPPER = (0x78000, 256), (0x780000, 16)  # bits, and what makes q of them

    def sums_of(self, lines, start, k0, masses):
        b, lanes = self.b, self.lanes
        parts = [(bits, i) for bits, _ in (self.LOWER, self.UPPER) for i in range(4)]
        zero = Const(f32.vector(lanes), 0)
        sums = [[b.declare("sum", zero) for _ in parts] for _ in lines]
        halves = [0] * (lanes // 2) + [1] * (lanes // 2)
        with b.loop("k", k0, k0 + self.n["group"], 2) as k:
            place = moved(self.packed, start + k * (COLUMNS // 2))
            words = b.let("words", load(Reinterpret(Pointer(i32), place), 0, lanes))
            raised = [b.let("raised", _raised(words, i)) for i in range(4)]
            one = Const(i32.vector(lanes), 0x3F800000)
            found = (raised[i] & bits | one for bits, i in parts)
            numbers = [b.let("q", Reinterpret(zero.type, each)) for each in found]
            both = (b.let("two", load(line, k, 2)) for line in lines)
            rows = (b.let("spread", Shuffle(halves, two, two)) for two in both)
            outer_product(b, sums, rows, numbers, multiply_add)
        sizes = [size for _, size in (self.LOWER, self.UPPER) for _ in range(2)]
        return [
            [
                multiply_add(total, Const(total.type, size), mass * (-8 - size))
                for total, size in zip(self.in_order(own), sizes)
            ]
            for own, mass in zip(sums, masses)
        ]

    def in_order(self, sums):
        """Sums of 64 columns, of vectors that have every fourth one of 32 twice."""
        half = self.lanes // 2
        ends = [*range(half), *range(2 * half, 3 * half)]
        others = [half + lane for lane in ends]
        pairs = [
            self.b.let("folded", Shuffle(ends, *two) + Shuffle(others, *two))
            for two in zip(sums[::2], sums[1::2])
        ]
        order = [half * m + j for j in range(half) for m in range(4)]
        for two in (pairs[:2], pairs[2:]):
            yield self.b.let("sum", Shuffle(order[: self.lanes], *two))
            yield self.b.let("sum", Shuffle(order[self.lanes :], *two))


def _raised(words, byte):
    """A byte of words in the highest bits of mantissas, beside other bytes."""
    bits = 15 - 8 * byte
    return words << bits if bits > 0 else words >> -bits


def bfloat16_bits(number):
    """The bits of a small integer as bfloat16.

    >>> hex(bfloat16_bits(1))
    '0x3f80'
    """
    (word,) = struct.unpack("<i", struct.pack("<f", number))
    return word >> 16


def takes_pairs(stored):
    """Whether rows of a type go with half bytes as they are, and not as float32."""
    return stored.name == "bfloat16" and current().has("dot_bf16")


class _HalfNumbers(_HalfBytes):
    """The loops of `half_numbers`."""

    def pass_over(self, block, start, columns):
        """Four vectors of columns of a block, over the whole depth."""
        b, n, lanes = self.b, self.n, self.lanes
        with b.loop("g", 0, quotient(n["depth"], n["group"])) as g:
            line = g * n["columns"] + block * COLUMNS
            pairs = [load(self.pairs, line + c, lanes) for c in columns]
            pairs = [b.let("pair", pair) for pair in pairs]
            scales, zeros = (
                [
                    b.let("part", _part_of(p, self.stored, self.half, shift))
                    for p in pairs
                ]
                for shift in (0, 8 * self.stored.itemsize)
            )
            k0 = b.let("k0", g * n["group"])
            with b.loop("k", k0, k0 + n["group"]) as k:
                row = k * n["columns"] + block * COLUMNS
                numbers = self.numbers(start + k * (COLUMNS // 2))
                for c, *parts in zip(columns, numbers, scales, zeros, strict=True):
                    b.store(self.x, row + c, multiply_add(*parts))


def half_numbers(name, stored, lanes):
    """``x = (q - 8) s + z``, of all places of the depth and columns, as float32.

    Data and integers as of `half_bytes`, of which no results are written. The parallel
    axis counts blocks of columns.
    """
    return ir.kernel(name, rolled(_HalfNumbers(stored, lanes, 1).write()))


def _part_of(both, stored, half, shift):
    """One of two numbers that lie in an integer of twice the width, as float32."""
    bits = cast(half, both >> shift if shift else both)
    return cast(f32, Reinterpret(stored.vector(both.type.lanes), bits))


def whole_bytes(name, stored, lanes, rows):
    """``out[m, n] = scale[n] sum_k x[m, k] w[n, k]``, where w holds bytes.

    Four rows of w share each piece of x, some rows of x each piece of w. The parallel
    axis counts fours of rows of w.

    Args:
        stored: the type of x, of the results and of the scales.
        lanes: of a vector.
        rows: of x, which go together.
    """
    b = Builder()
    n = named(b, "depth columns row0")
    kinds = stored, stored, Type("int8"), stored
    out, x, weights, scales = (
        b.let(key, ir.argument(i, kind))
        for i, (key, kind) in enumerate(zip(("out", "x", "weights", "scales"), kinds))
    )
    with b.loop("block", ir.BEGIN, ir.END) as block:
        lines = [
            b.let("line", minimum(block * BYTES_ROWS + r, n["columns"] - 1))
            for r in range(BYTES_ROWS)
        ]

        def row_at(r, k, mask):
            place = (n["row0"] + r) * n["depth"] + k
            return b.let("value", cast(f32, load(x, place, lanes, mask=mask)))

        def column_at(start, k, mask):
            return cast(f32, cast(i32, load(weights, start + k, lanes, mask=mask)))

        starts = [b.let("start", line * n["depth"]) for line in lines]
        read = [partial(row_at, r) for r in range(rows)]
        columns = [partial(column_at, start) for start in starts]
        kind, span = f32.vector(lanes), (0, n["depth"])
        sums = dot_products(b, kind, read, columns, span)
        for r, totals in enumerate(sums):
            for line, total in zip(lines, totals):
                value = total * cast(f32, load(scales, line))
                place = (n["row0"] + r) * n["columns"] + line
                b.store(out, place, cast(stored, value))
    return ir.kernel(name, rolled(b.statements))


@functools.cache
def kernel_of(kind, dtype, *how):
    """The native kernel of a kind for numbers of a type.

    Args:
        kind: `half_bytes` or `whole_bytes`.
        dtype: the name of the type.
        how: the number of rows that go together, of half bytes.
    """
    from rushlight.codegen.lower import lower
    from rushlight.codegen.schedule.contraction import matrix_tile

    symbol = "_".join([kind.__name__, dtype, *map(str, how)])
    lanes = matrix_tile("float32", current()).lanes

    def write():
        return lower(kind(symbol, Type(dtype), lanes, *how))

    return host.code_cache.native(symbol, "", write)
