"""Copies of tiles whose elements lie along one loop in the source, along the other in the copy.

A vector is loaded along each of eight lines of the source, the eight are turned in
registers, and stored along as many lines of the copy: no element is moved alone.
"""

import functools

from rushlight.codegen.schedule.register_transpose import transpose
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Type, load
from rushlight.kernels.loop_helpers import rolled

LANES = 8
BYTES = (4, 8)  # of the elements that are turned


class TiledCopy:
    """The kernel, as it is written: data and integers as of an elementwise copy's."""

    def __init__(self, width):
        self.b = b = Builder()
        self.type, self.width = Type(f"uint{8 * width}"), width
        self.out, self.source = (
            b.let(name, ir.argument(k, self.type))
            for k, name in enumerate(("out", "source"))
        )
        self.count, self.out_step, self.step, self.out_line, self.line = (
            b.let("number", ir.integer(k)) for k in range(5)
        )

    def write(self):
        """The statements of the whole kernel."""
        b, width = self.b, self.width
        end = b.declare("turned", ir.BEGIN)
        across = b.let("across", self.count // LANES * LANES)
        with b.when((self.out_step == width) & (self.line == width)):
            b.assign(end, ir.BEGIN + (ir.END - ir.BEGIN) // LANES * LANES)
            with b.loop("row", ir.BEGIN, end, LANES) as row:
                with b.loop("i", 0, across, LANES) as i:
                    self.tile(row, i)
            self.singly(ir.BEGIN, end, across)
        self.singly(end, ir.END, self.count * 0)
        return b.statements

    def tile(self, row, i):
        """Eight rows of eight elements."""
        b = self.b
        lines = [
            b.let("line", load(self.place(False, row, i + k), 0, LANES))
            for k in range(LANES)
        ]
        for k, line in enumerate(transpose(b, lines)):
            b.store(self.place(True, row + k, i), 0, line)

    def singly(self, first, last, start):
        """What is left of some rows from an element on."""
        b = self.b
        with b.loop("row", first, last) as row, b.loop("i", start, self.count) as i:
            value = load(self.place(False, row, i), 0)
            b.store(self.place(True, row, i), 0, value)

    def place(self, written, row, i):
        """Where an element lies."""
        if written:
            return ir.Offset(self.out, row * self.out_line + i * self.out_step)
        return ir.Offset(self.source, row * self.line + i * self.step)


@functools.cache
def turning_kernel(width):
    """The native kernel for elements of so many bytes."""
    from rushlight.codegen.lower import lower

    symbol = f"turned_copy_{8 * width}"

    def write():
        return lower(ir.kernel(symbol, rolled(TiledCopy(width).write())))

    return host.code_cache.native(symbol, "", write)
