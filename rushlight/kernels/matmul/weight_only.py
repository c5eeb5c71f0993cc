"""Products with weights of eight and of four bits, which become numbers in registers.

Rows are few where tokens are generated: weights are read once, and the time is theirs.
"""

from __future__ import annotations

import functools
from functools import partial

from rushlight.codegen.target import current
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Call, Const, Reinterpret, Type, cast, i64, load
from rushlight.kernels.loop_helpers import minimum, multiply_add, quotient, rolled
from rushlight.kernels.micro_kernels import dot_products

COLUMNS = 64  # whose half bytes lie together for each place of the depth
TOGETHER = 4  # rows of x that share what is read of the weights, at most
f32, i32, u8 = Type("float32"), Type("int32"), Type("uint8")
BYTES_ROWS = 4
_WIDE = {2: (Type("int16"), i32), 4: (i32, i64)}


def named(b, names):
    """The integers of a kernel, in order."""
    return {key: b.let(key, ir.integer(i)) for i, key in enumerate(names.split())}


class _HalfBytes:
    """The loops of `half_bytes`."""

    def __init__(self, stored, lanes, rows):
        self.b = b = Builder()
        self.stored, self.lanes, self.rows = stored, lanes, rows
        self.n = named(b, "depth columns group row0")
        self.half, wide = _WIDE[stored.itemsize]
        types = stored, f32, u8, wide
        self.out, self.x, self.packed, self.pairs = (
            b.let(key, ir.argument(i, kind))
            for i, (key, kind) in enumerate(zip(("out", "x", "packed", "pairs"), types))
        )
        self.table = [Const(f32, q - 8) for q in range(16)]

    def write(self):
        """The statements."""
        b, n = self.b, self.n
        with b.loop("block", ir.BEGIN, ir.END) as block:
            start = b.let("start", block * (n["depth"] * (COLUMNS // 2)))
            for first in range(0, COLUMNS // 2, 2 * self.lanes):
                columns = [first, first + self.lanes]
                columns += [COLUMNS // 2 + c for c in columns]
                self.pass_over(block, start + first, columns)
        return b.statements

    def pass_over(self, block, start, columns):
        """Four vectors of columns of a block, over the whole depth."""
        b, n, lanes = self.b, self.n, self.lanes
        zero = Const(f32.vector(lanes), 0)
        totals = [b.array("totals", f32, 4 * lanes) for _ in range(self.rows)]
        for total in totals:
            for v in range(4):
                b.store(total, v * lanes, zero)
        with b.loop("g", 0, quotient(n["depth"], n["group"])) as g:
            sums = [[b.declare("sum", zero) for _ in range(4)] for _ in totals]
            masses = [b.declare("mass", zero) for _ in totals]
            k0 = b.let("k0", g * n["group"])
            with b.loop("k", k0, k0 + n["group"]) as k:
                numbers = self.numbers(start + k * (COLUMNS // 2))
                for r in range(self.rows):
                    place = (n["row0"] + r) * n["depth"] + k
                    x = b.let("spread", Broadcast(lanes, load(self.x, place)))
                    b.assign(masses[r], masses[r] + x)
                    for v, q in enumerate(numbers):
                        b.assign(sums[r][v], multiply_add(x, q, sums[r][v]))
            for v, column in enumerate(columns):
                self.scale(g, block * COLUMNS + column, v, sums, masses, totals)
        for r, total in enumerate(totals):
            line = (n["row0"] + r) * n["columns"] + block * COLUMNS
            for v, column in enumerate(columns):
                value = load(total, v * lanes, lanes)
                b.store(self.out, line + column, cast(self.stored, value))

    def numbers(self, at):
        """The numbers of four vectors of columns, of half bytes from an index on."""
        b, lanes = self.b, self.lanes
        found = [cast(i32, load(self.packed, at + v * lanes, lanes)) for v in (0, 1)]
        found = [b.let("bytes", each) for each in found]
        kind = f32.vector(lanes)
        looked = [Call("lookup", kind, q, *self.table) for q in found]
        looked += [Call("lookup", kind, q >> 4, *self.table) for q in found]
        return [b.let("q", each) for each in looked]

    def scale(self, g, column, v, sums, masses, totals):
        """Bring the sums of a group into those of the depth."""
        b, lanes = self.b, self.lanes
        both = b.let("both", load(self.pairs, g * self.n["columns"] + column, lanes))
        scale, point = (
            b.let("part", _part_of(both, self.stored, self.half, moved))
            for moved in (0, 8 * self.stored.itemsize)
        )
        for r, total in enumerate(totals):
            value = multiply_add(masses[r], point, load(total, v * lanes, lanes))
            b.store(total, v * lanes, multiply_add(sums[r][v], scale, value))


def half_bytes(name, stored, lanes, rows):
    """``out = x (q - 8) s + z``: s and z for each column and group of the depth.

    The parallel axis counts blocks of columns. Within a group products with the integers
    are added up; then they are scaled, and the sum of x brings the zero point in.

    Args:
        stored: the type of the results, and of pairs of scale and zero; x is float32.
        lanes: of a vector.
        rows: of x, which go together.
    """
    return ir.kernel(name, rolled(_HalfBytes(stored, lanes, rows).write()))


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
                [b.let("part", _part_of(p, self.stored, self.half, m)) for p in pairs]
                for m in (0, 8 * self.stored.itemsize)
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


def _part_of(both, stored, half, moved):
    """One of two numbers that lie in an integer of twice the width, as float32."""
    bits = cast(half, both >> moved if moved else both)
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
