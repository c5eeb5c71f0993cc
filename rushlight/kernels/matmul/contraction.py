"""Matrix products as register tiles: the loops behind mm, bmm, linear and convolution.

``out[i, j] = after(sum_k a[i, k] b[k, j] + added[i, j], ...)``

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

What is behind the sums is any traced expression of them and of further operands; it is
one loop, which the compiler makes vectors of as of any other: over each row of a finished
panel, in place, or over a tile where results are of another type than the sums.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from rushlight.codegen.fingerprint import fingerprint
from rushlight.codegen.frontend.storage import computed
from rushlight.codegen.schedule.contraction import (
    Tile,
    matrix_tile,
    unit_tile,
)
from rushlight.codegen.target import current
from rushlight.core.launch_args import ARRAYS, RIGHT_MODES
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Const, Expr, Select, Type, cast, i64, load
from rushlight.kernels.loop_helpers import (
    Beside,
    Operand,
    apply,
    blocks_of,
    choose,
    lane_mask,
    minimum,
    moved,
    multiply_add,
    multiply_fours,
    multiply_pairs,
    multiply_shorts,
    named,
    planned,
    quotient,
    remainder,
    rolled,
)
from rushlight.kernels.matmul.packing import Packers


@dataclass(frozen=True)
class After:
    """What results go through before they are stored, traced from Python.

    Attributes:
        function: from symbols of the sums and of each other operand to a result; None
            where sums are results but for their type.
        others: pairs of the dtype that an operand holds, and whether it has a value for
            each column, adjacent, or one for each row (residuals and biases, scales).
        stored: the dtype of the results.
    """

    function: Callable | None
    others: tuple
    stored: str

    def apply(self, sums, values):
        """The result as it is stored."""
        read = [
            cast(computed(kind), value)
            for (kind, _), value in zip(self.others, values, strict=True)
        ]
        value = sums if self.function is None else self.function(sums, *read)
        return cast(Type(self.stored), value)


@dataclass
class Results:
    """Where the sums of a block go.

    Attributes:
        out: the results.
        sums: where sums wait for those of the next block of the depth.
        added: what is added to the sums: ``column`` is 0 where a row of it is one tile
            wide and the same for all tiles.
        ended: whether there is no such block.
        after: what makes them results; None where that is what they are.
        others: its operands.
        whole: whether that is done to all columns of a few rows at once, which have
            memory of the same type to wait in.
    """

    out: Operand
    sums: Operand
    added: Operand
    ended: Expr | None = None
    after: After | None = None
    others: tuple = ()
    whole: bool = False

    def at(self, b, i, j) -> Results:
        """The same, from another row and column on."""
        return Results(
            named(b, "there", self.out.at(i, j)),
            named(b, "kept", self.sums.at(i, j)),
            named(b, "addend", self.added.at(i, j)),
            self.ended,
            self.after,
            tuple(other.at(i, j) for other in self.others),
            self.whole,
        )


class Product:
    """Writes the loops of one product with a given tile and accumulation type.

    A tile has one of `Tile.heights` and of `Tile.widths`; a mask may cut a part off one
    that is a lone vector wide. Its sums are stored where they belong, so nothing else
    depends on its size.
    """

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

    def register_tile(self, vectors, lines, right, depth, rows, step, mask=None):
        """As many vectors of sums for each line of the left operand.

        Args:
            rows: for each line, where its sums go, and what is added to them.
            step: elements from one column of the left operand to the next.
            mask: which lanes of a lone vector count; None for all.
        """
        b, lanes = self.b, self.tile.lanes
        zero = Const(self.compute.vector(lanes), 0)
        sums = [[b.declare("sum", zero) for _ in range(vectors)] for _ in lines]
        across, start = (b.declare(name, Const(i64, 0)) for name in ("step", "start"))
        with b.loop("k", 0, depth):
            along = [
                b.let("along", load(right.pointer, start + j * lanes, lanes, mask=mask))
                for j in range(vectors)
            ]
            for line, totals in zip(lines, sums, strict=True):
                value = b.let("value", Broadcast(lanes, load(line, across)))
                for total, other in zip(totals, along, strict=True):
                    b.assign(total, self.add(value, other, total))
            b.assign(across, across + step)
            b.assign(start, start + right.row)
        # All is read before any is stored: of two rows that are one, neither counts twice.
        for (_, added), totals in zip(rows, sums, strict=True):
            for j, total in enumerate(totals):
                b.assign(total, total + load(added, j * lanes, lanes, mask=mask))
        for (target, _), totals in zip(rows, sums, strict=True):
            for j, total in enumerate(totals):
                b.store(target, j * lanes, total, mask)

    def sweep(self, n, height, width, left, right, results):
        """Adds up one block of the output over blocks of the depth.

        Args:
            n: the plan of the product, by name.
            results: where sums go, and what may be added to those of the first block.
        """
        b, tile, compute, room = self.b, self.tile, self.compute, self.room
        begin = either(b, n["added"] != 0, results.added, self.nothing)
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
                there = Operand(moved(source.pointer, start), source.row)
                if room is None:
                    return there
                start = self.pack.packed_index(j, depth)
                packed = Operand(moved(room, start), Const(i64, tile.width))
                if source.pointer.type.element != compute:
                    return packed
                return choose(b, direct, there, packed)

            def left_at(i, rows):
                there = left.at(i, k0)
                if self.converted is not None:
                    return self.pack.pack_left(there, self.converted, depth, rows)
                if self.strips is None:
                    return there
                return self.pack.pack_strips(
                    across, there, self.strips, depth, i, height
                )

            here = Results(
                results.out,
                results.sums,
                either(b, k0 == 0, begin, results.sums),
                b.let("ended", k0 + tile.depth >= n["depth"]),
                results.after,
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
            strip = Strip(self, left(here, rows), rows, depth)
            j = b.declare("j", Const(i64, 0))
            across = results(here) if callable(results) else results.at(b, here, 0)
            with b.repeat(j < width):
                there = b.let("column", j + 0)
                right = named(b, "panel", right_at(there))
                strip.tile(width - there, right, across.at(b, Const(i64, 0), there))
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

    Attributes:
        taken: a local: how many columns the last tile had, or would have had.
    """

    def __init__(self, product, left, rows, depth):
        self.product, self.b, self.depth = product, product.b, depth
        self.rows, self.step = rows, left.column
        self.taken = self.b.declare("taken", Const(i64, 0))
        tile = product.tile
        # What a tile of few rows has too many repeats its first row, to no effect.
        self.places = [
            minimum(Const(i64, k), rows - 1)
            if 0 < k < tile.heights[-1]
            else Const(i64, k)
            for k in range(tile.rows)
        ]
        self.lines = [
            self.b.let("line", moved(left.pointer, left.row * k)) for k in self.places
        ]

    def tile(self, left, right, results):
        """One tile of the columns that are left, and what is behind it."""
        b, tile = self.b, self.product.tile
        left = b.let("left", left)
        target = results.sums
        if results.after is None:
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
            for k in self.places
        ]
        self.heights(tile.heights, left, right, rows)
        if results.after is not None and not results.whole:
            with b.when(results.ended):
                count = b.let("count", minimum(left, self.taken))
                self.finish(count, waiting, results)

    def heights(self, heights, left, right, rows):
        """The tile of as many rows as there are."""
        b, widths = self.b, self.product.tile.widths
        if len(heights) == 1:
            few = sorted({widths[0], 1}, reverse=True)
            self.widths(few, heights[0], left, right, rows)
            return
        with b.when(self.rows == heights[0]):
            self.widths(widths, heights[0], left, right, rows)
        with b.otherwise():
            self.heights(heights[1:], left, right, rows)

    def widths(self, widths, height, left, right, rows):
        """The widest tile that fits, or one vector, of which a mask cuts the end off."""
        b, lanes = self.b, self.product.tile.lanes
        operands = self.lines[:height], right, self.depth, rows[:height], self.step
        if len(widths) == 1:
            mask = b.let("mask", lane_mask(lanes, left))
            self.product.register_tile(1, *operands, mask)
            b.assign(self.taken, Const(i64, lanes))
            return
        with b.when(left >= widths[0] * lanes):
            self.product.register_tile(widths[0], *operands)
            b.assign(self.taken, Const(i64, widths[0] * lanes))
        with b.otherwise():
            self.widths(widths[1:], height, left, right, rows)

    def finish(self, count, sums, results):
        """Makes results of so many columns' sums and writes them."""
        b, after = self.b, results.after
        with b.loop("r", 0, self.rows) as r:
            line = b.let("line", moved(sums.pointer, r * sums.row))
            row = b.let("row", moved(results.out.pointer, r * results.out.row))
            apply(b, after, line, row, count, [o.at(r, 0) for o in results.others])


def product(
    name, a_type, b_type, compute, tile, add=multiply_add, after=None, writer=Product
):
    """The matrix product; the parallel axis counts blocks of the output.

    Blocks are numbered columns first, then rows, then batch. Data: out, a, b, added and
    sums, and what ``after`` takes, of each of which there are two more integers: elements
    from row to row, and from batch to batch. ``added`` and ``sums`` are of the type of
    the sums; the latter are where sums wait while there is more depth, if that cannot be
    in ``out``.

    Args:
        add: what multiplies and adds vectors of the operands.
        after: what is behind the sums, as `After`.
        writer: what writes the loops of a block, as `Product` does.
    """
    b = Builder()
    write = writer(b, tile, compute, add)
    n = planned(b, "product")
    stored = compute if after is None else Type(after.stored)
    types = {"out": stored, "a": a_type, "b": b_type, "added": compute, "sums": compute}
    p = {key: b.let(key, ir.argument(at, types[key])) for key, at in ARRAYS.items()}
    kinds = () if after is None else after.others
    besides = [Beside(b, k, kind, along) for k, (kind, along) in enumerate(kinds)]
    write.begin(a_type, b_type)
    across = b.let("across", blocks_of(n["columns"], n["column_block"]))
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
        if after is None:
            sums = Operand(out.pointer, out.row, one)
        # of one type: sums wait in their results' place, if nothing else does
        whole = after is not None and stored == compute
        results = Results(out, sums, added, after=after, others=here, whole=whole)
        write.sweep(n, height, width, left, right, results)
    write.end()
    return ir.kernel(name, rolled(b.statements))


def either(b, condition, yes, no):
    """One of two addends, known when the kernel runs."""
    return Operand(
        b.let("begin", Select(condition, yes.pointer, no.pointer)),
        b.let("begin_row", Select(condition, yes.row, no.row)),
        b.let("begin_column", Select(condition, yes.column, no.column)),
    )


def ready(function, after):
    """The loops as they are emitted: final as written, but for those that are traced."""
    from rushlight.codegen.lower import lower

    return function if after is None else lower(function)


@functools.cache
def matrix_kernel(kind: str, a_type: str, b_type: str, compute: str):
    """The native kernel of one kind, from the cache or built; see `kernel_after`."""
    return kernel_after(kind, a_type, b_type, compute, "", None)


def kernel_after(kind, a_type, b_type, compute, named_by, after, digest=""):
    """The native kernel of one kind with something traced behind it.

    Args:
        kind: ``product``, ``pairs`` (of bfloat16, held as float32), ``fours`` (of bytes,
            held as int32), ``twos`` (of 16 bits, too), ``tiles_`` and what a unit of tiles
            multiplies (bfloat16 is held
            as int16), ``dot_tiles``, ``dots``, ``combine`` or ``turned_sum``.
        a_type, b_type: what the operands hold.
        compute: what sums are.
        named_by: what the kernel's name ends in.
        after: what is behind the sums, as `After`, or None.
        digest: of all that decides what ``after`` computes.
    """
    from rushlight.kernels import loop_helpers
    from rushlight.kernels.matmul import dot_tiles, packing
    from rushlight.kernels.matmul import gemv as vectors

    types = [Type(a_type), Type(b_type), Type(compute)]
    if kind.startswith("tiles_"):
        return kernel_of_tiles(kind, types, named_by, after, digest)
    name = "_".join([kind, *dict.fromkeys((a_type, b_type, compute))]) + named_by
    write = {
        "product": lambda tile: product(name, *types, tile, after=after),
        "pairs": lambda tile: product(name, *types, tile, multiply_pairs, after),
        "fours": lambda tile: product(name, *types, tile, multiply_fours, after),
        "twos": lambda tile: product(name, *types, tile, multiply_shorts, after),
        "dot_tiles": lambda tile: dot_tiles.dot_tiles(name, *types, tile.lanes, after),
        "dots": lambda tile: vectors.dots(name, *types, tile.lanes, after),
        "combine": lambda tile: vectors.combine(name, *types, tile.lanes, after),
        "turned_sum": lambda tile: vectors.turned_sum(name, types[2], tile.lanes),
    }[kind]
    modules = loop_helpers, packing, vectors, dot_tiles
    files = __file__, *(module.__file__ for module in modules)
    text = "".join(map(host.code_cache.source_digest, files)) + digest
    return host.code_cache.native(
        name, text, lambda: ready(write(matrix_tile(compute, current())), after)
    )


def kernel_of_tiles(kind, types, named_by, after, digest):
    """The same by a unit of tiles."""
    from rushlight.kernels import loop_helpers
    from rushlight.kernels.matmul import amx_tiles

    name = "_".join([kind, *map(str, dict.fromkeys(types))]) + named_by
    step, tile = kind.removeprefix("tiles_"), unit_tile()
    files = __file__, loop_helpers.__file__, amx_tiles.__file__
    text = "".join(map(host.code_cache.source_digest, files)) + digest
    writer = amx_tiles.TileProduct
    return host.code_cache.native(
        name,
        text,
        lambda: ready(product(name, *types, tile, step, after, writer), after),
    )


@functools.cache
def scaled(dtype, sums, added):
    """Finds kernels whose results are multiplied, and a multiple added to them.

    Args:
        added: 1 for an addend of adjacent columns, 0 for a value for each row, -1 for
            none.
    """
    number = sums, False
    others = (number,) if added < 0 else (number, number, (sums, bool(added)))

    def times(total, alpha, beta=None, addend=None):
        product = total * alpha
        return product if addend is None else multiply_add(addend, beta, product)

    after = After(times, others, sums)
    words = {-1: "_times", 0: "_times_and_row", 1: "_times_and_more"}[added]

    @functools.cache
    def find(kind):
        return kernel_after(kind, dtype, dtype, sums, words, after, fingerprint(times))

    return find


def paired(a, b):
    """Whether neighbours along the depth lie together in pairs, in both operands."""
    steps = (*a.stride()[:-1], *b.stride()[:-2], b.stride(-1), a.shape[-1])
    return (
        current().has("dot_bf16")
        and a.stride(-1) == 1
        and b.stride(-2) == 1
        and not any(step & 1 for step in steps)
        and a.shape[-2] > 1
        and b.shape[-1] > 1
        and host.matmul.on_words(a, b)
    )


@functools.cache
def width_of(sums):
    """The columns of a tile, and so of a panel."""
    return matrix_tile(sums, current()).width


@functools.cache
def depth_of(sums):
    """The depth that one block has."""
    return matrix_tile(sums, current()).depth
