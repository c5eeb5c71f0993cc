"""Fourier transforms of many short lines: each stays in registers from load to store.

As many lines as a vector has lanes are loaded whole and turned: then vectors run over
lines, a vector for each part of each element.

    load        lines as they lie, a vector or more each
    turn        as many vectors as lanes, log2(lanes) rounds of shuffles
    transform   the butterflies of `spectral_kernels`, on the vectors
    turn, store the other way round, scaled
"""

import functools

from rushlight.codegen.schedule.register_transpose import transpose
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.expr import Broadcast, Const, Type, load
from rushlight.kernels.fft.fft_radix import entangled, lanes_of, small_transform
from rushlight.kernels.loop_helpers import moved, rolled

SIZES = (8, 16)  # of which a line fills whole vectors, and its parts the registers


class Short:
    """The kernel of lines of one size, as it is written.

    Data: the result, the source, the scale, roots of one for twice the size. Integers:
    steps from line to line in the source and in the result, in real numbers; elements of
    a line are adjacent in both. An item is a block of lines, as many as a vector has
    lanes.

    Args:
        paired: whether the result is the first half of a real line of twice the length.
    """

    def __init__(self, type, size, forward, paired):
        self.b = b = Builder()
        self.type, self.size = type, size
        self.order = (0, 1) if forward else (1, 0)  # inverses swap the parts
        self.paired = paired
        self.lanes = lanes_of(type.itemsize)
        names = ("out", "source", "scale", "halves")
        pointers = [b.let(n, ir.argument(k, type)) for k, n in enumerate(names)]
        self.out, self.source, scale, self.halves = pointers
        self.in_line, self.out_line = (b.let("step", ir.integer(k)) for k in range(2))
        self.factor = b.let("factor", self.spread(load(scale, 0)))

    def spread(self, value):
        return Broadcast(self.lanes, value)

    def write(self):
        """The statements of the whole kernel."""
        b = self.b
        with b.loop("block", ir.BEGIN, ir.END) as block:
            first = block * self.lanes
            source = b.let("first", moved(self.source, first * self.in_line))
            out = b.let("result", moved(self.out, first * self.out_line))
            parts = [part for some in self.transposed_in(source) for part in some]
            values = [
                tuple(parts[2 * k + part] for part in self.order)
                for k in range(self.size)
            ]
            self.end(small_transform(b, values), out)
        return b.statements

    def transposed_in(self, source):
        """The parts of some elements after others, a vector over lines for each."""
        b, lanes = self.b, self.lanes
        for start in range(0, 2 * self.size, lanes):
            lines = [
                b.let("line", load(moved(source, self.in_line * k), start, lanes))
                for k in range(lanes)
            ]
            yield transpose(b, lines)

    def transposed_out(self, parts, out, start):
        """The inverse of `transposed_in`, scaled and stored."""
        b = self.b
        parts = [b.let("scaled", part * self.factor) for part in parts]
        for k, line in enumerate(transpose(b, parts)):
            b.store(moved(out, self.out_line * k), start, line)

    def end(self, values, out):
        """Stores a transform that is in registers."""
        if self.paired:
            *values, (last, _) = self.untangled(values)
        parts = [value[part] for value in values for part in self.order]
        for start in range(0, len(parts), self.lanes):
            self.transposed_out(parts[start : start + self.lanes], out, start)
        if self.paired:
            last = self.b.let("last", last * self.factor)
            for k in range(self.lanes):
                row = self.b.let("row", moved(out, self.out_line * k))
                self.b.store(row, 2 * self.size, ir.Extract(k, last))
                self.b.store(row, 2 * self.size + 1, 0.0)

    def untangled(self, values):
        """The first half of a real line's transform, from that of its pairs."""
        b, size = self.b, self.size
        zero = Const(self.type.vector(self.lanes), 0.0)
        real, imag = values[0]
        result = [None] * (size + 1)
        result[0] = b.let("total", real + imag), zero
        result[size] = b.let("gap", real - imag), zero
        for k in range(1, size // 2 + 1):
            root = tuple(
                b.let("w", self.spread(load(self.halves, k + (size // 2 + 1) * part)))
                for part in range(2)
            )
            ends = entangled(b, values[k], values[size - k], root, False)
            result[k], result[size - k] = ends
        return result


@functools.cache
def short_kernel(name: str, size: int, forward: bool, paired: bool):
    """The native kernel for parts of one type, one size and direction."""
    from rushlight.codegen.lower import lower

    way = "forward" if forward else "back"
    symbol = f"fourier_short_{name}_{size}_{way}{'_paired' * paired}"

    def write():
        body = Short(Type(name), size, forward, paired).write()
        return lower(ir.kernel(symbol, rolled(body)))

    return host.code_cache.native(symbol, "", write)


def transform_short(source, out, count, in_line, out_line, forward, factor, plan):
    """Transforms the first lines of many, in whole blocks; how many they are.

    Args:
        count: of the lines; ``in_line`` and ``out_line`` real numbers lie between them.
        factor: a tensor of what results are multiplied by.
        plan: the `FFTPlan` of a line.
    """
    parts = factor.dtype
    lanes = lanes_of(parts.itemsize)
    blocks = count // lanes
    paired = not source.is_complex()
    kernel = short_kernel(parts.name, plan.size, forward, paired)
    grain = max(1, host.launch.SMALLEST_TASK // (8 * plan.size * lanes))
    operands = (out, source, factor, plan.halves)
    host.launch.launch(kernel, operands, (in_line, out_line), blocks, grain)
    return blocks * lanes
