"""Attention by the units of warpgroups (PTX's ``wgmma``): results, as in `attention`.

A group has 64 queries in shared memory, where units read them, and slices of 64 keys and
values go past. Its sums lie with lanes as a warp's products do, so that scores are scaled,
hidden and made weights by the same program. Weights are written down for the units to read
as the left factor of the product with values. Lines are of 64 halves, mixed as units read
them fastest; see `rushlight.kernels.matmul.wgmma`.

Follows Shah et al., "FlashAttention-3" (2024), without its two groups that take turns.
"""

from dataclasses import replace

from rushlight.codegen.emit.reference_groups import (
    DEPTH,
    GROUP,
    ROWS,
    RUN,
    SMEM_ALIGNMENT,
)
from rushlight.ir import expr as ir
from rushlight.ir.expr import Pointer, Var, f32, u32
from rushlight.kernels.attention import device_attention
from rushlight.kernels.attention.device_attention import UNIT_ROWS, AttentionTile
from rushlight.kernels.attention.mma_blocks import STAGES, WARP

SQUARE = ROWS * DEPTH  # halves of 64 lines
RUNS = DEPTH // RUN  # of a line
MOST = 128  # elements of a query or a value
WARPS = 8  # of a block: two groups
BLOCKS = 2  # of few sums: one makes weights while units multiply for the other


def tile_for(depth, width) -> AttentionTile:
    """The tile for sizes of heads, whose lines have zeros behind.

    >>> tile_for(64, 72)
    AttentionTile(slice=64, depth=64, width=128, warps=8)
    """
    depth, width = (-(-size // DEPTH) * DEPTH for size in (depth, width))
    return AttentionTile(DEPTH, depth, width, WARPS)


def shared_of(tile):
    """Bytes of shared memory of a block."""
    passing = STAGES * (tile.depth + tile.width) * tile.slice
    return 2 * (passing + tile.rows * (tile.depth + tile.slice))


def forward(name, element, tile, mask=None, dropout=False) -> ir.Function:
    """As `attention.forward`, of halves."""
    made = device_attention.forward(name, element, tile, mask, dropout, Groups)
    return replace(made, blocks=BLOCKS if tile.width <= DEPTH else 1)


class Groups(device_attention.Forward):
    """Writes the program of one block of queries of two groups."""

    def rooms(self):
        """Room for queries, weights, and both stages of keys and values."""
        b, tile = self.b, self.tile
        self.which = b.let("which", self.thread // GROUP)
        sizes = {
            "query": tile.rows * tile.depth,
            "weight": tile.rows * tile.slice,
            "key": STAGES * tile.slice * tile.depth,
            "value": STAGES * tile.slice * tile.width,
        }
        self.lines = {}
        for name, size in sizes.items():
            var = Var(b.fresh(f"{name}_lines"), Pointer(self.element))
            b.add(ir.Array(var, size, alignment=SMEM_ALIGNMENT, shared=True))
            self.lines[name] = var

    def bring_lines(self, name, place, rows, first, count, columns):
        """Asks for rows of an operand as lines, 64 by 64; zeros outside of it.

        Args:
            place: where they begin in the operand's room.
            count, columns: how many rows, and of how many elements each.
        """
        b, per_row = self.b, columns // RUN
        iterations = count * per_row // self.threads
        with b.loop("turn", 0, iterations, kind="rolled") as iteration:
            number = b.let("number", self.thread + iteration * self.threads)
            i, run = b.let("i", number // per_row), b.let("run", number % per_row)
            square = i // ROWS * (columns // DEPTH) + run // RUNS
            mixed = (run % RUNS) ^ (i % RUNS)
            at = place + square * SQUARE + i % ROWS * DEPTH + mixed * RUN
            self.copy_run(self.lines[name], at, rows, first + i, run * RUN)

    def power(self, x):
        """Two to the power of a number, by the unit of a multiprocessor that has it."""
        return self.b.let("power", ir.Call("exp2_approx", f32, x))

    def larger(self, x, y):
        """The larger of two scores, by the instruction for it."""
        return ir.Binary("fmax", x, y)

    def take_queries(self, queries, first, mine):
        """Asks for the block's queries: groups read them from shared memory."""
        none, tile = ir.Const(ir.i64, 0), self.tile
        self.bring_lines("query", none, queries, first, tile.rows, tile.depth)

    def bring_slice(self, name, stage, rows, start):
        """Asks for a slice of keys or values, as lines."""
        tile = self.tile
        columns = tile.depth if name == "key" else tile.width
        place = self.b.let("stage", stage * (tile.slice * columns))
        self.bring_lines(name, place, rows, start, tile.slice, columns)

    def arrive(self):
        b = self.b
        b.add(ir.AwaitCopies(0))
        b.add(ir.ShowUnits())
        b.add(ir.Barrier())

    def scores(self, lefts, stage):
        """The products of the group's queries and a slice of keys, a lane's by fours."""
        b, tile = self.b, self.tile
        place = b.let("at", stage * (tile.slice * tile.depth))
        sums = ir.Broadcast(tile.slice // 2, ir.Const(f32, 0))
        sums = b.declare("scores", sums)
        begun = b.let("begun", self.which * (ROWS * tile.depth))
        for k in range(tile.depth // DEPTH):
            left = self.lines["query"], begun + k * SQUARE
            right = self.lines["key"], place + k * SQUARE
            asked = ir.GroupProduct((False, False), sums, *left, *right)
            b.assign(sums, asked)
        b.assign(sums, ir.AwaitProducts(0, sums))
        return [
            [b.declare("sum", ir.Extract(4 * n + p, sums)) for p in range(4)]
            for n in range(tile.slice // 8)
        ]

    def note(self, weights):
        """Writes the lanes' weights down as lines of the group's queries."""
        b = self.b
        words = ir.Reinterpret(Pointer(u32), self.lines["weight"])
        row = self.thread // WARP * UNIT_ROWS + self.group
        line = b.let("line", row * DEPTH + 2 * self.pair)
        name = f"packed_{self.element.name}"
        for n, own in enumerate(weights):
            run = b.let("run", (self.group ^ n) * RUN)
            for half in range(2):
                word = ir.Call(name, u32, *own[2 * half : 2 * half + 2])
                place = line + run + 8 * half * DEPTH
                b.store(words, place // 2, b.let("word", word))
        b.add(ir.ShowUnits())
        b.add(ir.Barrier())

    def add_values(self, totals, weights, stage):
        """Adds the product of the group's weights and a slice of values."""
        b, tile = self.b, self.tile
        self.note(weights)
        place = b.let("at", stage * (tile.slice * tile.width))
        joined = joined_lanes([total for own in totals for total in own])
        sums = b.declare("totals", joined)
        left = self.lines["weight"], self.which * SQUARE
        right = self.lines["value"], place
        b.assign(sums, ir.GroupProduct((False, True), sums, *left, *right))
        b.assign(sums, ir.AwaitProducts(0, sums))
        for n, own in enumerate(totals):
            for p, total in enumerate(own):
                b.assign(total, ir.Extract(4 * n + p, sums))


def joined_lanes(values):
    """Scalars, a power of two of them, as lanes of a vector."""
    parts = [ir.Broadcast(2, value) for value in values]
    parts = [
        ir.Shuffle((0, 2), *pair) for pair in zip(parts[::2], parts[1::2], strict=True)
    ]
    while len(parts) > 1:
        lanes = tuple(range(2 * parts[0].type.lanes))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [ir.Shuffle(lanes, *pair) for pair in pairs]
    return parts[0]
