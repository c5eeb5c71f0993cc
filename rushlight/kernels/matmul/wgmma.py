"""Products of matrices of halves by the units of warpgroups (PTX's ``wgmma``).

A group of 128 threads has 64 rows of the block's tile and all its columns. Units read
both factors from shared memory, where slices of them, 64 deep, go past in several
stages: some are being copied while two others are multiplied. A step of the loop has one
barrier, behind which everybody's copies for this step are there, and nobody's units read
any longer what the copies asked for next are written to.

Follows CUTLASS 3's Hopper collectives (`sm90_mma_multistage`, NVIDIA), and its raster order
by bands.
"""

from dataclasses import dataclass

from rushlight.codegen.emit.reference_groups import (
    DEPTH,
    GROUP,
    ROWS,
    RUN,
    SMEM_ALIGNMENT,
)
from rushlight.ir import expr as ir
from rushlight.kernels.matmul import device_tiles
from rushlight.kernels.mma_tiles import place_of_sum

RUNS = DEPTH // RUN  # of a line
LINES = 64  # of a factor that is turned, before the next of its rows
AHEAD = 2  # stages that are multiplied while the others are copied
BAND = 8  # tiles one above the other that blocks take before they go on to the right


@dataclass(frozen=True)
class WarpgroupTile:
    """How a block divides its work.

    Attributes:
        rows, columns: of the result that a block has.
        stages: slices that shared memory holds.
    """

    rows: int
    columns: int
    stages: int = 4
    depth = DEPTH

    @property
    def threads(self):
        """How many threads a block has."""
        return self.rows // ROWS * GROUP

    @property
    def shared(self):
        """Bytes of shared memory of a block."""
        return (self.rows + self.columns) * DEPTH * 2 * self.stages


TILES = WarpgroupTile(128, 256), WarpgroupTile(128, 128), WarpgroupTile(64, 64)
LEAST = 64  # rows, columns and depth for which groups are worth while


def tile_for(rows, columns, batch, processors) -> WarpgroupTile:
    """The largest tile that still gives every multiprocessor one; otherwise the smallest.

    Sums are taken in one order, whatever the tile: bits do not depend on it.

    >>> [tile_for(n, n, 1, 132).columns for n in (8192, 2048, 512)]
    [256, 128, 64]
    """
    for tile in TILES:
        count = -(-rows // tile.rows) * -(-columns // tile.columns) * batch
        if count >= processors:
            return tile
    return TILES[-1]


def transposed(sizes, left, right):
    """Which factors lie along rows (or columns), not the depth; None where groups cannot.

    Copies are of eight halves that lie side by side, and begin at multiples of 16 bytes.

    Args:
        sizes: rows, columns and depth.
        left, right: of both factors, the address and the steps from row to row, column to
            column and in a batch.

    >>> transposed((64, 64, 64), (0, 64, 1, 0), (0, 64, 1, 0))
    (False, True)
    >>> transposed((64, 64, 64), (0, 65, 1, 0), (0, 64, 1, 0)) is None
    True
    """
    if min(sizes) < LEAST:
        return None
    found = []
    for address, across, along, pitch in (left, (right[0], *right[2:0:-1], right[3])):
        side = along != 1
        other = along if side else across
        if side and across != 1 or address % 16 or other % RUN or pitch % RUN:
            return None
        found.append(side)
    return tuple(found)


def product(name, element, tile, transposed, result=None) -> ir.Function:
    """As `tiles.product`, of halves with sums in float32.

    Args:
        transposed: for both factors whether they lie along rows (or columns), not the depth.

    Raises:
        ValueError: copies by all threads, or groups, do not fill the tile.
    """
    lines = tile.threads // RUNS
    if tile.rows % ROWS or tile.columns % lines:
        raise ValueError(
            f"{tile}: groups have {ROWS} rows, and copies are of {lines} lines"
        )

    def writer(*args):
        return Groups(*args, transposed=transposed)

    return device_tiles.product(name, element, ir.f32, tile, writer, result)


class Groups(device_tiles.Writer):
    """Writes the program of one block whose groups multiply by their units."""

    def __init__(self, *args, transposed):
        super().__init__(*args)
        self.transposed = dict(zip(("left", "right"), transposed, strict=True))
        b, thread = self.b, self.thread
        self.group = b.let("group", thread // GROUP)
        # A thread copies the same run of every so many lines, which are mixed alike.
        self.line, self.run = b.let("line", thread // RUNS), b.let("run", thread % RUNS)
        mixed = self.line * DEPTH + (self.run ^ self.line % RUNS) * RUN
        self.own = b.let("own", mixed)

    def kept_type(self, pointers, compute):
        return pointers["left"].type.element

    def room(self, name, count):
        var = ir.Var(self.b.fresh(name), ir.Pointer(self.kept))
        size = self.tile.stages * count * DEPTH
        self.b.add(ir.Array(var, size, alignment=SMEM_ALIGNMENT, shared=True))
        return var

    def place_of(self, at):
        """Bands of tiles: what blocks read that run together is read from the cache."""
        b = self.b
        each = b.let("each", self.across * self.down)
        number, wide = b.let("number", at % each), b.let("wide", self.across * BAND)
        above = b.let("above", number // wide * BAND)
        left = b.let("left_over", self.down - above)
        tall = b.let("tall", ir.select(left < BAND, left, BAND))
        inner = b.let("inner", number % wide)
        return above + inner % tall, inner // tall, at // each

    def multiply(self, first_row, first_column, batch):
        b, tile = self.b, self.tile
        stages, (up, down, _) = tile.stages, self.steps["left"]
        sides = {
            "left": (tile.rows, first_row, self.rows, up, down),
            "right": (
                tile.columns,
                first_column,
                self.columns,
                *self.steps["right"][1::-1],
            ),
        }
        bases = {name: self.base(name, batch) for name in sides}
        count = b.let("count", (self.depth + (DEPTH - 1)) // DEPTH)

        def ask(step):
            with b.when(step < count):
                stage = b.let("stage", step % stages)
                start = b.let("start", step * DEPTH)
                for name, side in sides.items():
                    self.bring(name, bases[name], stage, start, *side)
            b.add(ir.CommitCopies())

        lanes = tile.columns // 2
        sums = b.declare("sums", ir.Broadcast(lanes, ir.Const(ir.f32, 0)))
        ahead = stages - AHEAD
        for step in range(ahead):
            ask(ir.Const(ir.i64, step))
        both = self.transposed["left"], self.transposed["right"]
        with b.loop("step", 0, count, kind="rolled") as step:
            b.add(ir.AwaitCopies(ahead - 1))
            b.add(ir.ShowUnits())
            b.add(ir.Barrier())
            ask(b.let("later", step + ahead))
            stage = b.let("stage", step % stages)
            left = b.let("left_at", (stage * tile.rows + self.group * ROWS) * DEPTH)
            right = b.let("right_at", stage * (tile.columns * DEPTH))
            factors = self.shared["left"], left, self.shared["right"], right
            b.assign(sums, ir.GroupProduct(both, sums, *factors))
            b.assign(sums, ir.AwaitProducts(1, sums))
        b.assign(sums, ir.AwaitProducts(0, sums))
        b.add(ir.Barrier())
        lane = b.let("lane", self.thread % 32)
        row = b.let("row", first_row + self.thread // 32 * 16 + lane // 4)
        column = b.let("column", first_column + lane % 4 * 2)
        self.put_all(
            [
                (b.let("total", ir.Extract(n, sums)), row + down, column + along)
                for n in range(lanes)
                for down, along in [place_of_sum(n)]
            ],
            batch,
        )

    def bring(self, name, base, stage, start, count, first, limit, across, along):
        """Asks for this thread's runs of a slice; zeros outside of the operand.

        Args:
            start: where the slice begins along the depth.
            count: the tile's rows, or columns.
            first, limit: the first of them, and how many the operand has.
            across, along: the operand's steps from row to row and along the depth.
        """
        b, side = self.b, self.transposed[name]
        lines = self.tile.threads // RUNS  # that all threads have a run of
        own = b.let("at", stage * (count * DEPTH) + self.own)
        for line in range(0, count * DEPTH // RUN // RUNS, lines):
            if side:
                block, rest = divmod(line, LINES)
                i, k = first + block * LINES + self.run * RUN, start + self.line + rest
                left, other = limit - i, k < self.depth
                place = i + k * along
            else:
                i, k = first + self.line + line, start + self.run * RUN
                left, other = self.depth - k, i < limit
                place = i * across + k
            some = ir.select(left > 0, left * 2, 0)
            bytes = ir.select(left >= RUN, 2 * RUN, some)
            bytes = b.let("bytes", ir.select(other, bytes, 0))
            place = b.let("place", ir.select(bytes > 0, place, 0))
            copy = self.shared[name], own + line * DEPTH, base, place, bytes
            b.add(ir.CopyAsync(*copy))
