"""Kernels of any reduction with any values before and after it.

    def scaled_softmax(x, scale, dim):
        mass = exp(x * scale - largest(x * scale, over=dim))
        return mass / total(mass, over=dim)

A function of symbolic values names what monoids make of a row: `largest`, `smallest`,
`total` and `mean`, or `fold` for any `reduction`. What it computes of inputs before that
is the prologue, what it computes afterwards the epilogue; it may do so again with what
the first states gave. Results with a value for each place and results with one for each
row stand side by side.

`Nest` makes one kernel of such a function for operands of any layout: several loops along
a row, any number of loops over rows. `arrange` finds the loops, and the integers that the
kernel is given, from sizes and strides.
"""

import inspect
from dataclasses import dataclass, replace
from math import prod

from rushlight.codegen.frontend.complexes import Complex
from rushlight.codegen.frontend.front import Front, symbol
from rushlight.codegen.frontend.layouts import Operand, listed
from rushlight.codegen.frontend.monoids import Described, plain
from rushlight.codegen.frontend.nest_loops import (
    CONTIGUOUS,
    LENGTH,
    SHORT,
    SINGLE,
    STRIDED,
    Results,
    kernel,
)
from rushlight.codegen.frontend.pointwise import (
    _as_result,
    _label,
    _parts,
    _symbol,
    described,
)
from rushlight.codegen.frontend.type_support import refuse_stored_only
from rushlight.codegen.schedule.register_transpose import LONGEST
from rushlight.core.roles import host
from rushlight.ir import expr as ir
from rushlight.ir.expr import Along, Var, i64

LOOPS = 3  # along a row


class Axis:
    """Stands for the one axis that a kernel over rows runs along."""

    def __repr__(self):
        return "dim"


ROW = Axis()


def along(op, x) -> Along:
    """What ``"add"``, ``"max"`` or ``"min"`` makes of the values of each row."""
    return Along(plain(op, x.type), 0, x)


def fold(kernel, x, over=ROW, scalar=None) -> tuple:
    """What a `reduction` makes of the values of each row: a tuple of its results.

    Args:
        kernel: what `reduction` made: any monoid, with its ``prepare`` and ``finish``.
        x: the values, real or complex, already in the type to accumulate in.
        over: the row's axis.
        scalar: the reduction's extra number, as a float64 expression or a Python number;
            for means and variances what they are divided by.

    >>> from rushlight.codegen.language import reduction
    >>> @reduction(identity=0)
    ... def sum(left, right):
    ...     return left + right
    >>> fold(sum, Var("x", ir.f32) * 2.0)
    (sum_along(x * 2.0),)
    """
    if over is not ROW:
        raise TypeError("fold(..., over=dim) needs the dim of a kernel over rows")
    is_complex = isinstance(x, Complex)
    monoid = Described(kernel, x.type, is_complex)
    if scalar is not None:
        scalar = ir.as_expr(scalar, ir.f64)
    values = monoid.values(x, scalar)
    leaves = [Along(monoid, leaf, *values) for leaf in range(len(monoid.types))]
    return monoid.finished(leaves, scalar)


class Nest(Front):
    """A kernel over rows for operands of any layout; see `specialize`.

    Its function takes a value for each input and, last, the axis that stands for the
    row (`ROW`), and returns an expression or a tuple of them. A subclass may override
    `expressions` instead, and ``digest`` and ``name`` with it.

    The native code takes the data pointers of outputs, then inputs, and the integers of
    `layouts.Listed`, which `arrange` lists. It handles a range of rows.
    """

    has_rows = True

    def specialize(self, in_dtypes, out_dtypes, compute, layout, static=()):
        """The native kernel for these dtypes and this layout.

        Args:
            in_dtypes: names of the inputs' dtypes.
            out_dtypes: names of the outputs' dtypes; results are cast to them.
            compute: the dtype that inputs are cast to, or a tuple of one for each.
            layout: an `Arranged`, or its ``key``.
            static: values of the function's arguments after the axis.

        Raises:
            NotImplementedError: the type is stored only, and not computed with.
        """
        types = (compute,) if isinstance(compute, str) else compute
        refuse_stored_only(self, types)
        key = layout.key if isinstance(layout, Arranged) else layout
        return self.native(
            tuple(in_dtypes), tuple(out_dtypes), compute, key, tuple(static)
        )

    def kernel_name(self, in_dtypes, out_dtypes, compute, layout, static=()):
        rank, mode, flags = layout
        # An initial tells a word from the others of its place.
        flags = "".join(kind[0] + flag[0] for kind, flag in flags)
        return symbol(
            "nest", self.name, in_dtypes, out_dtypes, compute, f"{rank}{mode}{flags}",
            static,
        )  # fmt: skip

    def expressions(self, in_dtypes, compute, static):
        """The traced results, and the symbolic inputs that they depend on."""
        if isinstance(compute, str):
            compute = (compute,) * len(in_dtypes)
        names = list(inspect.signature(self.function).parameters)
        inputs = [
            _symbol(name, dtype) for name, dtype in zip(names, compute, strict=False)
        ]
        result = self.function(*inputs, ROW, *static)
        results = result if isinstance(result, tuple) else (result,)
        return [_as_result(value, inputs[0]) for value in results], inputs

    def trace(self, in_dtypes, out_dtypes, compute, layout, static=()):
        """The expression as text, and the loops."""
        outputs, inputs = self.expressions(in_dtypes, compute, static)
        name = self.kernel_name(in_dtypes, out_dtypes, compute, layout, static)
        results = results_of(outputs, inputs, out_dtypes, in_dtypes, layout)
        return self.describe(outputs, inputs), kernel(name, *results)

    def program(self, in_dtypes, out_dtypes, compute, layout, static=()):
        """The results, and what reads the kernel's integers."""
        outputs, inputs = self.expressions(in_dtypes, compute, static)
        return results_of(outputs, inputs, out_dtypes, in_dtypes, layout)

    def describe(self, outputs, inputs):
        """The traced function as readable text."""
        names = ", ".join(_label(value) for value in inputs)
        lines = [f"    {line}" for line in described(outputs)]
        return "\n".join([f"def {self.name}({names}):", *lines])


def results_of(outputs, inputs, out_dtypes, in_dtypes, layout):
    """Traced results with their operands, and what reads the kernel's integers.

    Args:
        outputs: expressions, or complex pairs of them.
        inputs: the variables that they are made of.
        layout: the ``key`` of an `Arranged`.
    """
    rank, mode, flags = layout
    operands = [
        Operand(f"out{k}" if len(outputs) > 1 else "out", dtype)
        for k, dtype in enumerate(out_dtypes)
    ]
    for operand, (kind, _) in zip(operands, flags, strict=False):
        operand.everywhere = kind != "row"
    for k, (value, dtype) in enumerate(zip(inputs, in_dtypes, strict=True)):
        kind = flags[len(outputs) + k][0]
        operand = Operand(f"in{k}", dtype, [p.type for p in _parts(value)])
        operand.varies, operand.flat = kind != "row", kind == "outer"
        operands.append(operand)
    results = Results(
        operands,
        [
            operand.storage.split(value)
            for value, operand in zip(outputs, operands, strict=False)
        ],
        [_parts(value) for value in inputs],
    )
    return results, listed(rank, mode, [flag for _, flag in flags])


@dataclass(frozen=True)
class Arranged:
    """Loops for some operands, and what their kernel is to be given.

    Attributes:
        key: how many loops run along a row, how rows are worked on and, for each
            operand, how it varies along the row and from row to row.
        integers: the kernel's integers.
        rows: how many there are: the kernel's range.
        grain: how many rows one thread takes at least.
    """

    key: tuple
    integers: tuple
    rows: int
    grain: int

    def with_short_rows(self):
        """The same for a host's kernel, which turns short rows where that is worth it.

        A kernel that may turn has both ways, so that it serves rows of any length.
        """
        rank, mode, flags = self.key
        if rank > 1 or mode != CONTIGUOUS or self.integers[0] > LONGEST:
            return self
        return replace(self, key=(rank, SHORT, flags))


def arrange(kept, reduced, strides, itemsizes, outputs, ordered=False):
    """The loops of a kernel over rows; None where a row needs more than three.

    Args:
        kept: the sizes that rows are counted by, in any order.
        reduced: the sizes along a row, in the order in which places are counted.
        strides: for each operand, outputs first, its byte strides: for every kept
            dimension, then for every reduced one; 0 where it has one value for all. An
            output with one value for each row has 0 along the row.
        itemsizes: bytes of an element of each operand.
        outputs: how many operands are outputs.
        ordered: whether places must be met in order (`position`, ties); otherwise
            loops along a row go by falling strides.

    >>> found = arrange([8], [100], [(400, 4), (400, 4), (0, 4)], [4, 4, 4], 1)
    >>> found.key
    (1, 'contiguous', (('each', 'general'), ('each', 'general'), ('each', 'shared')))
    >>> found.integers, found.rows
    ((100, 8, 4, 400, 4, 400, 4, 0, 0), 8)
    """
    over, count = len(kept), len(strides)
    rows = [(size, tuple(s[d] for s in strides)) for d, size in enumerate(kept)]
    positions = [
        (size, tuple(s[over + d] for s in strides)) for d, size in enumerate(reduced)
    ]
    wide = range(count)

    def widest(loop):
        return max(map(abs, loop[1])) if loop[1] else 0

    if not ordered:
        positions.sort(key=widest, reverse=True)
    rows.sort(key=widest, reverse=True)
    positions, rows = _merged(positions, wide), _merged(rows, wide)
    positions = positions or [(1, (0,) * count)]
    rows = rows or [(1, (0,) * count)]
    if len(positions) > LOOPS:
        return None
    innermost = positions[-1][1]
    varies = [any(steps[k] for _, steps in positions) for k in wide]
    dense = all(
        not varies[k]
        or innermost[k] == itemsizes[k]
        or (k >= outputs and not innermost[k])
        for k in wide
    )
    # The rows that lie side by side, if any, are the inner ones.
    for d in reversed(range(len(rows))):
        if all(
            rows[d][1][k] == itemsizes[k] or not rows[d][1][k] and k >= outputs
            for k in wide
        ):
            rows.append(rows.pop(d))
            break
    else:
        d = None
    size, near = rows[-1]
    mode = CONTIGUOUS if dense and (positions[-1][0] > 1 or d is None) else SINGLE
    if mode is SINGLE and d is not None:
        mode = STRIDED
    flags = []
    for k in wide:
        kind = "row" if not varies[k] else "each"
        if kind == "each" and not innermost[k]:
            kind = "outer"
        layout_name = "adjacent" if near[k] == itemsizes[k] else "general"
        flags.append((kind, "shared" if near[k] == 0 and k >= outputs else layout_name))
    integers = [*(n for n, _ in positions), size]
    for k in wide:
        integers += [*(steps[k] for _, steps in positions), near[k]]
    more = list(reversed(rows[:-1]))
    integers.append(len(more))
    for n, steps in more:
        integers += [n, *steps]
    total, length = prod(n for n, _ in rows), prod(n for n, _ in positions)
    grain = max(1, host.launch.SMALLEST_TASK // max(1, length))
    if mode is not CONTIGUOUS:
        grain = max(grain, 128)
    return Arranged((len(positions), mode, tuple(flags)), tuple(integers), total, grain)


def _merged(loops, operands):
    """Loops that continue each other as one; outermost first."""
    merged: list = []
    for size, steps in loops:
        if size == 1:
            continue
        if merged:
            before, outer = merged[-1]
            if all(outer[k] == steps[k] * size for k in operands):
                merged[-1] = before * size, steps
                continue
        merged.append((size, steps))
    return merged


def length(over=ROW) -> Var:
    """How many values a row has, as an int64."""
    if over is not ROW:
        raise TypeError("length(over=dim) needs the dim parameter of a rowwise kernel")
    return Var(LENGTH, i64)
