"""Attention by blocks: scores of some queries and keys at a time, never all of them.

Forwards, for a block of queries (a chunk of the parallel axis; columns of everything):

    for each block of keys
        scores[k, q] = sum_d key[k, d] query[q, d]         a product
        best, mass   = the largest so far, and the sum of exponentials relative to it
        sums[d, q]   = sums[d, q] exp(best before - best) + sum_k value[k, d] p[k, q]

Lanes are queries: what is found along the keys needs no sums over lanes, and both
products broadcast elements of the keys and values. Backwards, with the logarithm of the
mass known, the weights are made again, and five products lead to the gradients. The
products of a block are turns of one loop, so that their tiles are there once.

Follows Dao et al., "FlashAttention" (2022), and "FlashAttention-2" (2023); products are
those of `kernels.matmul.contraction`, the step of the softmax `online_softmax`.
"""

import functools
import math
from contextlib import contextmanager
from functools import partial

from rushlight.codegen.lower import lower
from rushlight.codegen.math import exponential
from rushlight.codegen.schedule.contraction import matrix_tile
from rushlight.codegen.schedule.register_transpose import transpose
from rushlight.codegen.target import current
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import (
    Broadcast,
    Call,
    Const,
    Ramp,
    Reinterpret,
    Select,
    Type,
    cast,
    f64,
    i32,
    i64,
    load,
)
from rushlight.kernels.attention.online_softmax import LOWEST, soften
from rushlight.kernels.loop_helpers import (
    Operand,
    blocks_of,
    either,
    lane_mask,
    minimum,
    moved,
    multiply_add,
    quotient,
    remainder,
    rolled,
)
from rushlight.kernels.matmul.contraction import Product, Results

QUERIES = 64  # of a block: rows of panels are as long
SEVERAL = 4  # blocks of queries that at most go past a block of keys together
KEYS = 64
MOST = 512  # elements of a query, of a key and of a value
SMALLEST = {"float32": -87.0, "float64": -708.0}  # exponentials of less are nothing

STEPS = ("batch", "head", "row", "column")
SIZES = "heads shared queries keys depth width causal parts several scale".split()
FORWARD = ("out", "query", "key", "value", "mask")
BACKWARD = (
    *("grad_query", "grad_key", "grad_value"),
    *("grad", "out", "query", "key", "value", "mask"),
)
MASKS = {"": None, "bool": "uint8"}  # what a mask is read as; else its own dtype


class Attention:
    """The words of both directions: operands, rooms, and what is done to a block.

    Attributes:
        operands: those that have four steps each among the integers, in order; after
            them comes the address of ``log_mass``.
        rooms: what is kept of each block of queries: how much room there is, and how
            much of it is taken for each of the 64 queries. They become attributes.
    """

    operands: tuple = ()
    rooms: dict = {}

    def __init__(self, dtype, compute, mask):
        self.compute = Type(compute)
        self.tile = matrix_tile(compute, current())
        self.lanes = self.tile.lanes
        self.wide = self.compute.vector(self.lanes)
        self.nothing = Const(self.wide, 0)
        b = self.b = Builder()
        self.product = Product(b, self.tile, self.compute)
        self.product.in_cache = True  # blocks are packed, and as large as one
        self.zeros = self.product.zeros()
        self.mask_kind = mask
        self.read_arguments(Type(dtype))
        self.depth_pitch, self.width_pitch = (
            b.let(f"{key}_pitch", blocks_of(self.n[key], Const(i64, self.lanes)))
            * self.lanes
            for key in ("depth", "width")
        )
        self.kept = {
            key: (b.array(key, self.compute, SEVERAL * most), self.room_of(size))
            for key, (most, size) in self.rooms.items()
        }
        self.rows = self.block("rows", QUERIES)
        self.keys, self.values = (
            self.block(key, KEYS) for key in ("keys_here", "values_here")
        )
        self.left_keys = rows_of(self.keys, self.depth_pitch)
        self.left_values = rows_of(self.values, self.width_pitch)
        self.scores = self.scores_room("scores")
        if mask:
            self.mask_rows, self.mask_panel = (
                b.array(key, self.compute, QUERIES * KEYS)
                for key in ("mask_rows", "mask_panel")
            )

    def read_arguments(self, dtype):
        """Names sizes, addresses and steps."""
        b = self.b
        self.n = {key: b.let(key, ir.integer(i)) for i, key in enumerate(SIZES)}
        scale = Reinterpret(f64, self.n["scale"])
        self.scale = b.let("factor", cast(self.compute, scale))
        types = dict.fromkeys(self.operands, dtype)
        types["mask"] = Type(MASKS.get(self.mask_kind, self.mask_kind) or dtype.name)
        types["grad_key"] = types["grad_value"] = self.compute
        self.base, self.steps = {}, {}
        for i, key in enumerate(self.operands):
            self.base[key] = b.let(key, ir.argument(i, types[key]))
            at = len(SIZES) + len(STEPS) * i
            self.steps[key] = [
                b.let(f"{key}_{step}", ir.integer(at + k))
                for k, step in enumerate(STEPS)
            ]
        self.log_mass = b.let("log_mass", ir.argument(len(self.operands), self.compute))

    # ---- rooms

    def room_of(self, size):
        """How many elements of a room belong to one block of queries."""
        each = {"depth": self.depth_pitch, "width": self.width_pitch, "": Const(i64, 1)}
        return each[size] * QUERIES

    def block(self, name, rows):
        """Room for rows of up to as many elements as there may be."""
        return self.b.array(name, self.compute, rows * MOST)

    def scores_room(self, name):
        """Room for a row of queries for each key, and one tile's rows more."""
        return self.b.array(name, self.compute, (KEYS + self.lanes) * QUERIES)

    def at(self, key, batch, head, row) -> Operand:
        """An operand's matrix of a batch and head, from a row on."""
        first, second, third, column = self.steps[key]
        start = batch * first + head * second + row * third
        pointer = self.b.let(f"{key}_here", moved(self.base[key], start))
        return Operand(pointer, third, column)

    # ---- moving

    def vectors(self, count):
        """A loop over vectors of a row."""
        return self.b.loop("j", 0, count, self.lanes)

    def each_vector(self, count, move):
        """``move(j, mask)`` for vectors of a row, without a mask but for the last elements."""
        b, lanes = self.b, self.lanes
        whole = b.let("whole", quotient(count, lanes) * lanes)
        with b.loop("j", 0, whole, lanes) as j:
            move(j, None)
        with b.when(whole < count):
            move(whole, b.let("rest", lane_mask(lanes, count - whole)))

    def read(self, source, room, rows, columns, pitch, change=None):
        """Copies rows of any layout and type to a block, whose pitch is whole vectors."""
        b, lanes = self.b, self.lanes
        change = change or (lambda value: cast(self.compute, value))
        with b.loop("i", 0, rows) as i:
            line = b.let("line", moved(source.pointer, i * source.row))
            target = b.let("target", moved(room, i * pitch))
            with b.when(source.column == 1):
                self.each_vector(
                    columns,
                    lambda j, mask: b.store(
                        target, j, change(load(line, j, lanes, mask=mask))
                    ),
                )
            with b.when(source.column != 1), b.loop("j", 0, columns) as j:
                b.store(target, j, change(load(line, j * source.column)))

    def scaled(self, value):
        """What is read times the scale."""
        return cast(self.compute, value) * spread(self.scale, value)

    def write(self, room, target, rows, columns, pitch):
        """The inverse of `read`, without a change."""
        b, lanes = self.b, self.lanes
        kind = target.pointer.type.element
        with b.loop("i", 0, rows) as i:
            line = b.let("line", moved(room, i * pitch))
            row = b.let("row", moved(target.pointer, i * target.row))
            with b.when(target.column == 1):
                self.each_vector(
                    columns,
                    lambda j, mask: b.store(
                        row, j, cast(kind, load(line, j, lanes)), mask
                    ),
                )
            with b.when(target.column != 1), b.loop("j", 0, columns) as j:
                b.store(row, j * target.column, cast(kind, load(line, j)))

    def transpose_rows(self, source, source_pitch, rows, columns, target, target_pitch):
        """Rows become columns, a square of registers at a time.

        Both rooms have whole squares; what is beyond the last row repeats it.
        """
        b, lanes = self.b, self.lanes
        with b.loop("r", 0, rows, lanes) as r:
            starts = [
                b.let("start", minimum(r + i, rows - 1) * source_pitch)
                for i in range(lanes)
            ]
            with b.loop("c", 0, columns, lanes) as c:
                lines = [b.let("line", load(source, s + c, lanes)) for s in starts]
                to = b.let("to", moved(target, c * target_pitch + r))
                for i, vector in enumerate(transpose(b, lines)):
                    b.store(to, target_pitch * i, vector)

    # ---- what is done to scores

    def exp(self, x):
        """The exponential of what is not positive."""
        small = x < SMALLEST[self.compute.name]
        return ir.select(small, 0.0, exponential.exp_in_range(x))

    def read_mask(self, batch, head):
        """The mask of a block: a panel of keys, or a column where queries share it."""
        b, kind = self.b, self.mask_kind

        def change(value):
            if kind != "bool":
                return cast(self.compute, value)
            zero = self.wide if value.type.lanes > 1 else self.compute
            return Select(value != 0, Const(zero, 0), Const(zero, LOWEST))

        source_at = self.at("mask", batch, head, self.q0)
        start = moved(source_at.pointer, self.k0 * source_at.column)
        source_at = Operand(b.let("mask_there", start), source_at.row, source_at.column)
        self.shared_mask = b.let("mask_shared", source_at.row == 0)
        rows = Select(self.shared_mask, Const(i64, 1), self.count)
        rows, pitch = b.let("mask_rows", rows), Const(i64, KEYS)
        self.read(source_at, self.mask_rows, rows, self.here, pitch, change)
        with b.when(~self.shared_mask):
            panel = self.mask_panel, Const(i64, QUERIES)
            self.transpose_rows(self.mask_rows, pitch, rows, self.here, *panel)

    def add_mask(self):
        """Scores with the mask that was read."""
        b, lanes = self.b, self.lanes

        def masked(value, other):
            if self.mask_kind == "bool":
                return Select(other < 0.0, other, value)
            return value + other

        with b.loop("k", 0, self.here) as k:
            line = b.let("line", moved(self.scores, k * QUERIES))
            with b.when(self.shared_mask):
                one = b.let("one", Broadcast(lanes, load(self.mask_rows, k)))
                with self.vectors(self.width) as j:
                    b.store(line, j, masked(load(line, j, lanes), one))
            with b.otherwise():
                other = b.let("other", moved(self.mask_panel, k * QUERIES))
                with self.vectors(self.width) as j:
                    value = masked(load(line, j, lanes), load(other, j, lanes))
                    b.store(line, j, value)

    def hide_later(self):
        """Scores of keys that come after their query are as low as can be."""
        b, lanes, q0, k0 = self.b, self.lanes, self.q0, self.k0
        lowest = Const(self.wide, LOWEST)
        with (
            b.when((self.n["causal"] != 0) & (k0 + self.here > q0 + 1)),
            b.loop("k", 0, self.here) as k,
        ):
            line = b.let("line", moved(self.scores, k * QUERIES))
            first = b.let("first_query", Broadcast(lanes, cast(i32, k0 + k - q0)))
            with self.vectors(self.width) as j:
                hidden = Ramp(lanes, cast(i32, j), Const(i32, 1)) < first
                b.store(line, j, Select(hidden, lowest, load(line, j, lanes)))

    def change_scores(self, batch, head):
        """Scores as the softmax sees them."""
        if self.mask_kind:
            self.read_mask(batch, head)
            self.add_mask()
        self.hide_later()

    def scale_sums(self, j, height, factor):
        """A vector of each row of sums, multiplied."""
        b = self.b
        with b.loop("d", 0, height) as d:
            at = b.let("at", d * QUERIES + j)
            b.store(self.sums, at, load(self.sums, at, self.lanes) * factor)

    # ---- blocks

    @contextmanager
    def each_block(self, q0):
        """A loop over the blocks of queries of a chunk, from the first query on."""
        b, n = self.b, self.n
        rest = minimum(n["queries"] - q0, n["several"] * QUERIES)
        with b.loop("block", 0, blocks_of(rest, Const(i64, QUERIES))) as block:
            for key, (room, size) in self.kept.items():
                setattr(self, key, b.let(key, moved(room, block * size)))
            self.q0 = b.let("query", q0 + block * QUERIES)
            count = minimum(n["queries"] - self.q0, Const(i64, QUERIES))
            self.count = b.let("count", count)
            vectors = blocks_of(self.count, Const(i64, self.lanes))
            self.width = b.let("across", vectors * self.lanes)
            yield

    def seen_by(self, last):
        """How many keys the queries before one see."""
        near = minimum(self.n["keys"], last)
        return Select(self.n["causal"] != 0, near, self.n["keys"])

    def read_queries(self, batch, head, rows):
        """The panel of a block of queries."""
        source_at = self.at("query", batch, head, self.q0)
        pitch, depth = self.depth_pitch, self.n["depth"]
        self.read(source_at, rows, self.count, depth, pitch, self.scaled)
        self.transpose_rows(
            rows, pitch, self.count, depth, self.query, Const(i64, QUERIES)
        )

    @contextmanager
    def each_pair(self, batch, group, q0):
        """Loops over blocks of keys, and over the blocks of queries that see them."""
        b, n = self.b, self.n
        last = minimum(n["queries"], q0 + n["several"] * QUERIES)
        seen = b.let("seen", self.seen_by(last))
        with b.loop("k0", 0, seen, KEYS) as k0:
            self.k0, self.first = k0, b.let("first", k0 == 0)
            self.here = b.let("here", minimum(seen - k0, Const(i64, KEYS)))
            self.read_keys(batch, group)
            with self.each_block(q0), b.when(k0 < self.seen_by(self.q0 + self.count)):
                yield

    def read_keys(self, batch, group):
        """A block of keys and values."""
        for key, room, size, pitch in (
            ("key", self.keys, self.n["depth"], self.depth_pitch),
            ("value", self.values, self.n["width"], self.width_pitch),
        ):
            source_at = self.at(key, batch, group, self.k0)
            self.read(source_at, room, self.here, size, pitch)

    def put(self, key, batch, head, size, pitch):
        """The sums, turned, to the block of an operand that they belong to."""
        self.transpose_rows(
            self.sums, Const(i64, QUERIES), size, self.count, self.rows, pitch
        )
        source_at = self.at(key, batch, head, self.q0)
        self.write(self.rows, source_at, self.count, size, pitch)

    # ---- products

    def run_products(self, products, between):
        """Products one after the other, as turns of one loop.

        Args:
            products: for each the rows, columns and depth, the operands, where sums go,
                and where they begin.
            between: called with the number of a turn, as an expression, after it.
        """
        b = self.b
        with b.loop("turn", 0, len(products)) as iteration:

            def chosen(name, values):
                value = values[-1]
                for k in range(len(values) - 2, -1, -1):
                    value = Select(iteration == k, values[k], value)
                return b.let(name, value)

            def operand(name, given):
                one = Const(i64, 1)
                return Operand(
                    chosen(name, [o.pointer for o in given]),
                    chosen(f"{name}_row", [o.row for o in given]),
                    chosen(
                        f"{name}_column",
                        [one if o.column is None else o.column for o in given],
                    ),
                )

            sizes, left, right, out, added = zip(*products, strict=True)
            height, width, depth = (
                chosen(name, values)
                for name, values in zip(
                    ("height", "width", "depth"), zip(*sizes, strict=True), strict=True
                )
            )
            left, right, out, added = map(
                operand, ("left", "right", "sums", "addend"), (left, right, out, added)
            )
            self.product.block(
                height,
                width,
                depth,
                lambda i, rows: left.at(i, 0),
                lambda j: Operand(moved(right.pointer, j), right.row),
                Results(out, out, added),
            )
            between(iteration)

    def kernel(self, name):
        """The kernel, once its chunks are written."""
        with self.b.loop("chunk", ir.BEGIN, ir.END) as chunk:
            self.write_chunk(chunk)
        return lower(ir.kernel(name, rolled(self.b.statements)))


def spread(value, like):
    """A scalar in as many lanes as another value has."""
    return value if like.type.lanes == 1 else Broadcast(like.type.lanes, value)


def rows_of(pointer, pitch):
    """A room as an operand with adjacent columns."""
    pitch = Const(i64, pitch) if isinstance(pitch, int) else pitch
    return Operand(pointer, pitch, Const(i64, 1))


def transposed(operand):
    """The operand with rows for columns."""
    return Operand(operand.pointer, operand.column, operand.row)


class Forward(Attention):
    """Results; chunks are blocks of queries, then heads, then batches."""

    operands = FORWARD
    rooms = {
        "query": (MOST * QUERIES, "depth"),
        "sums": (MOST * QUERIES, "width"),
        "best": (QUERIES, ""),
        "mass": (QUERIES, ""),
    }

    def write_chunk(self, chunk):
        """The results of some blocks of queries."""
        b, n = self.b, self.n
        chunks = b.let("chunks", blocks_of(n["queries"], n["several"] * QUERIES))
        rest = b.let("rest", quotient(chunk, chunks))
        q0 = b.let("q0", remainder(chunk, chunks) * n["several"] * QUERIES)
        head = b.let("head", remainder(rest, n["heads"]))
        batch = b.let("batch", quotient(rest, n["heads"]))
        group = b.let("group", quotient(head, n["shared"]))
        with self.each_block(q0):
            self.read_queries(batch, head, self.rows)
            with self.vectors(self.width) as j:
                b.store(self.best, j, Const(self.wide, LOWEST))
                b.store(self.mass, j, self.nothing)
        with self.each_pair(batch, group, q0):
            self.multiply(batch, head)
        with self.each_block(q0):
            self.finish(rest * n["queries"] + self.q0)
            self.put("out", batch, head, n["width"], self.width_pitch)

    def multiply(self, batch, head):
        """Both products of a block of keys."""
        n, first = self.n, self.first
        panel, scores = rows_of(self.sums, QUERIES), rows_of(self.scores, QUERIES)
        begin = either(first, self.zeros, panel)
        query = rows_of(self.query, QUERIES)
        products = [
            ((self.here, self.width, n["depth"]), self.left_keys, query, scores)
            + (self.zeros,),
            ((n["width"], self.width, self.here), transposed(self.left_values), scores)
            + (panel, begin),
        ]

        def between(iteration):
            with self.b.when(iteration == 0):
                self.change_scores(batch, head)
                self.soften()

        self.run_products(products, between)

    def soften(self):
        """Scores become weights relative to the largest so far, as do sums."""
        b, lanes, scores = self.b, self.lanes, self.scores
        with self.vectors(self.width) as j:

            def each():
                with b.loop("k", 0, self.here) as k:
                    at = b.let("at", k * QUERIES + j)
                    score = b.let("score", load(scores, at, lanes))
                    yield score, partial(b.store, scores, at)

            before = b.let("before", load(self.best, j, lanes))
            mass = load(self.mass, j, lanes)
            top, total, factor = soften(b, each, before, mass, self.exp)
            b.store(self.best, j, top + self.nothing)
            b.store(self.mass, j, total + self.nothing)
            with b.when(~self.first):
                self.scale_sums(j, self.n["width"], factor)

    def finish(self, place):
        """Sums become results, and their mass its logarithm."""
        b, lanes = self.b, self.lanes
        logs = b.let("log_here", moved(self.log_mass, place))
        with self.vectors(self.width) as j:
            total = b.let("total", load(self.mass, j, lanes))
            inverse = Select(total == self.nothing, self.nothing, 1.0 / total)
            share = b.let("share", inverse)
            rest = b.let("rest_mask", lane_mask(lanes, self.count - j))
            log = load(self.best, j, lanes) + Call("log", self.wide, total)
            b.store(logs, j, log, rest)
            self.scale_sums(j, self.n["width"], share)


class Backward(Attention):
    """Gradients; chunks are parts of the queries, then groups of heads, then batches.

    ``grad_key`` and ``grad_value`` have a matrix for each part, one below the other, of
    the type of the sums and zero before; the parts take turns at blocks of queries.
    """

    operands = BACKWARD
    rooms = {
        "query": (MOST * QUERIES, "depth"),
        "query_rows": (MOST * QUERIES, "depth"),
        "grad": (MOST * QUERIES, "width"),
        "grad_rows": (MOST * QUERIES, "width"),
        "sums": (MOST * QUERIES, "depth"),
        "logs": (QUERIES, ""),
        "along": (QUERIES, ""),
    }

    def __init__(self, dtype, compute, mask):
        super().__init__(dtype, compute, mask)
        self.slopes = self.scores_room("slopes")

    def write_chunk(self, chunk):
        """What a part of the queries of a group of heads gives."""
        b, n = self.b, self.n
        part = b.let("part", remainder(chunk, n["parts"]))
        rest = b.let("rest", quotient(chunk, n["parts"]))
        groups = b.let("groups", quotient(n["heads"], n["shared"]))
        group = b.let("group", remainder(rest, groups))
        batch = b.let("batch", quotient(rest, groups))
        self.totals = [
            self.at(key, batch, group, part * n["keys"])
            for key in ("grad_key", "grad_value")
        ]
        span = b.let("span", n["several"] * QUERIES)
        step = n["parts"] * span
        with (
            b.loop("each", 0, n["shared"]) as each,
            b.loop("q0", part * span, n["queries"], step) as q0,
        ):
            head = b.let("head", group * n["shared"] + each)
            with self.each_block(q0):
                self.read_queries(batch, head, self.query_rows)
                self.read_gradients(batch, head)
            with self.each_pair(batch, group, q0):
                self.multiply(batch, head)
            with self.each_block(q0):
                with self.vectors(self.width) as j:
                    self.scale_sums(j, n["depth"], spread(self.scale, self.nothing))
                self.put("grad_query", batch, head, n["depth"], self.depth_pitch)

    def read_gradients(self, batch, head):
        """The gradient's panel, and what every weight's slope is judged against."""
        b, n, lanes = self.b, self.n, self.lanes
        width, pitch = n["width"], self.width_pitch
        for key, rows in (("grad", self.grad_rows), ("out", self.rows)):
            source_at = self.at(key, batch, head, self.q0)
            self.read(source_at, rows, self.count, width, pitch)
        panel = self.grad, Const(i64, QUERIES)
        self.transpose_rows(self.grad_rows, pitch, self.count, width, *panel)
        start = (batch * n["heads"] + head) * n["queries"] + self.q0
        known = b.let("log_here", moved(self.log_mass, start))
        unseen = Const(self.compute, math.inf)
        with b.loop("i", 0, QUERIES) as i:
            b.store(self.logs, i, unseen)
            b.store(self.along, i, Const(self.compute, 0))
        with b.loop("i", 0, self.count) as i:
            value = b.let("value", load(known, i))
            b.store(self.logs, i, Select(value == LOWEST, unseen, value))
            total = b.declare("total", self.nothing)
            with self.vectors(width) as j:
                left = b.let("left", lane_mask(lanes, width - j))
                x, y = (
                    load(rows, i * pitch + j, lanes, mask=left)
                    for rows in (self.grad_rows, self.rows)
                )
                b.assign(total, multiply_add(x, y, total))
            b.store(self.along, i, Call("reduce_add", self.compute, total))

    def multiply(self, batch, head):
        """The five products of a block of keys."""
        b, n = self.b, self.n
        panel, scores, slopes, query, grad = (
            rows_of(room, QUERIES)
            for room in (self.sums, self.scores, self.slopes, self.query, self.grad)
        )
        query_rows = rows_of(self.query_rows, self.depth_pitch)
        grad_rows = rows_of(self.grad_rows, self.width_pitch)
        keys, values = (
            rows_of(b.let("there", moved(o.pointer, self.k0 * o.row)), o.row)
            for o in self.totals
        )
        begin = either(self.first, self.zeros, panel)
        here, depth, width = self.here, n["depth"], n["width"]
        products = [
            ((here, self.width, depth), self.left_keys, query, scores, self.zeros),
            ((here, self.width, width), self.left_values, grad, slopes, self.zeros),
            ((here, width, self.count), scores, grad_rows, values, values),
            ((here, depth, self.count), slopes, query_rows, keys, keys),
            (
                (depth, self.width, here),
                transposed(self.left_keys),
                slopes,
                panel,
                begin,
            ),
        ]

        def between(iteration):
            with b.when(iteration == 1):
                self.change_scores(batch, head)
                self.differentiate()

        self.run_products(products, between)

    def differentiate(self):
        """Scores become weights, and slopes of weights those of scores."""
        b, lanes = self.b, self.lanes
        with b.loop("k", 0, self.here) as k, self.vectors(self.width) as j:
            at = b.let("at", k * QUERIES + j)
            score = load(self.scores, at, lanes)
            weight = b.let("weight", self.exp(score - load(self.logs, j, lanes)))
            b.store(self.scores, at, weight)
            slope = load(self.slopes, at, lanes) - load(self.along, j, lanes)
            b.store(self.slopes, at, weight * slope)


@functools.cache
def attention_kernel(kind, dtype, compute, mask):
    """A native kernel, from the cache or built.

    Args:
        kind: ``forward`` or ``backward``.
        mask: the mask's dtype, or "".
    """
    name = f"attention_{kind}_{dtype}" + (f"_{mask}" if mask else "")
    direction = {"forward": Forward, "backward": Backward}[kind]
    return host.code_cache.native(
        name, "", lambda: direction(dtype, compute, mask).kernel(name)
    )
