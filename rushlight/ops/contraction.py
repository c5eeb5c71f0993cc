"""Matrix products as register tiles: the loops behind mm, bmm, linear and convolution.

``out[i, j] = alpha * sum_k a[i, k] b[k, j] + beta * d[i, j]``

    for each chunk of the output                    (threads)
        for each block of k                         b[k, :] packed, in the L2 cache
            for each panel of 6 rows                a[:, k] streams through L1
                for each 64 columns                 6 x 4 vectors of sums in registers

The left operand is read in place, one broadcast element at a time, whatever its
strides: packing it was never faster (2048: 106 against 103 GFLOP/s; transposed 105
against 82). The right one is read in place where its rows are short, and otherwise
copied, or transposed a square of registers at a time, into panels as wide as a tile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from rushlight.backends.roles import host
from rushlight.codegen import expr as ir
from rushlight.codegen.builder import Builder
from rushlight.codegen.expr import (
    Binary,
    Broadcast,
    Call,
    Const,
    Expr,
    Ramp,
    Reinterpret,
    Select,
    Type,
    bf16,
    cast,
    i32,
    i64,
    load,
)
from rushlight.codegen.rewrite import map_statement
from rushlight.codegen.schedules.contraction import Tile, matrix_tile
from rushlight.codegen.target import current

# The kernel's integers, in order.
PRODUCT_INTS = """
    rows columns depth a_row a_column b_row b_column out_row d_row d_mode a_batch
    b_batch out_batch d_batch row_block column_block right_mode
""".split()
DIRECT, COPIED, TRANSPOSED, GATHERED = range(4)  # how the right operand is read
NOTHING, VECTOR, SCALAR = range(3)  # d: absent, along a row, one a row


def minimum(a, b):
    """The smaller of two values."""
    return Binary("min", *ir.unify(a, b))


def quotient(a, b):
    """Integer division of counts."""
    return Binary("tdiv", *ir.unify(a, b))


def remainder(a, b):
    """What integer division of counts leaves."""
    return Binary("rem", *ir.unify(a, b))


def blocks_of(count, size):
    """How many blocks of ``size`` cover ``count``."""
    return quotient(count + size - 1, size)


def multiply_add(a, b, c):
    """``a * b + c``, in one rounding for floats where that is one instruction."""
    fused = a.type.is_float and current().has("fma")
    return Call("fma", a.type, a, b, c) if fused else a * b + c


def multiply_pairs(a, b, c):
    """``c`` plus both products of the bfloat16 pairs that lanes of ``a`` and ``b`` are."""
    pairs = bf16.vector(2 * c.type.lanes)
    return Call("dot_bf16", c.type, c, Reinterpret(pairs, a), Reinterpret(pairs, b))


def lane_mask(lanes, count):
    """True in the first ``count`` lanes."""
    ramp = Ramp(lanes, Const(i32, 0), Const(i32, 1))
    return ramp < Broadcast(lanes, cast(i32, count))


def moved(pointer, elements):
    """A pointer moved by a number of elements."""
    return ir.Offset(pointer, elements * pointer.type.element.itemsize)


@dataclass
class Operand:
    """A matrix in memory: address, and elements from one row and column to the next.

    A right operand's columns are adjacent once it is read by a tile.
    """

    pointer: Expr
    row: Expr
    column: Expr | None = None

    def at(self, row, column=0) -> Operand:
        """The same matrix, seen from another element."""
        step = column if self.column is None else column * self.column
        return Operand(
            moved(self.pointer, row * self.row + step), self.row, self.column
        )


@dataclass
class Epilogue:
    """What becomes of the sums: ``after(alpha * sums + beta * old)``.

    Attributes:
        alpha, beta: factors; without an ``alpha`` there is none.
        old: what is added: a matrix, or a value for each row.
        mode: ``VECTOR``, ``SCALAR``, or ``NOTHING`` to be added.
        after: from a vector of results, and of each of ``others``, to another, for what
            is traced behind a product; None where results are stored as they are.
        others: further operands of it: matrices whose columns are adjacent, or where
            ``column`` is 0 have a value for each row.
    """

    alpha: Expr | None
    beta: Expr
    old: Operand
    mode: Expr
    after: Callable | None = None
    others: tuple = ()

    def is_simple(self):
        """Whether nothing but an addition is between the sums and the results."""
        if self.after is not None:
            return Const(ir.boolean, False)
        return Const(ir.boolean, True) if self.alpha is None else self.alpha == 1


@dataclass
class Destination:
    """Where a tile goes: to the results, or to where its sums wait for an epilogue.

    Attributes:
        is_final: whether it is the results.
        whole: where a tile of the usual size goes, which adds what is to be added itself.
    """

    pointer: Expr
    row: Expr
    is_final: Expr
    whole: Destination | None = None


class Product:
    """Writes the loops of one product with a given tile and accumulation type.

    Tiles of every size write to one place and share one epilogue: they are nothing but
    the loop over the depth, so a kernel holds many of them in little code. Whole tiles
    add a bias, or what was summed before, while their sums are in registers.
    """

    def __init__(self, builder: Builder, tile: Tile, compute: Type, add=multiply_add):
        self.b, self.tile, self.compute, self.add = builder, tile, compute, add
        self.sums = builder.array("tile_sums", compute, tile.rows * tile.width)

    # One register tile

    def register_tile(self, rows, masks, left, right, depth, out, add_old=None):
        """``rows`` x ``len(masks)`` vectors of sums; a mask cuts one short.

        Args:
            out: where they go, as `Destination`.
            add_old: adds to the sums what an epilogue adds, where that is all it does.
        """
        b, lanes = self.b, self.tile.lanes
        zero = Const(self.compute.vector(lanes), 0)
        sums = [[b.declare("sum", zero) for _ in masks] for _ in range(rows)]
        lines = [b.let("line", moved(left.pointer, left.row * i)) for i in range(rows)]
        step, start = (b.declare(name, Const(i64, 0)) for name in ("step", "start"))
        with b.loop("k", 0, depth):
            along = [
                b.let("along", load(right.pointer, start + j * lanes, lanes, mask=mask))
                for j, mask in enumerate(masks)
            ]
            for line, totals in zip(lines, sums, strict=True):
                value = b.let("value", Broadcast(lanes, load(line, step)))
                for total, other in zip(totals, along, strict=True):
                    b.assign(total, self.add(value, other, total))
            b.assign(step, step + left.column)
            b.assign(start, start + right.row)
        if add_old is not None:
            add_old(sums, masks)
        cut = []
        for i, totals in enumerate(sums):
            row = b.let("row", moved(out.pointer, out.row * i))
            for j, (total, mask) in enumerate(zip(totals, masks, strict=True)):
                if mask is None:
                    b.store(row, j * lanes, total)
                else:
                    cut.append((row, j * lanes, total, mask))
        if cut:  # what is stored by a mask is slow to be read again
            with b.when(out.is_final):
                for row, at, total, mask in cut:
                    b.store(row, at, total, mask)
            with b.otherwise():
                for row, at, total, _ in cut:
                    b.store(row, at, total)

    def add_old(self, sums, masks, epilogue):
        """Adds what an epilogue with nothing else to do adds."""
        b, lanes, old = self.b, self.tile.lanes, epilogue.old
        with b.when(epilogue.is_simple() & (epilogue.mode == VECTOR)):
            beta = b.let("beta", Broadcast(lanes, epilogue.beta))
            for i, totals in enumerate(sums):
                before = b.let("before", moved(old.pointer, old.row * i))
                for j, (total, mask) in enumerate(zip(totals, masks, strict=True)):
                    other = load(before, j * lanes, lanes, mask=mask)
                    b.assign(total, multiply_add(other, beta, total))
        with b.when(epilogue.is_simple() & (epilogue.mode == SCALAR)):
            for i, totals in enumerate(sums):
                value = load(old.pointer, old.row * i) * epilogue.beta
                scaled = b.let("scaled", Broadcast(lanes, value))
                for total in totals:
                    b.assign(total, total + scaled)

    def any_size(self, rows, columns, masks, left, right, depth, out, epilogue):
        """A tile of any size: the right number of rows, of whole vectors and a last.

        Tiles with fewer rows than usual have one vector, all of them, or one less.
        """
        b, tile = self.b, self.tile
        vectors = b.let("vectors", blocks_of(columns, tile.lanes))
        before = [None] * (tile.vectors - 1)  # whole vectors need no mask
        operands = left, right, depth

        def add_old(sums, masks):
            self.add_old(sums, masks, epilogue)

        with b.when(rows == tile.rows):
            # A load by a mask takes a slot that a multiplication could have.
            with b.when(columns == tile.width):
                rest = out.whole, add_old
                self.register_tile(tile.rows, [*before, None], *operands, *rest)
            with b.otherwise():
                for count in range(1, tile.vectors + 1):
                    cut = [*before[: count - 1], masks[count - 1]]
                    with b.when(vectors == count):
                        self.register_tile(tile.rows, cut, *operands, out)
        with b.otherwise():
            for height in tile.row_tails:
                with b.when(rows == height):
                    with b.when(vectors == tile.vectors):
                        cut = [*before, masks[-1]]
                        self.register_tile(height, cut, *operands, out)
                    if tile.vectors > 2:
                        with b.when((vectors > 1) & (vectors < tile.vectors)):
                            self.register_tile(height, masks[:-1], *operands, out)
                    with b.when(vectors == 1):
                        self.register_tile(height, masks[:1], *operands, out)

    def destination(self, is_final, there):
        """The results' place if the sums are results, else where sums wait."""
        b, pitch = self.b, Const(i64, self.tile.width)
        return Destination(
            b.let("target", Select(is_final, there.pointer, self.sums)),
            b.let("pitch", Select(is_final, there.row, pitch)),
            is_final,
        )

    def finish(self, rows, masks, epilogue, out):
        """Makes results of a tile's sums and writes them."""
        b, tile, lanes, old = self.b, self.tile, self.tile.lanes, epilogue.old
        beta = b.let("beta", Broadcast(lanes, epilogue.beta))
        alpha = epilogue.alpha
        if alpha is not None:
            alpha = b.let("alpha", Broadcast(lanes, alpha))

        def put(row, line, change):
            """Stores a row's results, each from its sums and its vector's number."""
            lines = [
                b.let("other", moved(other.pointer, r * other.row))
                for other in epilogue.others
            ]
            for j, mask in enumerate(masks):
                total = load(line, j * lanes, lanes)
                if alpha is not None:
                    total = total * alpha
                value = change(total, j, mask)
                if epilogue.after is not None:
                    operands = [
                        self.other(other, there, j, mask)
                        for other, there in zip(epilogue.others, lines, strict=True)
                    ]
                    value = epilogue.after(value, *operands)
                b.store(row, j * lanes, value, mask)

        def with_vector(total, j, mask):
            other = load(before, j * lanes, lanes, mask=mask)
            return multiply_add(other, beta, total)

        with b.loop("r", 0, rows) as r:
            line = b.let("line", moved(self.sums, r * tile.width))
            row = b.let("row", moved(out.pointer, r * out.row))
            before = b.let("before", moved(old.pointer, r * old.row))
            with b.when(epilogue.mode == VECTOR):
                put(row, line, with_vector)
            with b.when(epilogue.mode == SCALAR):
                scaled = b.let("scaled", load(before, 0) * epilogue.beta)
                put(row, line, lambda total, *_: total + Broadcast(lanes, scaled))
            with b.when(epilogue.mode == NOTHING):
                put(row, line, lambda total, *_: total)

    def other(self, operand, line, j, mask):
        """A vector of an epilogue's operand, in the type of the sums."""
        lanes = self.tile.lanes
        if operand.column is None:
            value = load(line, j * lanes, lanes, mask=mask)
        else:
            value = Broadcast(lanes, load(line, 0))
        return cast(self.compute, value)

    # Blocks

    def block(self, height, width, depth, left, right_at, out, epilogue_at):
        """All tiles of a block.

        Args:
            left: a callable, from a row and a number of rows to the `Operand` there.
            right_at: a callable, from a column to the `Operand` there.
            epilogue_at: a callable, from a row and a column to the `Epilogue` there.
        """
        b, tile = self.b, self.tile
        i = b.declare("i", Const(i64, 0))
        with b.repeat(i < height):
            rest = b.let("rest", height - i)
            rows = Const(i64, 1)
            for size in (*reversed(tile.row_tails), tile.rows):
                rows = Select(rest >= size, Const(i64, size), rows)
            rows, here = b.let("rows", rows), b.let("here", i + 0)
            part = left(here, rows)
            with b.loop("j", 0, width, tile.width) as j:
                columns = b.let("columns", minimum(width - j, tile.width))
                masks = [
                    b.let("mask", lane_mask(tile.lanes, columns - v * tile.lanes))
                    for v in range(tile.vectors)
                ]
                there = named(b, "there", out.at(here, j))
                epilogue = epilogue_at(here, j)
                simple = b.let("simple", epilogue.is_simple())
                none = b.let("none", simple & (epilogue.mode == NOTHING))
                large = (rows == tile.rows) & (columns == tile.width)
                large = b.let("large", simple & large)
                sums = self.destination(none, there)
                sums.whole = self.destination(simple, there)
                self.any_size(
                    rows, columns, masks, part, right_at(j), depth, sums, epilogue
                )
                with b.when(~(none | large)):
                    self.finish(rows, masks, epilogue, there)
            b.assign(i, i + rows)

    # Packing the right operand: panels of `width` columns, row after row

    def pack_right(self, mode, source, target, depth, width):
        """Copies a block of the right operand to panels, by the given mode."""
        b = self.b
        with b.when(mode == COPIED):
            self.copy_rows(source, target, depth, width)
        with b.when(mode == TRANSPOSED):
            self.transpose_columns(source, target, depth, width)
        with b.when(mode == GATHERED):
            with b.loop("j", 0, width) as j, b.loop("k", 0, depth) as k:
                value = load(source.pointer, k * source.row + j * source.column)
                b.store(
                    target,
                    self.packed_index(j, depth) + k * self.tile.width,
                    cast(self.compute, value),
                )

    def packed_index(self, j, depth):
        """Where column ``j`` starts among the panels."""
        start = quotient(j, self.tile.width) * self.tile.width
        return start * depth + (j - start)

    def copy_rows(self, source, target, depth, width):
        """Rows with adjacent columns: a panel's vectors at a time."""
        b, tile = self.b, self.tile
        with b.loop("panel", 0, width, tile.width) as panel:
            count = b.let("count", width - panel)
            masks = [
                b.let("mask", lane_mask(tile.lanes, count - v * tile.lanes))
                for v in range(tile.vectors)
            ]
            with b.loop("k", 0, depth) as k:
                to = b.let("to", panel * depth + k * tile.width)
                start = b.let("origin", k * source.row + panel)
                for v, mask in enumerate(masks):
                    value = load(
                        source.pointer, start + v * tile.lanes, tile.lanes, mask=mask
                    )
                    b.store(target, to + v * tile.lanes, cast(self.compute, value))

    def transpose_columns(self, source, target, depth, width, total=None):
        """Columns with adjacent rows: squares of lanes turned in registers.

        ``depth`` rows become the first of panels that are ``total`` deep.
        """
        b, lanes, panel = self.b, self.tile.lanes, self.tile.width
        square = b.array("square", self.compute, lanes * lanes)
        with b.loop("j", 0, width, lanes) as j:
            to = b.let("to", self.packed_index(j, depth if total is None else total))
            starts = [
                b.let("start", minimum(j + i, width - 1) * source.column)
                for i in range(lanes)
            ]
            with b.loop("k", 0, depth, lanes) as k:
                mask = b.let("mask", lane_mask(lanes, depth - k))
                lines = [load(source.pointer, s + k, lanes, mask=mask) for s in starts]
                turned = transpose(
                    b, [b.let("line", cast(self.compute, line)) for line in lines]
                )
                row = b.let("row", moved(target, to + k * panel))
                with b.when(depth - k >= lanes):
                    for i, vector in enumerate(turned):
                        b.store(row, i * panel, vector)
                with b.otherwise():
                    for i, vector in enumerate(turned):
                        b.store(square, i * lanes, vector)
                    with b.loop("i", 0, depth - k) as i:
                        b.store(row, i * panel, load(square, i * lanes, lanes))

    def pack_left(self, source, target, depth, rows):
        """A panel of the left operand converted to the type of the sums."""
        b, lanes, pitch = self.b, self.tile.lanes, self.tile.depth
        with b.loop("i", 0, rows) as i:
            line = b.let("line", moved(source.pointer, i * source.row))
            row = b.let("row", moved(target, i * pitch))
            with b.when(source.column == 1), b.loop("k", 0, depth, lanes) as k:
                mask = b.let("mask", lane_mask(lanes, depth - k))
                value = load(line, k, lanes, mask=mask)
                b.store(row, k, cast(self.compute, value), mask)
            with b.when(source.column != 1), b.loop("k", 0, depth) as k:
                value = load(line, k * source.column)
                b.store(row, k, cast(self.compute, value))
        return Operand(target, Const(i64, pitch), Const(i64, 1))


def transpose(b, vectors):
    """As many vectors as they have lanes, turned: log2(lanes) rounds of shuffles."""
    lanes = len(vectors)
    half = lanes // 2
    low = [lane for i in range(half) for lane in (i, lanes + i)]
    high = [lane for i in range(half, lanes) for lane in (i, lanes + i)]
    for _ in range(lanes.bit_length() - 1):
        vectors = [
            b.let("mixed", ir.Shuffle(pick, vectors[i], vectors[i + half]))
            for i in range(half)
            for pick in (low, high)
        ]
    return vectors


def rolled(statements):
    """The statements with every loop left as it is written: vectors are explicit."""
    result = []
    for statement in statements:
        statement = map_statement(statement, lambda e: e, rolled)
        if isinstance(statement, ir.For) and statement.kind == "serial":
            statement = replace(statement, kind="rolled")
        result.append(statement)
    return tuple(result)


def product(
    name, a_type, b_type, compute, tile, add=multiply_add, after=None, others=()
) -> ir.Function:
    """The matrix product; the parallel axis counts blocks of the output.

    Blocks are numbered columns first, then rows, then batch. Data: out, a, b, d, alpha
    and beta in ``compute``, and ``others``, of each of which there are two more integers:
    elements from row to row, and from batch to batch.

    Args:
        add: what multiplies and adds vectors of the operands.
        after: a function of symbolic values that results go through, such as an
            activation: the result, and one of each of ``others``.
        others: pairs of what an operand of ``after`` holds, and whether it has a value
            for each column, adjacent, or one for each row (residuals and biases, scales).
    """
    b = Builder()
    write = Product(b, tile, compute, add)
    n = {key: b.let(key, ir.integer(i)) for i, key in enumerate(PRODUCT_INTS)}
    types = {"out": compute, "a": a_type, "b": b_type, "d": compute, "scalars": compute}
    p = {key: b.let(key, ir.argument(i, t)) for i, (key, t) in enumerate(types.items())}
    room = (
        b.array("packed", compute, tile.depth * tile.columns) if tile.columns else None
    )
    converted = (
        b.array("converted", compute, tile.depth * tile.rows)
        if a_type != compute
        else None
    )
    scalars = [b.let("scalar", load(p["scalars"], i)) for i in range(2)]
    besides = [
        Beside(b, k, type, along, len(types), len(n))
        for k, (type, along) in enumerate(others)
    ]
    across = b.let("across", blocks_of(n["columns"], n["column_block"]))
    down = b.let("down", blocks_of(n["rows"], n["row_block"]))
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        rest = b.let("rest", quotient(chunk, across))
        batch = b.let("batch", quotient(rest, down))
        i0 = b.let("i0", remainder(rest, down) * n["row_block"])
        j0 = b.let("j0", remainder(chunk, across) * n["column_block"])
        height = b.let("height", minimum(n["rows"] - i0, n["row_block"]))
        width = b.let("width", minimum(n["columns"] - j0, n["column_block"]))
        d_step = b.let(
            "d_step", Select(n["d_mode"] == VECTOR, Const(i64, 1), Const(i64, 0))
        )
        out, left, right, old = (
            named(
                b,
                key,
                Operand(moved(p[key], batch * n[f"{key}_batch"]), row, column).at(i, j),
            )
            for key, row, column, i, j in (
                ("out", n["out_row"], None, i0, j0),
                ("a", n["a_row"], n["a_column"], i0, 0),
                ("b", n["b_row"], n["b_column"], 0, j0),
                ("d", n["d_row"], d_step, i0, j0),
            )
        )
        operands = out, left, right, old
        here = [one.at(batch, i0, j0) for one in besides]
        behind = after, here
        sweep_depth(write, n, scalars, height, width, operands, room, converted, behind)
    return ir.kernel(name, rolled(b.statements))


class Beside:
    """An operand of what is traced behind a product, as the kernel is passed it."""

    def __init__(self, b, number, type, along, data, ints):
        self.along = along
        self.base = b.let("beside", ir.argument(data + number, type))
        self.row, self.batch = (
            b.let(f"beside_{what}", ir.integer(ints + 2 * number + k))
            for k, what in enumerate(("row", "batch"))
        )

    def at(self, batch, i, j) -> Operand:
        """The operand of one batch, from a row and a column on."""
        start = batch * self.batch + i * self.row
        there = moved(self.base, start + j if self.along else start)
        return Operand(there, self.row, None if self.along else Const(i64, 0))


def named(b, name, operand):
    """The operand with its address computed once."""
    return Operand(b.let(name, operand.pointer), operand.row, operand.column)


def sweep_depth(write, n, scalars, height, width, operands, room, converted, behind):
    """Adds up one block of the output over blocks of the depth."""
    after, others = behind
    b, tile, compute = write.b, write.tile, write.compute
    out, left, right, old = operands
    alpha, beta = scalars
    with b.loop("k0", 0, n["depth"], tile.depth) as k0:
        depth = b.let("depth", minimum(n["depth"] - k0, tile.depth))
        first = b.let("first", k0 == 0)
        source = named(b, "source", right.at(k0))
        if room is not None:
            write.pack_right(n["right_mode"], source, room, depth, width)
        epilogue = continued(b, first, beta, old, n["d_mode"], out, compute)
        direct = b.let("direct", n["right_mode"] == DIRECT)
        ended = b.let("ended", k0 + tile.depth >= n["depth"])

        def last(value, *operands):
            return Select(ended, after(value, *operands), value)

        def right_at(j):
            there = Operand(source.at(0, j).pointer, source.row)
            if room is None:
                return there
            packed = Operand(moved(room, j * depth), Const(i64, tile.width))
            if source.pointer.type.element != compute:
                return packed
            return choose(b, direct, there, packed)

        def left_at(i, rows):
            there = left.at(i, k0)
            if converted is None:
                return there
            return write.pack_left(there, converted, depth, rows)

        def epilogue_at(i, j):
            before = named(b, "before", epilogue[1].at(i, j))
            traced = last if after else None
            besides = tuple(other.at(i, j) for other in others)
            return Epilogue(alpha, epilogue[0], before, epilogue[2], traced, besides)

        write.block(height, width, depth, left_at, right_at, out, epilogue_at)


def continued(b, first, beta, old, mode, out, compute):
    """Beta, addend and mode of a block of the depth: later ones add to the output."""
    one = Const(i64, 1)
    step = b.let("step", Select(first, old.column, one))
    row = b.let("row", Select(first, old.row, out.row))
    base = b.let("base", Select(first, old.pointer, out.pointer))
    mode = b.let("mode", Select(first, mode, Const(i64, VECTOR)))
    return (
        b.let("beta", Select(first, beta, Const(compute, 1))),
        Operand(base, row, step),
        mode,
    )


def choose(b, condition, yes, no):
    """One of two right operands, known when the kernel runs."""
    return Operand(
        b.let("right", Select(condition, yes.pointer, no.pointer)),
        b.let("right_row", Select(condition, yes.row, no.row)),
    )


@functools.cache
def matrix_kernel(kind: str, a_type: str, b_type: str, compute: str):
    """The native kernel of one kind, from the cache or built.

    Args:
        kind: ``product``, ``pairs`` (of bfloat16, held as float32), ``dots``,
            ``combine`` or ``turned_sum``.
        a_type, b_type: what the operands hold.
        compute: what sums and results are.
    """
    from rushlight.ops import contraction_vectors as vectors

    types = [Type(a_type), Type(b_type), Type(compute)]
    name = "_".join([kind, *dict.fromkeys((a_type, b_type, compute))])
    write = {
        "product": lambda tile: product(name, *types, tile),
        "pairs": lambda tile: product(name, *types, tile, multiply_pairs),
        "dots": lambda tile: vectors.dots(name, *types, tile.lanes),
        "combine": lambda tile: vectors.combine(name, *types, tile.lanes),
        "turned_sum": lambda tile: vectors.turned_sum(name, types[2], tile.lanes),
    }[kind]
    digest = host.cache.source_digest(__file__) + host.cache.source_digest(
        vectors.__file__
    )
    return host.cache.native(
        name, digest, lambda: write(matrix_tile(compute, current()))
    )
