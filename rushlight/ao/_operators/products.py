"""Products of bytes whose sums are scaled, moved and rounded before they are stored.

    out[i, j] = clamp(round((sum_k x[i, k] w[k, j] + offset[j] + bias[j]) factor[j]) + point)

Rows of x are windows of an image, which are read where they lie. Sums are exact in 32
bits. The weight is packed once. What is done to sums is an epilogue of the kernel.
"""

import functools

from rushlight.ao._operators.words_in_threes import grouped
from rushlight.codegen.fingerprint import fingerprint
from rushlight.codegen.language import bits_of, cast, fma, select
from rushlight.core import dtypes
from rushlight.core.dtypes import float32, int8, int32
from rushlight.core.roles import host
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import fresh
from rushlight.operators.matmul import matmul_amx
from rushlight.operators.matmul.matmul_int8 import has_fours, has_sevens

TILED_ROWS = 16  # fewer do not fill a tile
TILED_RUN = 13  # bytes; a tile takes 64 at once, whatever they are


class PackedWeight:
    """Windows of signed bytes, one row an output, as products read them.

    Args:
        rows: int8 of two dimensions: outputs, of one group after another, and the
            elements of a window.
        groups: of outputs.
        runs: how many pieces a window has whose elements lie side by side.

    Attributes:
        sums: of each row, for inputs whose zero point is not zero.
        columns: outputs of a group.
        depth: elements of a window.
        plans: by epilogue and way the kernel, and the weight as it reads it.
    """

    def __init__(self, rows, groups=1, runs=1):
        self.outputs, self.depth = rows.shape
        self.rows, self.groups, self.runs = rows.contiguous(), groups, runs
        self.columns = self.outputs // groups
        self.sums = ops.sum(rows, [1], dtype=int32)
        self.nothing = self.spread(ops.zeros([self.outputs], dtype=int32))
        self.kept = {}
        self.plans = {}

    def spread(self, values):
        """Numbers of the outputs, filled up for each group to whole panels."""
        room = ops.zeros([self.groups, starts_of(self.columns)], dtype=int32)
        room[:, : self.columns] = values.view([self.groups, self.columns])
        return room

    def packed(self, way):
        """The weight in panels of columns, as one of the ways to multiply reads it.

        Returns:
            the operands that it is: the panels, and the order of their words, if any.
        """
        words = words_of(self.depth // self.runs, way)
        kind = way.name if way.name in ("channels", "sevens") else ""
        size = kind, way.columns, words, way.element
        found = self.kept.get(size)
        if found is None:
            found = self.kept[size] = self._pack(way, words)
        return found

    def _pack(self, way, words):
        if way.name == "channels":
            panels = -(-self.outputs // way.columns)
            room = ops.zeros([panels * way.columns, self.depth], dtype=int32)
            room[: self.outputs] = self.rows
            return (room.view([panels, way.columns, self.depth]).mT.contiguous(),)
        run, each = self.depth // self.runs, way.together
        panels = -(-self.columns // way.columns)
        room = ops.zeros(
            [self.groups, panels * way.columns, self.runs, words * each], dtype=int8
        )
        sizes = [self.groups, self.columns, self.runs, run]
        room[:, : self.columns, :, :run] = self.rows.reshape(sizes)
        sizes = [self.groups, panels, way.columns, self.runs, words, each]
        words_first = ops.permute(room.view(sizes), [0, 1, 3, 4, 2, 5])
        kind = int8 if way.element == "uint8" else dtypes.int16
        packed = words_first.to(kind).contiguous()
        return grouped(packed, words * self.runs) if way.name == "sevens" else (packed,)


def starts_of(columns):
    """How many numbers sums of a group begin at: of whole panels, however wide."""
    return -(-columns // 32) * 32


def words_of(run, way):
    """The words of a run of elements."""
    words = -(-run // way.together)
    return -(-words // way.words) * way.words


def _stored(value, point, low, high):
    """Numbers as bytes: bounds of what is rounded are integers, and so those of results."""
    value = select(value < high, value, high)
    value = select(value > low, value, low)
    return bits_of(value + ROUNDER) + point  # whose lowest byte is the result


def requantized(total, bias, factor, point, low, high):
    """Sums as integers of another scale and zero point."""
    return _stored((cast(total, "float32") + bias) * factor, point, low, high)


def requantized_by_rows(total, bias, factor, point, low, high, weight_point, row_sum):
    """The same where the weight's zero points are not zero."""
    total = total - weight_point * row_sum
    return requantized(total, bias, factor, point, low, high)


def numbered(total, sums, bias, weight_scale, scale, point, low):
    """Sums as numbers; what is not above a lower bound is the bound."""
    total = total - sums * point
    value = fma(cast(total, "float32"), weight_scale * scale, bias)
    return select(value < low, low, value)


def numbered_by_rows(
    total, sums, bias, weight_scale, scale, point, low, weight_point, row_sum
):
    """The same where the weight's zero points are not zero."""
    total = total - weight_point * row_sum
    return numbered(total, sums, bias, weight_scale, scale, point, low)


ROUNDER = 12582912.0  # 1.5 * 2**23: added to a small number, it leaves its whole part
_INT, _FLOAT, _ONE, _POINT = (
    ("int32", True), ("float32", True), ("float32", False), ("int32", False)
)  # fmt: skip
_BYTES = _FLOAT, _FLOAT, _POINT, _ONE, _ONE
_NUMBERS = _INT, _FLOAT, _FLOAT, _ONE, _POINT, _ONE
_BY_ROWS = _INT, _POINT  # the last has a value for each row
EPILOGUES = {
    "sums": (None, ()),
    "requantized": (requantized, _BYTES),
    "requantized_by_rows": (requantized_by_rows, (*_BYTES, *_BY_ROWS)),
    "numbered": (numbered, _NUMBERS),
    "numbered_by_rows": (numbered_by_rows, (*_NUMBERS, *_BY_ROWS)),
}


@functools.cache
def way_for(rows, depth, columns, alone, run, narrow=False):
    """How products of these sizes are formed: as tiles, or by words of bytes or shorts.

    Args:
        alone: whether each channel has a window of its own.
        run: elements of a window that lie side by side.
        narrow: whether no byte of the input is above 128.
    """
    from rushlight.kernels.conv.int8_positions import way_of

    if alone:
        return way_of("channels")
    worth = rows >= TILED_ROWS and rows * depth * columns >= matmul_amx.LEAST_WORK
    if worth and run >= TILED_RUN and matmul_amx.has("int8"):
        return way_of("tiles")
    if has_fours():
        return way_of("fours")
    return way_of("sevens" if narrow and has_sevens() else "shorts")


@functools.cache
def _kernel(name, stored, way):
    """The kernel of an epilogue, whose results are of a type, for a way to multiply."""
    from rushlight.codegen.lower import lower
    from rushlight.kernels.conv import int8_conv
    from rushlight.kernels.epilogue import Epilogue

    function, others = EPILOGUES[name]
    epilogue = Epilogue(function, others, stored)
    used = () if function is None else (function, numbered, requantized, _stored)
    by_rows = (len(others) - 1,) if name.endswith("by_rows") else ()
    digest = "".join(map(fingerprint, used))
    step = {"tiles": "tiles_unsigned_fours"}.get(way.name, way.name)
    symbol = f"{step}_{name}_{stored}"  # which begins with what it needs: see `export`

    def write():
        return lower(int8_conv.int8_conv(symbol, way, epilogue, by_rows))

    return host.code_cache.native(symbol, digest, write)


def product(x, windows, weight, name, others, stored, start=None):
    """``epilogue(windows @ weight, *others)``: a row for each window.

    Args:
        x: where the windows lie: a `windows.Room`'s memory.
        windows: a `windows.Windows`.
        weight: a `PackedWeight`.
        name: of an epilogue.
        others: its operands: a value for each output, one, or one for each window.
        start: what sums begin at, as `PackedWeight.spread` has it; None for zero.
        stored: the dtype of the results.
    """
    out = fresh(x, (windows.count, weight.outputs), stored)
    if not windows.count or not weight.outputs:
        return out
    start = weight.nothing if start is None else start
    way = windows.way
    key = name, way.name, way.lanes
    plan = weight.plans.get(key)
    if plan is None:
        plan = _kernel(name, stored.name, way), *weight.packed(way)
        weight.plans[key] = plan
    kernel, panels, *order = plan
    operands = out, x, panels, windows.table, start, *order, *others
    host.launch.launch(kernel, operands, windows.numbers, windows.chunks, windows.grain)
    return out


@functools.lru_cache(256)
def _ones(groups, depth, runs):
    """A weight whose products are the sums of windows."""
    return PackedWeight(ops.full([groups, depth], 1, dtype=int8), groups, runs)


def window_sums(x, windows, weight):
    """The sum of each window, and of each of its groups."""
    ones = _ones(weight.groups, weight.depth, weight.runs)
    return product(x, windows.of(1), ones, "sums", (), int32)


@functools.lru_cache(4096)
def number(value):
    """A number as an operand of an epilogue."""
    return ops.full([], value, dtype=float32)


@functools.lru_cache(512)
def whole_number(value):
    """The same of an integer."""
    return ops.full([], value, dtype=int32)
