"""Drawn tensor expressions with NumPy's values beside them, and drawn schedules of them."""

from __future__ import annotations

import numpy as np

from rushlight import te
from rushlight.tensor_expressions.expressions import reads

SHIFTS = -1, 0, 1, 2
# Where an element of ``i, j`` is read, of a stage with so many rows; for indices and arrays
WAYS = (
    lambda i, j, di, dj, rows: (i + di, j + dj),
    lambda i, j, di, dj, rows: (j + di, i + dj),
    lambda i, j, di, dj, rows: (2 * i + di, j // 2),
    lambda i, j, di, dj, rows: (rows - 1 - i, (j + 1) % 3),
    lambda i, j, di, dj, rows: (i // 2 + di, 2 * j + dj),
    lambda i, j, di, dj, rows: ((i + j) // 2, j),
)
# What becomes of two values: expressions, and NumPy's
JOINS = (
    (lambda a, b: a + b, lambda a, b: a + b),
    (lambda a, b: a - b * 0.5, lambda a, b: a - b * np.float32(0.5)),
    (lambda a, b: a * b, lambda a, b: a * b),
    (te.maximum, np.maximum),
    (
        lambda a, b: te.if_then_else(a > b, a, b * 2.0),
        lambda a, b: np.where(a > b, a, b * 2),
    ),
)
REDUCTIONS = (te.sum, np.sum), (te.max, np.max), (te.min, np.min)
OUTSIDE = 0.25


class Stages:
    """A few computations of two dimensions, each of earlier ones.

    Attributes:
        inputs: pairs of a placeholder and its array.
        output: the last one, and its array.
    """

    def __init__(self, draw):
        self.draw = draw
        numbers = np.random.default_rng(draw.randrange(1 << 30))
        self.size = draw.choice((5, 8, 13)), draw.choice((4, 9, 16))
        shapes = [tuple(n + 3 for n in self.size[::step]) for step in (1, -1)]
        arrays = [numbers.standard_normal(shape).astype("f4") for shape in shapes]
        self.inputs = [
            (te.placeholder(array.shape, name=name), array)
            for name, array in zip("xz", arrays)
        ]
        self.known = list(self.inputs)
        for number in range(draw.randint(1, 3)):
            self.known.append(self.stage(f"t{number}"))
        self.output = self.known[-1]

    def stage(self, name):
        draw = self.draw
        shape = tuple(draw.choice((n, n, draw.randint(1, n))) for n in self.size)
        sources = draw.sample(self.known[-4:], 2)
        if self.known[-1] not in sources and len(self.known) > 2:
            sources[0] = self.known[-1]  # nobody is left out
        ways = [
            (draw.choice(WAYS), draw.choice(SHIFTS), draw.choice(SHIFTS)) for _ in "ab"
        ]
        join, reduced = draw.choice(JOINS), draw.choice((None, None, *REDUCTIONS))
        depth = draw.randint(1, 3)
        k = te.reduce_axis((0, depth), name="k")

        def element(i, j):
            values = [
                read(tensor, *way(i, j, *shifts, shape[0]))
                for (tensor, _), (way, *shifts) in zip(sources, ways)
            ]
            value = join[0](*values)
            if reduced is not None:
                value = value + reduced[0](read(sources[0][0], i, j + k), axis=k) * 0.5
            return value

        rows, columns = np.meshgrid(*map(np.arange, shape), indexing="ij")
        values = [
            taken(array, *way(rows, columns, *shifts, shape[0]))
            for (_, array), (way, *shifts) in zip(sources, ways)
        ]
        value = join[1](*values)
        if reduced is not None:
            parts = [taken(sources[0][1], rows, columns + n) for n in range(depth)]
            value = value + reduced[1](np.stack(parts), 0) * np.float32(0.5)
        return te.compute(shape, element, name=name), value.astype("f4")


def read(tensor, i, j):
    """An element, or another value where there is none."""
    rows, columns = tensor.shape
    inside = (i >= 0) & (i < rows) & (j >= 0) & (j < columns)
    return te.if_then_else(inside, tensor[i, j], OUTSIDE)


def taken(array, i, j):
    """The same of an array."""
    rows, columns = array.shape
    inside = (i >= 0) & (i < rows) & (j >= 0) & (j < columns)
    found = array[i.clip(0, rows - 1), j.clip(0, columns - 1)]
    return np.where(inside, found, np.float32(OUTSIDE))


def schedule(draw, output, bound):
    """A drawn schedule of an output; what is refused at once is left.

    Args:
        bound: whether loops are bound to a grid's axes.
    """
    s = te.create_schedule(output)
    for stage in reversed(s.stages):
        place(draw, s, stage, output)
        if not stage.inlined:
            rearrange(draw, stage)
            mark(draw, stage, bound)
    return s


def place(draw, s, stage, output):
    """Inlines a stage, computes it in a loop of a later one, or leaves it."""
    after = s.stages[s.stages.index(stage) + 1 :]
    readers = [
        r for r in after if any(one.tensor is stage.tensor for one in reads(r.body))
    ]
    choice = draw.random()
    if stage.tensor is output or choice > 0.75:
        return
    if choice < 0.2 and not stage.reduce_axis:
        stage.compute_inline()
        return
    reader = draw.choice(readers or after)
    if not reader.inlined:
        stage.compute_at(reader, draw.choice(reader.leaves))


def attempt(action, *args, **named):
    """Does what may be refused for this loop."""
    try:
        action(*args, **named)
    except ValueError as error:
        assert "is not a loop" not in str(error)


def rearrange(draw, stage):
    """Splits, fuses and reorders some loops."""
    for _ in range(draw.randint(0, 3)):
        leaves, leaf = list(stage.leaves), draw.choice(stage.leaves)
        choice = draw.random()
        if choice < 0.5:
            attempt(stage.split, leaf, draw.choice((1, 2, 3, 4, 7)))
        elif choice < 0.65:
            attempt(stage.split, leaf, nparts=draw.choice((1, 2, 3)))
        elif choice < 0.8:
            position = draw.randrange(len(leaves) - 1)
            attempt(stage.fuse, *leaves[position : position + 2])
        else:
            draw.shuffle(leaves)
            stage.reorder(*leaves)


def mark(draw, stage, bound):
    """Says of some loops how they run, or binds them."""
    kinds = [stage.vectorize, stage.unroll, stage.parallel]
    for leaf in stage.leaves:
        if draw.random() < 0.3:
            attempt(draw.choice(kinds), leaf)
    if not bound:
        return
    free = [
        leaf
        for leaf in stage.leaves
        if not leaf.reduce and id(leaf) not in stage.marks and leaf.extent <= 16
    ]
    draw.shuffle(free)
    axes = ("blockIdx.x",) if stage.place is None else ()
    for axis, leaf in zip((*axes, "threadIdx.x", "threadIdx.y"), free):
        if draw.random() < 0.7:
            stage.bind(leaf, axis)
    if draw.random() < 0.4:
        stage.set_scope(draw.choice(("shared", "local")))
    if draw.random() < 0.2:
        stage.storage_align(stage.axis[0], 8, draw.randrange(8))
