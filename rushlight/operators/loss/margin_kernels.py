"""The margins between listed classes and the others, row by row."""

from __future__ import annotations

from math import prod

from rushlight.codegen.language import float_of, select
from rushlight.codegen.loops import A, T, i64, loops
from rushlight.core.dtypes import int64
from rushlight.operators.linalg.distances import bits_of_float
from rushlight.operators.loop_calls import (
    expect,
    fault_flag,
    filled,
    fresh,
    name_of,
    refuse_fault,
    run,
)


@loops
def margins_of_one(
    out: "T*",
    slope: "T*",
    x: "T*",
    target: "i64*",
    weight: "T*",
    fault: "i64*",
    size: int,
    margin: int,
    squared: int,
    weighed: int,
    begin: int,
    end: int,
):
    """The same where one class is right; bad labels are reported and count as 0."""
    for row in range(begin, end):
        base = row * size
        label = target[row]
        if label < 0 or label >= size:
            fault[0] = label
            label = i64(0)
        share = A(1) / A(size)
        if weighed:
            share = share * A(weight[label])
        lacking = A(float_of(margin)) - A(x[base + label])
        total = A(0)
        steps = A(0)
        for i in range(size):
            gap = lacking + A(x[base + i])
            counts = (gap > A(0)) & (i != label)
            cost = gap * gap if squared else gap
            step = (gap + gap) * share if squared else share
            step = select(counts, step, A(0))
            total = total + select(counts, cost, A(0))
            steps = steps + step
            slope[base + i] = T(step)
        slope[base + label] = T(-steps)
        out[row] = T(total * share)


@loops
def margins(
    out: "T*",
    slope: "T*",
    marks: "T*",
    x: "T*",
    target: "i64*",
    fault: "i64*",
    size: int,
    begin: int,
    end: int,
):
    """The sum of a row's margins, and its derivatives by the row's elements.

    A row of targets ends at its first negative number; ``marks`` starts with zeros.
    """
    for row in range(begin, end):
        base = row * size
        count = 0
        for k in range(size):
            if target[base + k] < -1 or target[base + k] >= size:
                fault[0] = target[base + k]
                count = size + 1
        while count < size and target[base + count] >= 0:
            marks[base + target[base + count]] = T(1)
            count = count + 1
        count = count if count <= size else 0
        for i in range(size):
            slope[base + i] = T(0)
        share = A(1) / A(size)
        total = A(0)
        for k in range(count):
            place = base + target[base + k]
            lacking = A(1) - A(x[place])
            steps = A(0)
            for i in range(size):
                gap = lacking + A(x[base + i])
                if marks[base + i] == T(0) and gap > A(0):
                    total = total + gap
                    steps = steps + share
                    slope[base + i] = slope[base + i] + T(share)
            slope[place] = slope[place] - T(steps)
        out[row] = T(total / A(size))


def no_class(label, classes, words):
    """The error for a label that is no class."""
    return RuntimeError(f"{words}\n  label: {label}\n  classes: {classes}")


def multilabel_margins(self, target):
    """A loss for each row, and its slope.

    Raises:
        RuntimeError: a label is no class.
    """
    expect(
        "_multilabel_margins", self=(self, self.shape or [1], None),
        target=(target, self.shape, int64),
    )  # fmt: skip
    x, target = self.contiguous(), target.contiguous()
    out, slope = fresh(x, x.shape[:-1]), fresh(x, x.shape)
    marks, size, flag = filled(x, x.shape, 0), x.shape[-1], fault_flag(x)
    rows = prod(x.shape[:-1])
    operands = [out, slope, marks, x, target, flag]
    run(margins, operands, [size], rows, size * 8, T=name_of(x.dtype))
    words = "argument #2 'target' is out of range"
    refuse_fault(flag, "multilabel_margin_loss", no_class, size, words)
    return out, slope


def multi_margins(self, target, p, margin, weight):
    """A loss for each row, and its slope.

    Raises:
        RuntimeError: a label is no class.
    """
    alike = target.numel() == prod(
        self.shape[:-1]
    )  # one row may have a label in a list
    expect(
        "_multi_margins", self=(self, self.shape or [1], None),
        target=(target, None if alike else self.shape[:-1], int64),
        weight=(weight, self.shape[-1:], self.dtype),
    )  # fmt: skip
    x, target = self.contiguous(), target.contiguous()
    weight = None if weight is None else weight.contiguous()
    out, slope = fresh(x, x.shape[:-1]), fresh(x, x.shape)
    size, flag = x.shape[-1], fault_flag(x)
    ints = [size, bits_of_float(margin), int(p == 2), int(weight is not None)]
    operands = [out, slope, x, target, weight, flag]
    run(
        margins_of_one, operands, ints, prod(x.shape[:-1]), size * 4,
        T=name_of(x.dtype), squared=ints[2],
    )  # fmt: skip
    words = "target out of range"
    refuse_fault(flag, "multi_margin_loss", no_class, size, words)
    return out, slope
