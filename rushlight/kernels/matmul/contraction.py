"""Matrix products as register tiles: the loops behind mm, bmm, linear and convolution.

``out[i, j] = epilogue(sum_k a[i, k] b[k, j] + added[i, j], ...)``

    for each chunk of the output                    (threads)
        for each block of k                         b[k, :] packed, in the L2 cache
            for each panel of 6 rows                a[:, k] streams through L1
                for each 64 columns                 6 x 4 vectors of sums in registers

A weight that lasts may be in panels from the start, ``[panel, depth, columns of a tile]``:
read in place, it is a matrix whose steps are a tile's width and the whole depth.

The left operand is read in place, one broadcast element at a time: packing it was never
faster (2048: 106 against 103 GFLOP/s). Only of one whose rows are adjacent are strips of
some rows copied to the second-level cache: its columns lie too far apart for the first, and
a strip of six rows takes a part of each of their cache lines. The right one is read in
place where its rows are short, and otherwise copied, or transposed a square of registers at
a time, into panels as wide as a tile.

The epilogue runs over each row of a finished panel, in place, or over a tile where results
are of another type than the sums; tiles are `kernels.micro_kernels`, copies
`kernels.matmul.packing`.

Follows Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008):
a block of the right operand in the second-level cache, panels of the left one past it; and
Van Zee and van de Geijn, "BLIS" (2015), whose five loops around a micro-kernel these are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rushlight.codegen.schedule.contraction import Tile
from rushlight.core.launch_args import ARRAYS, RIGHT_MODES
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Const, Expr, Select, Type, i64, load
from rushlight.kernels.epilogue import Epilogue, operands_of
from rushlight.kernels.loop_helpers import (
    Operand,
    blocks_of,
    choose,
    first_of,
    lane_mask,
    maximum,
    minimum,
    moved,
    multiply_add,
    named,
    planned,
    quotient,
    remainder,
    rolled,
)
from rushlight.kernels.matmul.packing import Packers
from rushlight.kernels.matmul.product_arguments import arrays_of, blocks_across
from rushlight.kernels.micro_kernels import outer_product, zero_sums

CACHE_LINE = 64


@dataclass
class Results:
    """Where the sums of a block go.

    Attributes:
        out: the results.
        sums: where sums wait for those of the next block of the depth.
        added: what is added to the sums: ``column`` is 0 where a row of it is one tile
            wide and the same for all tiles.
        ended: whether there is no such block.
        epilogue: what makes them results; None where that is what they are.
        others: its operands.
        whole: whether that is done to all columns of a few rows at once, which have
            memory of the same type to wait in.
    """

    out: Operand
    sums: Operand
    added: Operand
    ended: Expr | None = None
    epilogue: Epilogue | None = None
    others: tuple = ()
    whole: bool = False

    def at(self, b, i, j) -> Results:
        """The same, from another row and column on."""
        return Results(
            named(b, "there", self.out.at(i, j)),
            named(b, "kept", self.sums.at(i, j)),
            named(b, "addend", self.added.at(i, j)),
            self.ended,
            self.epilogue,
            tuple(other.at(i, j) for other in self.others),
            self.whole,
        )


class Product:
    """Writes the loops of one product with a given tile and accumulation type.

    A tile has one of `Tile.heights` and of `Tile.widths`; a mask may cut a part off one
    that is a lone vector wide. Its sums are stored where they belong, so nothing else
    depends on its size.

    Attributes:
        in_cache: whether operands and results are in a near cache: nothing is prefetched.
    """

    in_cache = False

    def __init__(self, builder: Builder, tile: Tile, compute: Type, add=multiply_add):
        self.b, self.tile, self.compute, self.add = builder, tile, compute, add
        self.pack = Packers(builder, tile, compute)
        self.waiting = builder.array("waiting", compute, tile.rows * tile.width)
        self.room = self.converted = self.strips = self.nothing = None

    def begin(self, a_type, b_type):
        """Makes room for what is packed, of operands of these types."""
        b, tile, compute = self.b, self.tile, self.compute
        if tile.columns:
            self.room = b.array("packed", compute, tile.depth * tile.columns)
        if a_type != compute:
            self.converted = b.array("converted", compute, tile.depth * tile.rows)
        else:
            self.strips = b.array("strips", compute, tile.depth * tile.strips)
        self.nothing = self.zeros()

    def end(self):
        """What is behind the last block: nothing."""

    def register_tile(
        self, vectors, lines, right, depth, rows, step, mask=None, ahead=None
    ):
        """As many vectors of sums for each line of the left operand.

        Args:
            rows: for each line, where its sums go, and what is added to them.
            step: elements from one column of the left operand to the next.
            mask: which lanes of a lone vector count; None for all.
            ahead: what is asked of the caches meanwhile: an address, and elements from one
                turn to the next.
        """
        b, lanes = self.b, self.tile.lanes
        sums = zero_sums(b, self.compute.vector(lanes), len(lines), vectors)
        across, start, asked = (
            b.declare(name, Const(i64, 0)) for name in ("step", "start", "asked")
        )
        if ahead is not None:
            self.ask_for(rows, vectors * lanes)
        with b.loop("k", 0, depth):
            if ahead is not None:
                b.add(ir.Prefetch(ahead.pointer, asked + 0))
                b.assign(asked, asked + ahead.row)
            along = [
                b.let("along", load(right.pointer, start + j * lanes, lanes, mask=mask))
                for j in range(vectors)
            ]
            values = (
                b.let("value", Broadcast(lanes, load(line, across))) for line in lines
            )
            outer_product(b, sums, values, along, self.add)
            b.assign(across, across + step)
            b.assign(start, start + right.row)
        # All is read before any is stored: of two rows that are one, neither counts twice.
        for (_, added), totals in zip(rows, sums, strict=True):
            for j, total in enumerate(totals):
                b.assign(total, total + load(added, j * lanes, lanes, mask=mask))
        for (target, _), totals in zip(rows, sums, strict=True):
            for j, total in enumerate(totals):
                b.store(target, j * lanes, total, mask)

    def ask_for(self, rows, width):
        """Asks the caches for where a tile's sums go: they are needed at its end."""
        line = CACHE_LINE // self.compute.itemsize
        for target, _ in rows:
            for j in range(0, width, line):
                self.b.add(ir.Prefetch(target, Const(i64, j)))

    def sweep(self, n, height, width, left, right, results):
        """Adds up one block of the output over blocks of the depth.

        Args:
            n: the plan of the product, by name.
            results: where sums go, and what may be added to those of the first block.
        """
        b, tile, compute, room = self.b, self.tile, self.compute, self.room
        begin = choose(b, n["added"] != 0, results.added, self.nothing, "begin")
        with b.loop("k0", 0, n["depth"], tile.depth) as k0:
            depth = b.let("depth", minimum(n["depth"] - k0, tile.depth))
            source = named(b, "source", right.at(k0))
            if room is not None:
                self.pack.pack_right(n["right_mode"], source, room, depth, width)
            direct = b.let("direct", n["right_mode"] == RIGHT_MODES["direct"])
            across = b.let(
                "across",
                (n["a_row"] == 1)
                & (n["a_column"] >= tile.lanes)
                & (height > tile.rows)
                & (width > tile.width),
            )

            def right_at(j):
                start = quotient(j, tile.width) * tile.width
                start = start * source.column + (j - start)  # panels have whole tiles
                operand = Operand(moved(source.pointer, start), source.row)
                if room is None:
                    return operand
                start = self.pack.packed_index(j, depth)
                packed = Operand(moved(room, start), Const(i64, tile.width))
                if source.pointer.type.element != compute:
                    return packed
                return choose(b, direct, operand, packed)

            def left_at(i, rows):
                operand = left.at(i, k0)
                if self.converted is not None:
                    return self.pack.pack_left(operand, self.converted, depth, rows)
                if self.strips is None:
                    return operand
                return self.pack.pack_strips(
                    across, operand, self.strips, depth, i, height
                )

            here = Results(
                results.out,
                results.sums,
                choose(b, k0 == 0, begin, results.sums, "begin"),
                b.let("ended", k0 + tile.depth >= n["depth"]),
                results.epilogue,
                results.others,
                results.whole,
            )
            self.block(height, width, depth, left_at, right_at, here)

    def block(self, height, width, depth, left, right_at, results):
        """All tiles of a block.

        Args:
            left: a callable, from a row and a number of rows to the `Operand` there.
            right_at: a callable, from a column to the `Operand` there.
            results: what becomes of the sums, as `Results`, or a callable from a row
                to them.
        """
        b, tile = self.b, self.tile
        i = b.declare("i", Const(i64, 0))
        with b.repeat(i < height):
            rest, here = b.let("rest", height - i), b.let("here", i + 0)
            rows = minimum(rest, tile.heights[-1])
            for height in tile.heights[-2::-1]:
                rows = Select(rest >= height, Const(i64, height), rows)
            if tile.rows == 6:  # four and four: two rows hide no latency of their sums
                even = (rest == 7) | (rest == 8)
                rows = Select(even, Const(i64, 4), rows)
            rows = b.let("rows", rows)
            strip = Strip(self, left(here, rows), rows, depth, width)
            j = b.declare("j", Const(i64, 0))
            across = results(here) if callable(results) else results.at(b, here, 0)
            with b.repeat(j < width):
                operand = b.let("column", j + 0)
                right = named(b, "panel", right_at(operand))
                begin = across.at(b, Const(i64, 0), operand)
                strip.tile(operand, width - operand, right, begin)
                b.assign(j, j + strip.taken)
            if across.whole:
                with b.when(across.ended):
                    strip.finish(width, across.sums, across)
            b.assign(i, i + rows)

    def constant_rows(self, value_of, height, room):
        """Fills ``room`` with a value for each row of a tile: what is added to it."""
        b, tile = self.b, self.tile
        with b.loop("r", 0, height) as r:
            value = b.let("value", Broadcast(tile.lanes, value_of(r)))
            for v in range(tile.vectors):
                b.store(room, r * tile.width + v * tile.lanes, value)
        return Operand(room, Const(i64, tile.width), Const(i64, 0))

    def zeros(self):
        """An addend of nothing."""
        b, tile = self.b, self.tile
        nothing = b.array("nothing", self.compute, tile.width)
        for v in range(tile.vectors):
            zero = Const(self.compute.vector(tile.lanes), 0)
            b.store(nothing, v * tile.lanes, zero)
        return Operand(nothing, Const(i64, 0), Const(i64, 0))


class Strip:
    """The tiles of some rows, one after another.

    Operands that are in no near cache cost a third of a product's time where they are waited
    for. So whole tiles ask for the lines of their results when they begin, and along the way
    for a share of the next strip's rows.

    Attributes:
        taken: a local: how many columns the last tile had, or would have had.
    """

    def __init__(self, product, left, rows, depth, width):
        self.product, self.b, self.depth = product, product.b, depth
        self.rows, self.step = rows, left.column
        if not product.in_cache:
            self.next = Operand(moved(left.pointer, rows * left.row), left.row)
            self.share, self.passed = self.shares(left.row, width)
        self.taken = self.b.declare("taken", Const(i64, 0))
        tile = product.tile
        # What a tile of few rows has too many repeats its first row, to no effect.
        self.positions = [
            minimum(Const(i64, k), rows - 1)
            if 0 < k < tile.heights[-1]
            else Const(i64, k)
            for k in range(tile.rows)
        ]
        self.lines = [
            self.b.let("line", moved(left.pointer, left.row * k))
            for k in self.positions
        ]

    def shares(self, row, width):
        """Rows of the next strip that a tile asks for, and elements passed over in a turn.

        Rows far from one another are asked for one by one.
        """
        tile = self.product.tile
        tiles = blocks_of(width, Const(i64, tile.width))
        share = blocks_of(Const(i64, tile.rows), tiles)
        share = Select(row > 2 * self.depth, Const(i64, 1), share)
        share = self.b.let("share", share)
        passed = quotient(share * row, maximum(self.depth, Const(i64, 1)))
        passed = Select(share > 1, maximum(passed, share), share)
        return share, self.b.let("passed", passed)

    def ahead_of(self, column):
        """What the tile from a column on asks for: an address, and a turn's elements."""
        tile = self.product.tile
        row = quotient(column, tile.width) * self.share
        row = minimum(row, Const(i64, tile.rows - 1))
        operand = moved(self.next.pointer, row * self.next.row)
        return Operand(self.b.let("ahead", operand), self.passed)

    def tile(self, column, left, right, results):
        """One tile of the columns that are left from one on, and what is behind it."""
        b, tile = self.b, self.product.tile
        left = b.let("left", left)
        self.ahead = None if self.product.in_cache else self.ahead_of(column)
        target = results.sums
        if results.epilogue is None:
            target = results.out
        elif not results.whole:
            pitch = Const(i64, tile.width)
            waiting = Operand(self.product.waiting, pitch)
            target = choose(b, results.ended, waiting, target)
        rows = [
            (
                b.let("target", moved(target.pointer, target.row * k)),
                b.let("before", moved(results.added.pointer, results.added.row * k)),
            )
            for k in self.positions
        ]
        self.heights(left, right, rows)
        if results.epilogue is not None and not results.whole:
            with b.when(results.ended):
                count = b.let("count", minimum(left, self.taken))
                self.finish(count, waiting, results)

    def heights(self, left, right, rows):
        """The tile of as many rows as there are."""
        tile = self.product.tile
        *higher, least = tile.heights
        few = sorted({tile.widths[0], 1}, reverse=True)
        operands = left, right, rows
        first_of(
            self.b,
            [
                (self.rows == h, partial(self.widths, tile.widths, h, *operands))
                for h in higher
            ],
            partial(self.widths, few, least, *operands),
        )

    def widths(self, widths, height, left, right, rows):
        """The widest tile that fits, or one vector, of which a mask cuts the end off."""
        b, lanes = self.b, self.product.tile.lanes
        operands = self.lines[:height], right, self.depth, rows[:height], self.step

        def tile(vectors, mask=None):
            whole = (height, vectors) == (self.product.tile.rows, widths[0])
            ahead = self.ahead if whole and len(widths) > 1 else None
            self.product.register_tile(vectors, *operands, mask, ahead)
            b.assign(self.taken, Const(i64, vectors * lanes))

        def narrow():
            tile(1, b.let("mask", lane_mask(lanes, left)))

        wider = [(left >= w * lanes, partial(tile, w)) for w in widths[:-1]]
        first_of(b, wider, narrow)

    def finish(self, count, sums, results):
        """Makes results of so many columns' sums and writes them."""
        place = count, sums, results.out, results.others
        results.epilogue.write_rows(self.b, self.rows, *place)


def product(
    name, a_type, b_type, compute, tile, add=multiply_add, epilogue=None, writer=Product
):
    """The matrix product; the parallel axis counts blocks of the output.

    Blocks are numbered columns first, then rows, then batch. Data: out, a, b, added and
    sums, and what the epilogue takes, of each of which there are two more integers: elements
    from row to row, and from batch to batch. ``added`` and ``sums`` are of the type of
    the sums; the latter are where sums wait while there is more depth, if that cannot be
    in ``out``.

    Args:
        add: what multiplies and adds vectors of the operands.
        epilogue: of the sums, as `Epilogue`, or None.
        writer: what writes the loops of a block, as `Product` does.
    """
    b = Builder()
    write = writer(b, tile, compute, add)
    n = planned(b, "product")
    p = arrays_of(b, a_type, b_type, compute, epilogue, ARRAYS)
    besides = operands_of(b, epilogue, "product")
    write.begin(a_type, b_type)
    across = blocks_across(b, n)
    down = b.let("down", blocks_of(n["rows"], n["row_block"]))
    with b.loop("chunk", ir.BEGIN, ir.END) as chunk:
        rest = b.let("rest", quotient(chunk, across))
        batch = b.let("batch", quotient(rest, down))
        i0 = b.let("i0", remainder(rest, down) * n["row_block"])
        j0 = b.let("j0", remainder(chunk, across) * n["column_block"])
        height = b.let("height", minimum(n["rows"] - i0, n["row_block"]))
        width = b.let("width", minimum(n["columns"] - j0, n["column_block"]))
        one = Const(i64, 1)
        out, left, right, added, sums = (
            named(
                b,
                key,
                Operand(moved(p[key], batch * n[f"{key}_batch"]), row, column).at(i, j),
            )
            for key, row, column, i, j in (
                ("out", n["out_row"], None, i0, j0),
                ("a", n["a_row"], n["a_column"], i0, 0),
                ("b", n["b_row"], n["b_column"], 0, j0),
                ("added", n["added_row"], one, i0, j0),
                ("sums", n["sums_row"], one, i0, j0),
            )
        )
        here = tuple(one.at(batch, i0, j0) for one in besides)
        if epilogue is None:
            sums = Operand(out.pointer, out.row, one)
        # of one type: sums wait in their results' place, if nothing else does
        whole = epilogue is not None and epilogue.stored == compute.name
        results = Results(out, sums, added, epilogue=epilogue, others=here, whole=whole)
        write.sweep(n, height, width, left, right, results)
    write.end()
    return ir.kernel(name, rolled(b.statements))
