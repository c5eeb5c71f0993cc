"""Schedules: how the loops of tensor expressions are split, ordered and placed."""

from dataclasses import dataclass

from rushlight.ir import expr as ir
from rushlight.tensor_expressions.buffers import exceeds
from rushlight.tensor_expressions.expressions import (
    Axis,
    Reduce,
    Tensor,
    matches,
    reads,
    reductions,
    replace_reads,
    substitute,
)
from rushlight.tensor_expressions.threads import AXES, BLOCKS, SCOPES, THREADS


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


def is_reduced(step):
    """Whether a split or fused loop is a reduction's."""
    return (step.parent if isinstance(step, Split) else step.fused).reduce


class Stage:
    """The loops that compute one tensor: a list of axes, outermost first."""

    def __init__(self, schedule, tensor):
        self.schedule, self.tensor = schedule, tensor
        self.body = tensor.body
        self.axis, self.reduce_axis = tensor.axis, tensor.reduce_axis
        self.leaves = [*self.axis, *self.reduce_axis]
        self.relations, self.marks = [], {}
        self.place, self.inlined, self.intrinsic = None, False, None
        self.scope = None  # whose memory it lies in: see `threads.Grid.scope_of`
        self.aligned = {}  # of dimensions: factor and offset, see `Buffer`

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

    def taken(self, axis, action):
        """The position of a loop that becomes others: nothing may have been said of it.

        Raises:
            ValueError: it has been marked, or a stage is computed inside of it.
        """
        position, said = self.find(axis, action), self.marks.get(id(axis))
        if self.intrinsic and self.intrinsic[0] is axis:
            said = "tensorized"
        for stage in self.schedule.stages:
            if stage.place and stage.place[0] is self and stage.place[1] is axis:
                said = f"where {stage.tensor.name} is computed"
        if said:
            raise ValueError(
                f"{action}: {axis.name} of {self.tensor.name} is {said} already\n"
                f"  remedy: {action} it first, then say so of what it becomes"
            )
        return position

    def split(self, axis, factor=None, nparts=None):
        """Makes two loops of one: an outer, and an inner of ``factor`` turns."""
        if (factor is None) == (nparts is None):
            raise ValueError("split: give either factor or nparts")
        given = nparts if factor is None else factor
        if not isinstance(given, int) or given < 1:
            raise ValueError(f"split: {given!r} is no number of turns")
        position = self.taken(axis, "split")
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
        position = self.taken(first, "fuse")
        if self.taken(second, "fuse") != position + 1 or first.reduce != second.reduce:
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

    def bind(self, axis, thread):
        """Lets the blocks or threads of a device's grid be the turns of a loop.

        On the host it stays a loop, the outermost one of blocks divided among threads. The
        threads that a reduction's loop is bound to have a total each, which they join; on
        the host one total takes them all in, in turn.

        Args:
            axis: a loop of this stage.
            thread: ``"blockIdx.x"``, ``"threadIdx.x"``, or one of their ``y`` and ``z``.

        Raises:
            ValueError: there is no such axis of a grid, another loop has it, or blocks
                would be the turns of a reduction.
        """
        self.find(axis, "bind")
        if thread not in AXES:
            raise ValueError(f"bind: no axis {thread!r} of a grid; there are {AXES}")
        if axis.reduce and thread not in THREADS:
            raise ValueError(
                f"bind: {axis.name} sums into one place, which blocks would write at "
                f"once\n  remedy: rfactor({self.tensor.name}, {axis.name}), and bind the "
                "data axis of the partial sums"
            )
        if thread in self.marks.values() and self.marks.get(id(axis)) != thread:
            raise ValueError(f"bind: another loop of {self!r} is {thread} already")
        self.mark(axis, thread)

    def bind_lanes(self, row, column):
        """Lets the lanes of a warp have the elements that tensor cores give them.

        Args:
            row, column: loops of multiples of 16 rows and 8 columns, over what a stage in
                ``"fragment"`` memory has (`te.mma`).
        """
        eighths, group = self.split(row, 8)
        blocks, part = self.split(column, 8)
        pair, neighbor = self.split(part, 2)
        self.reorder(eighths, blocks, neighbor, group, pair)
        self.bind(self.fuse(group, pair), "threadIdx.x")
        for axis in (eighths, blocks, neighbor):
            self.unroll(axis)

    def compute_at(self, stage, axis):
        """Computes this tensor inside a loop of its reader, no more than it needs."""
        self.check_alone("compute_at")
        stage.find(axis, "compute_at")
        self.place = stage, axis

    def check_alone(self, action):
        """Refuses what several tensors that are computed together do not have."""
        if len(self.tensor.results) > 1:
            names = ", ".join(each.name for each in self.tensor.results)
            raise ValueError(
                f"{action}: {names} are computed together, whole\n"
                "  remedy: a te.compute for each"
            )

    def set_scope(self, scope):
        """Says whose memory this tensor lies in on a device; None leaves it to its place.

        Raises:
            ValueError: there is no such scope.
        """
        if scope not in (None, *SCOPES):
            raise ValueError(f"scope: no memory {scope!r}; there are {SCOPES}")
        self.scope = scope

    def storage_align(self, axis, factor, offset=0):
        """Leaves gaps, where this tensor is computed inside of a loop.

        Rows of shared memory that lie a multiple of its 128 bytes apart are in the same
        banks, which answer one thread after another.

        Args:
            axis: a dimension's; its neighbours lie ``factor * n + offset`` elements apart.
            factor, offset: numbers of elements.

        Raises:
            ValueError: it is no axis of the tensor, or the offset is none of the factor's.
        """
        dims = [d for d, item in enumerate(self.axis) if item is axis]
        if not dims or not 0 <= offset < factor:
            raise ValueError(
                f"storage_align: {axis.name} by {factor} and {offset}; an axis of "
                f"{self.tensor.name}, and an offset below the factor"
            )
        self.aligned[dims[0]] = factor, offset

    def compute_root(self):
        """Computes this tensor whole, before its readers."""
        self.place, self.inlined = None, False

    def compute_inline(self):
        """Computes each element again wherever it is read."""
        self.check_alone("compute_inline")
        if reductions(self.body):
            raise ValueError(
                f"compute_inline: {self.tensor.name} is a reduction; use compute_at"
            )
        self.inlined = True

    def batch(self, axis, tensor):
        """Computes a tensor of one dimension more, whose axis is the outermost loop.

        Loops that are divided among threads or blocks are so together with it.
        """
        first = self.leaves[0] if self.leaves else None
        self.tensor, self.axis = tensor, tensor.axis
        self.aligned = {d + 1: gap for d, gap in self.aligned.items()}
        self.leaves.insert(0, axis)
        if self.place:
            return  # in a loop of one that has it
        if self.marks.get(id(first)) == "parallel":
            inside = [
                s for s in self.schedule.stages if s.place and s.place[1] is first
            ]
            del self.marks[id(first)]
            for stage in inside:
                stage.place = None
            fused = self.fuse(axis, first)
            for stage in inside:
                stage.compute_at(self, fused)
            self.parallel(fused)
        free = [block for block in BLOCKS if block not in self.marks.values()]
        if free and len(free) < len(BLOCKS):
            self.bind(axis, free[0])

    def partial_sums(self, item, axis):
        """A tensor of what a reduction comes to in each turn of one of its loops.

        This stage reduces those from now on.
        """
        axes = [Axis(each.name, each.extent) for each in (axis, *self.axis)]
        values = dict(zip(map(id, (axis, *self.axis)), axes))
        others = [leaf for leaf in self.leaves if leaf.reduce and leaf is not axis]
        for leaf in (axis, *others):
            self.taken(leaf, "rfactor")
        inner = [Axis(leaf.name, leaf.extent, reduce=True) for leaf in others]
        values |= dict(zip(map(id, others), inner))
        value, test = item.args[0], None
        for step in reversed(self.relations):
            if isinstance(step, Fuse) and is_reduced(step):
                fused, size = values[id(step.fused)], step.second.extent
                values[id(step.first)] = fused // size
                values[id(step.second)] = fused % size
            elif is_reduced(step):
                outer, size = values[id(step.outer)], step.inner.extent
                values[id(step.parent)] = outer * size + values[id(step.inner)]
                if exceeds(step.outer.extent * size, step.parent.extent):
                    within = values[id(step.parent)] < step.parent.extent
                    test = within if test is None else test & within
        value = substitute(value, values)
        if test is not None:
            value = ir.select(test, value, item.identity)
        body = Reduce(item.op, tuple(inner), value) if inner else value
        shape = tuple(each.extent for each in axes)
        parts = Tensor(f"{self.tensor.name}_parts", shape, item.type, axes, body)
        rest = Reduce(item.op, (axis,), parts[(axis, *self.axis)])
        self.body = substitute(self.body, {id(item): rest})
        self.reduce_axis = (axis,)
        self.leaves = [leaf for leaf in self.leaves if leaf is axis or not leaf.reduce]
        self.relations = [step for step in self.relations if not is_reduced(step)]
        return parts

    def inlined_at(self, read):
        """What is computed where this tensor is read; another tensor's read as it is."""
        if read.tensor is not self.tensor:
            return read
        return substitute(self.body, dict(zip(map(id, self.axis), read.args)))

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
        tensor = tensor.primary
        if tensor.body is None or any(s.tensor is tensor for s in self.stages):
            return
        for read in reads(tensor.body):
            self.visit(read.tensor)
        self.stages.append(Stage(self, tensor))

    def __getitem__(self, tensor) -> Stage:
        for stage in self.stages:
            if stage.tensor is tensor.primary:
                return stage
        raise KeyError(f"{tensor.name} is not computed by this schedule")

    def cache_read(self, tensor, readers, scope=None) -> Tensor:
        """A copy of a tensor that these readers read instead: place it near them.

        Args:
            readers: tensors of this schedule.
            scope: whose memory it lies in on a device, ``"shared"`` by the threads of a
                block or ``"local"`` to each of them; by default as its place says.

        Raises:
            TypeError: ``readers`` are no tensors.
            ValueError: there is no such scope, or one of them does not read the tensor.
        """
        readers = [readers] if isinstance(readers, Tensor) else readers
        if isinstance(readers, str):
            raise TypeError(
                f"cache_read: {readers!r} is no tensor that reads {tensor.name}\n"
                f"  remedy: cache_read({tensor.name}, readers, scope={readers!r})"
            )
        for reader in readers:
            if not any(read.tensor is tensor for read in reads(self[reader].body)):
                raise ValueError(
                    f"cache_read: {reader.name} does not read {tensor.name}"
                )
        copy = self.copy_of(tensor, f"{tensor.name}_cache")
        stages = [self[reader] for reader in readers]
        for stage in stages:
            stage.body = redirect(stage.body, tensor, copy)
        position = min(map(self.stages.index, stages))
        self.stages.insert(position, Stage(self, copy))
        self[copy].set_scope(scope)
        return copy

    def cache_write(self, tensor, scope=None) -> Tensor:
        """A tensor that takes over the computation; the old one becomes its copy.

        Args:
            scope: as `cache_read` has it.

        Raises:
            ValueError: the tensor has been split, or there is no such scope.
        """
        stage = self[tensor]
        stage.check_alone("cache_write")
        if stage.relations:
            raise ValueError(f"cache_write: {tensor.name} has been split already")
        axes = [Axis(axis.name, axis.extent) for axis in stage.axis]
        values = {id(old): new for old, new in zip(stage.axis, axes)}
        body = substitute(stage.body, values)
        cache = Tensor(f"{tensor.name}_cache", tensor.shape, tensor.type, axes, body)
        stage.body, stage.reduce_axis = cache[tuple(stage.axis)], ()
        stage.leaves = list(stage.axis)
        self.stages.insert(self.stages.index(stage), Stage(self, cache))
        self[cache].set_scope(scope)
        return cache

    def rfactor(self, tensor, axis) -> Tensor:
        """A tensor of partial sums, one for each turn of a reduction's loop.

        What is left for the old one is to reduce those, over its only reduction axis.

        Args:
            tensor: of this schedule, with one reduction.
            axis: a loop of that, which becomes the first axis of the new tensor.

        Raises:
            ValueError: it is no loop of the reduction, or the tensor has several.

        >>> from rushlight import te
        >>> x = te.placeholder((1000,), name="x")
        >>> k = te.reduce_axis((0, 1000), name="k")
        >>> total = te.compute((), lambda: te.sum(x[k], k), name="total")
        >>> s = te.create_schedule(total)
        >>> parts = s.rfactor(total, s[total].split(k, 8)[1])
        >>> s[total].body
        sum(total_parts[k_inner], k_inner)
        >>> parts
        total_parts[k_inner] = sum(x[k_outer * 8 + k_inner], k_outer)
        """
        stage = self[tensor]
        stage.find(axis, "rfactor")
        found = reductions(stage.body)
        if not axis.reduce or len(found) != 1 or len(found[0].args) != 1:
            raise ValueError(
                f"rfactor: {axis.name} of {tensor.name} is no loop of its only reduction\n"
                "  remedy: give each reduction a te.compute of its own"
            )
        parts = stage.partial_sums(found[0], axis)
        self.stages.insert(self.stages.index(stage), Stage(self, parts))
        return parts

    def copy_of(self, tensor, name):
        axes = [Axis(f"c{d}", extent) for d, extent in enumerate(tensor.shape)]
        return Tensor(name, tensor.shape, tensor.type, axes, tensor[tuple(axes)])


def redirect(body, tensor, copy):
    """An expression that reads ``copy`` where it read ``tensor``."""
    return replace_reads(
        body, lambda read: copy[read.args] if read.tensor is tensor else read
    )


def create_schedule(outputs) -> Schedule:
    """The plain schedule: every tensor whole, its loops in the order of its axes."""
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    return Schedule(outputs)
