"""Copies a product's operands to where register tiles read them fastest.

The right operand goes into panels as wide as a tile, row after row, so that a tile reads
adjacent vectors whatever the operand's strides were; a panel is whole, though what is
beyond the operand's last column is of no meaning. The left one is only converted.

Follows the packing of Goto and van de Geijn (2008), and of BLIS.
"""

from rushlight.codegen.schedule.register_transpose import transpose
from rushlight.core.launch_args import RIGHT_MODES
from rushlight.ir.expr import Const, Select, cast, i64, load
from rushlight.kernels.loop_helpers import (
    Operand,
    lane_mask,
    minimum,
    moved,
    quotient,
    remainder,
    vector_loop,
)

STREAMS = 8  # rows that are read at once: as many as a processor follows


class Packers:
    """Writes the loops that pack for one tile and type of sums."""

    def __init__(self, builder, tile, compute):
        self.b, self.tile, self.compute = builder, tile, compute

    def pack_right(self, mode, source, target, depth, width):
        """Copies a block of the right operand to panels, by the given mode."""
        b = self.b
        with b.when(mode == RIGHT_MODES["copied"]):
            self.copy_rows(source, target, depth, width)
        with b.when(mode == RIGHT_MODES["transposed"]):
            self.transpose_columns(source, target, depth, width)
        with b.when(mode == RIGHT_MODES["gathered"]):
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
        """Rows with adjacent columns: a few rows of all panels, then the next ones.

        So many rows are read as streams; a panel alone would be read a line of every page.
        """
        b, tile = self.b, self.tile
        whole = b.let("whole", quotient(width, tile.width) * tile.width)
        rest = b.let("rest", width - whole)
        masks = [
            b.let("mask", lane_mask(tile.lanes, rest - v * tile.lanes))
            for v in range(tile.vectors)
        ]
        with b.loop("k0", 0, depth, STREAMS) as k0:
            some = b.let("some", minimum(k0 + STREAMS, depth))
            with b.loop("panel", 0, whole, tile.width) as panel:
                self.copy_panel(
                    source, target, (k0, some), depth, panel, [None] * tile.vectors
                )
            with b.when(rest > 0):
                self.copy_panel(source, target, (k0, some), depth, whole, masks)

    def copy_panel(self, source, target, rows, depth, panel, masks):
        """Some rows of one panel."""
        b, tile = self.b, self.tile
        with b.loop("k", *rows) as k:
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
            if source.pointer.type.element != self.compute:
                self.convert_columns(source, target, starts, depth, to)
                return
            with b.loop("k", 0, depth, lanes) as k:
                mask = b.let("mask", lane_mask(lanes, depth - k))
                transposed = self.squares(source, starts, k, mask)
                row = b.let("row", moved(target, to + k * panel))
                with b.when(depth - k >= lanes):
                    for i, vector in enumerate(transposed):
                        b.store(row, i * panel, vector)
                with b.otherwise():
                    for i, vector in enumerate(transposed):
                        b.store(square, i * lanes, vector)
                    with b.loop("i", 0, depth - k) as i:
                        b.store(row, i * panel, load(square, i * lanes, lanes))

    def squares(self, source, starts, k, mask=None):
        """A square of lanes turned in registers."""
        lanes = self.tile.lanes
        lines = [load(source.pointer, s + k, lanes, mask=mask) for s in starts]
        lines = [self.b.let("line", cast(self.compute, line)) for line in lines]
        return transpose(self.b, lines)

    def convert_columns(self, source, target, starts, depth, to):
        """The same of another type, of which masks would be a branch for each lane.

        The last square begins where it ends with the depth, and writes some rows again.
        """
        b, lanes, panel = self.b, self.tile.lanes, self.tile.width
        with b.when(depth >= lanes), b.loop("k", 0, depth, lanes) as k:
            first = b.let("first_row", minimum(k, depth - lanes))
            row = b.let("row", moved(target, to + first * panel))
            for i, vector in enumerate(self.squares(source, starts, first)):
                b.store(row, i * panel, vector)
        with b.when(depth < lanes), b.loop("k", 0, depth) as k:
            row = b.let("row", moved(target, to + k * panel))
            for i, start in enumerate(starts):
                b.store(row, i, cast(self.compute, load(source.pointer, start + k)))

    def pack_strips(self, condition, source, target, depth, i, height):
        """A left operand with adjacent rows, copied where a condition holds.

        The first of some strips of rows has all of them copied, a row of the copy for each
        column.

        Args:
            source: the operand from row ``i`` on.
            height: how many rows a block has.
        """
        b, tile = self.b, self.tile
        pitch = tile.strips
        inside = b.let("inside", remainder(i, pitch))
        with b.when(condition & (inside == 0)):
            count = b.let("count", height - i)
            masks = [
                b.let("mask", lane_mask(tile.lanes, count - v))
                for v in range(0, pitch, tile.lanes)
            ]
            with b.loop("k", 0, depth) as k:
                line = b.let("line", moved(source.pointer, k * source.column))
                for v, mask in enumerate(masks):
                    value = load(line, v * tile.lanes, tile.lanes, mask=mask)
                    b.store(target, k * pitch + v * tile.lanes, value)
        step = Const(i64, pitch)
        return Operand(
            b.let("strip", Select(condition, moved(target, inside), source.pointer)),
            source.row,
            b.let("strip_step", Select(condition, step, source.column)),
        )

    def pack_left(self, source, target, depth, rows):
        """A panel of the left operand converted to the type of the sums."""
        b, lanes, pitch = self.b, self.tile.lanes, self.tile.depth
        with b.loop("i", 0, rows) as i:
            line = b.let("line", moved(source.pointer, i * source.row))
            row = b.let("row", moved(target, i * pitch))

            def convert(k, mask, _, line=line, row=row):
                value = load(line, k, lanes, mask=mask)
                b.store(row, k, cast(self.compute, value), mask)

            with b.when(source.column == 1):
                vector_loop(b, "k", 0, depth, lanes, convert)
            with b.otherwise(), b.loop("k", 0, depth) as k:
                value = load(line, k * source.column)
                b.store(row, k, cast(self.compute, value))
        return Operand(target, Const(i64, pitch), Const(i64, 1))
