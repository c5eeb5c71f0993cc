"""Schedules: how the loops of tensor expressions are split, ordered and placed."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.tensor_expressions.expressions import (
    Axis,
    Tensor,
    matches,
    reads,
    reductions,
    substitute,
)


@dataclass(frozen=True, eq=False)
class Split:
    """``parent = outer * factor + inner``; one of factor and parts is given."""

    parent: Axis
    outer: Axis
    inner: Axis
    factor: int | None
    parts: int | None


@dataclass(frozen=True, eq=False)
class Fuse:
    """``fused = first * extent(second) + second``."""

    first: Axis
    second: Axis
    fused: Axis


class Stage:
    """The loops that compute one tensor: a list of axes, outermost first."""

    def __init__(self, schedule, tensor):
        self.schedule, self.tensor = schedule, tensor
        self.body = tensor.body
        self.axis, self.reduce_axis = tensor.axis, tensor.reduce_axis
        self.leaves = [*self.axis, *self.reduce_axis]
        self.relations, self.marks = [], {}
        self.place, self.inlined, self.intrinsic = None, False, None

    def __repr__(self):
        names = ", ".join(axis.name for axis in self.leaves)
        return f"<stage {self.tensor.name}: {names}>"

    def find(self, axis, action):
        """The position of one of this stage's loops.

        Raises:
            ValueError: the axis is not (or no longer) a loop of this stage.
        """
        for position, leaf in enumerate(self.leaves):
            if leaf is axis:
                return position
        raise ValueError(f"{action}: {axis.name} is not a loop of {self!r}")

    def split(self, axis, factor=None, nparts=None):
        """Makes two loops of one: an outer, and an inner of ``factor`` turns."""
        if (factor is None) == (nparts is None):
            raise ValueError("split: give either factor or nparts")
        if (factor or nparts) < 1:
            raise ValueError(f"split: a factor of {factor or nparts}")
        position = self.find(axis, "split")
        size = factor if factor else -(-axis.extent // nparts)
        count = nparts if nparts else -(-axis.extent // factor)
        outer = Axis(f"{axis.name}_outer", count, axis.reduce)
        inner = Axis(f"{axis.name}_inner", size, axis.reduce)
        self.relations.append(Split(axis, outer, inner, factor, nparts))
        self.leaves[position : position + 1] = [outer, inner]
        return outer, inner

    def tile(self, x, y, x_factor, y_factor):
        """Splits two loops and puts both inner ones inside both outer ones."""
        x_outer, x_inner = self.split(x, x_factor)
        y_outer, y_inner = self.split(y, y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner

    def fuse(self, first, second):
        """Makes one loop of two that follow each other."""
        position = self.find(first, "fuse")
        if self.find(second, "fuse") != position + 1 or first.reduce != second.reduce:
            raise ValueError(f"fuse: {second.name} does not follow {first.name}")
        extent = first.extent * second.extent
        fused = Axis(f"{first.name}_{second.name}", extent, first.reduce)
        self.relations.append(Fuse(first, second, fused))
        self.leaves[position : position + 2] = [fused]
        return fused

    def reorder(self, *axes):
        """Puts loops in this order, in the places that they hold together."""
        positions = sorted(self.find(axis, "reorder") for axis in axes)
        if len(set(positions)) != len(axes):
            raise ValueError("reorder: an axis is given twice")
        for position, axis in zip(positions, axes):
            self.leaves[position] = axis

    def mark(self, axis, kind):
        self.find(axis, kind)
        self.marks[id(axis)] = kind

    def vectorize(self, axis):
        """Runs a loop, which must not be a reduction's, in vector lanes."""
        if axis.reduce:
            raise ValueError(
                f"vectorize: {axis.name} sums into one place; vectorise a data axis"
            )
        self.mark(axis, "vectorized")

    def unroll(self, axis):
        """Writes out every turn of a loop."""
        self.mark(axis, "unrolled")

    def parallel(self, axis):
        """Divides the outermost loop among threads."""
        if axis.reduce or self.find(axis, "parallel") != 0:
            raise ValueError(
                f"parallel: {axis.name} is not the outermost data loop of {self!r}"
            )
        self.mark(axis, "parallel")

    def compute_at(self, stage, axis):
        """Computes this tensor inside a loop of its reader, no more than it needs."""
        stage.find(axis, "compute_at")
        self.place = stage, axis

    def compute_root(self):
        """Computes this tensor whole, before its readers."""
        self.place, self.inlined = None, False

    def compute_inline(self):
        """Computes each element again wherever it is read."""
        if reductions(self.body):
            raise ValueError(
                f"compute_inline: {self.tensor.name} is a reduction; use compute_at"
            )
        self.inlined = True

    def tensorize(self, axis, intrinsic):
        """Lets an intrinsic do the loops from ``axis`` inwards.

        Raises:
            ValueError: the loops' sizes or the expression differ from the pattern's.
        """
        inner = self.leaves[self.find(axis, "tensorize") :]
        found = [leaf.extent for leaf in inner]
        wanted = [item.extent for item in intrinsic.axes]
        if found != wanted:
            raise ValueError(
                f"tensorize: the loops from {axis.name} inwards have sizes "
                f"{found}, the intrinsic has {wanted}"
            )
        found = reductions(self.body)
        body = found[0] if len(found) == 1 else self.body
        if not matches(intrinsic.pattern.body, body):
            raise ValueError(
                f"tensorize: {self.tensor.name} computes {self.body!r}, the "
                f"intrinsic computes {intrinsic.pattern.body!r}"
            )
        self.intrinsic = axis, intrinsic


class Schedule:
    """A stage for every tensor that leads to some outputs; readers come later."""

    def __init__(self, outputs):
        self.outputs = outputs
        self.stages = []
        for tensor in outputs:
            self.visit(tensor)

    def visit(self, tensor):
        if tensor.body is None or any(s.tensor is tensor for s in self.stages):
            return
        for read in reads(tensor.body):
            self.visit(read.tensor)
        self.stages.append(Stage(self, tensor))

    def __getitem__(self, tensor) -> Stage:
        for stage in self.stages:
            if stage.tensor is tensor:
                return stage
        raise KeyError(f"{tensor.name} is not computed by this schedule")

    def cache_read(self, tensor, readers) -> Tensor:
        """A copy of a tensor that these readers read instead: place it near them."""
        copy = self.copy_of(tensor, f"{tensor.name}_cache")
        stages = [self[reader] for reader in readers]
        for stage in stages:
            stage.body = redirect(stage.body, tensor, copy)
        position = self.stages.index(stages[0])
        self.stages.insert(position, Stage(self, copy))
        return copy

    def cache_write(self, tensor) -> Tensor:
        """A tensor that takes over the computation; the old one becomes its copy."""
        stage = self[tensor]
        if stage.relations:
            raise ValueError(f"cache_write: {tensor.name} has been split already")
        axes = [Axis(axis.name, axis.extent) for axis in stage.axis]
        values = {id(old): new for old, new in zip(stage.axis, axes)}
        body = substitute(stage.body, values)
        cache = Tensor(f"{tensor.name}_cache", tensor.shape, tensor.type, axes, body)
        stage.body, stage.reduce_axis = cache[tuple(stage.axis)], ()
        stage.leaves = list(stage.axis)
        self.stages.insert(self.stages.index(stage), Stage(self, cache))
        return cache

    def copy_of(self, tensor, name):
        axes = [Axis(f"c{d}", extent) for d, extent in enumerate(tensor.shape)]
        return Tensor(name, tensor.shape, tensor.type, axes, tensor[tuple(axes)])


def redirect(body, tensor, copy):
    """An expression that reads ``copy`` where it read ``tensor``."""
    values = {
        id(read): copy[read.args] for read in reads(body) if read.tensor is tensor
    }
    return substitute(body, values)


def create_schedule(outputs) -> Schedule:
    """The plain schedule: every tensor whole, its loops in the order of its axes."""
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    return Schedule(outputs)
