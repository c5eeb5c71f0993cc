"""The loops of one stage of a schedule, around the statements that compute it."""

from rushlight.codegen.frontend.faults import take_faults
from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.linear import Linear, linear
from rushlight.tensor_expressions.bounds import Forms
from rushlight.tensor_expressions.buffers import Buffer, View, at_least_one, exceeds
from rushlight.tensor_expressions.expressions import (
    Several,
    reads,
    reductions,
    substitute,
)
from rushlight.tensor_expressions.mma import SUMS
from rushlight.tensor_expressions.reducers import joints
from rushlight.tensor_expressions.schedule import Fuse, Split
from rushlight.tensor_expressions.threads import AXES, THREADS

FUSED = "float32", "float64"
ZERO = ir.Const(ir.i64, 0)
RUN = 8  # halves that units of a device read at once
FILL, WORK, FINISH = "fill", "work", "finish"  # what loops are written for


class Nest:
    """Writes the loops of one stage, and of the stages placed inside them.

    Args:
        program: the kernel that it is part of.
        stage: whose loops they are.
        domain: for each data axis, the first index and the extent.
        outer: the nest that it is placed in, and ``leaf`` the loop of it; or None.
    """

    def __init__(self, program, stage, domain, outer=None, leaf=None):
        self.program, self.stage, self.domain = program, stage, domain
        self.outer, self.leaf, self.inner = outer, leaf, []
        self.body = program.bodies[stage]
        self.extents = {}  # of loops around this nest: Var -> extent
        if outer is not None:
            position = outer.stage.find(leaf, "compute_at")
            around = outer.spans(outer.stage.leaves[: position + 1])
            self.extents = outer.extents | around | outer.thread_spans()
        self.sizes = {}  # of every axis: id -> extent
        self.values = {}  # of every axis: id -> expression
        self.measure()

    @property
    def buffer(self):
        """Where the stage's elements go."""
        return self.program.buffers[self.stage.tensor]

    @property
    def intrinsic(self):
        """The loop that an intrinsic begins at, and the intrinsic; None on other devices."""
        found, grid = self.stage.intrinsic, self.program.grid
        if found and found[1].scope is not None:
            if grid is None:
                return None
            grid.check_intrinsic(self.stage, found[1])
        return found

    def measure(self):
        """Sizes from the root axes down, then values from the leaves up."""
        stage = self.stage
        for axis, (_, extent) in zip(stage.axis, self.domain):
            self.sizes[id(axis)] = extent
        for axis in stage.reduce_axis:
            self.sizes[id(axis)] = axis.extent
        for step in stage.relations:
            if isinstance(step, Fuse):
                sizes = self.sizes[id(step.first)], self.sizes[id(step.second)]
                self.sizes[id(step.fused)] = sizes[0] * sizes[1]
                continue
            size = self.sizes[id(step.parent)]
            inner = step.factor or -(-size // step.parts)
            if isinstance(size, int):
                inner = max(1, min(inner, size))
            self.sizes[id(step.inner)] = inner
            self.sizes[id(step.outer)] = -(-size // inner)
        self.loops = {id(leaf): self.loop_of(leaf) for leaf in stage.leaves}
        for leaf in stage.leaves:
            size = self.sizes[id(leaf)]
            once = isinstance(size, int) and size == 1
            once = once and leaf is not self.program.divided
            self.values[id(leaf)] = ZERO if once else self.loops[id(leaf)]
        for step in reversed(stage.relations):
            self.derive(step)

    def loop_of(self, leaf):
        """The variable of a loop; of one that is bound, its axis of the grid."""
        axis = self.bound(leaf)
        if axis is None:
            return self.program.variable(leaf.name)
        return self.program.grid.take(axis, self.sizes[id(leaf)])

    def bound(self, leaf):
        """The axis of the grid that a loop is bound to; None where there is no grid."""
        mark = self.stage.marks.get(id(leaf))
        return mark if self.program.grid is not None and mark in AXES else None

    def derive(self, step):
        if isinstance(step, Fuse):
            fused, size = self.values[id(step.fused)], self.sizes[id(step.second)]
            self.values[id(step.first)] = fused // at_least_one(size)
            self.values[id(step.second)] = fused % at_least_one(size)
            return
        inner = self.values[id(step.inner)]
        outer = self.values[id(step.outer)]
        self.values[id(step.parent)] = outer * self.sizes[id(step.inner)] + inner

    def root_values(self):
        """The stage's own axes as expressions of the loops: by id, origin included."""
        values = {}
        for axis, (first, _) in zip(self.stage.axis, self.domain):
            values[id(axis)] = tidy(self.values[id(axis)] + first)
        for axis in self.stage.reduce_axis:
            values[id(axis)] = tidy(self.values[id(axis)])
        return values

    def guards(self, axes, joining=False):
        """Conditions that keep loops within their tensors.

        Args:
            axes: the data axes, or some reduction axes, of the stage.
            joining: whether threads that join their totals are not told apart.
        """
        roots, tests = self.roots(), []
        wanted = set(map(id, axes))
        if self.program.grid is not None and axes is self.stage.axis:
            tests += self.program.grid.alone(self.stage, joining)
        for step in self.stage.relations:
            if isinstance(step, Split) and roots[id(step.parent)] <= wanted:
                size = self.sizes[id(step.parent)]
                covered = self.sizes[id(step.outer)] * self.sizes[id(step.inner)]
                if exceeds(covered, size):
                    tests.append(tidy(self.values[id(step.parent)]) < size)
        for axis, (first, extent) in zip(self.stage.axis, self.domain):
            if id(axis) not in wanted:
                continue
            within = self.within(first, extent, axis.extent)
            if not within[0]:
                tests.append(self.root_values()[id(axis)] >= 0)
            if not within[1]:
                tests.append(self.root_values()[id(axis)] < axis.extent)
        return tests

    def within(self, first, extent, size):
        """Whether elements are known not to begin below zero, and not to end beyond a size."""
        form = linear(first, parts=True)
        found = form and form.range_over(self.extents)
        if found is not None and not found[2]:
            low, high, _ = found
            return low >= 0, not exceeds(high + extent if high else extent, size)
        if isinstance(size, int):
            return False, False
        forms = Forms()
        facts = [forms.form(var) for var in self.extents]
        facts += [forms.form(end - 1 - var) for var, end in self.extents.items()]
        rest = forms.form(size - extent - first)
        return forms.proved(forms.form(first), facts), forms.proved(rest, facts)

    def roots(self):
        """Of every axis, the ids of the axes that it was made of."""
        found = {id(a): {id(a)} for a in (*self.stage.axis, *self.stage.reduce_axis)}
        for step in self.stage.relations:
            if isinstance(step, Fuse):
                both = found[id(step.first)] | found[id(step.second)]
                found[id(step.fused)] = both
            else:
                found[id(step.outer)] = found[id(step.inner)] = found[id(step.parent)]
        return found

    # ---- where it lies in other nests

    def is_inside(self, outer, leaf):
        """Whether these loops run inside a loop of another nest, or of this one."""
        nest, place = self, None
        while nest is not None and nest is not outer:
            nest, place = nest.outer, nest.leaf
        if nest is None:
            return False
        if place is None:
            return True
        leaves = outer.stage.leaves
        return position_of(place, leaves) >= position_of(leaf, leaves)

    def spans_inside(self, outer, leaf):
        """The loops that turn while one turn of another nest's loop lasts."""
        nest, spans = self, {}
        while nest is not outer:
            spans |= nest.spans(nest.stage.leaves)
            nest = nest.outer
        leaves = outer.stage.leaves
        return spans | outer.spans(leaves[position_of(leaf, leaves) + 1 :])

    def spans(self, leaves):
        return {self.loops[id(leaf)]: self.sizes[id(leaf)] for leaf in leaves}

    def thread_spans(self):
        """The loops over threads of this nest and of those that it is in."""
        around = self.outer.thread_spans() if self.outer is not None else {}
        bound = [leaf for leaf in self.stage.leaves if self.bound(leaf) in THREADS]
        return around | self.spans(bound)

    # ---- statements

    def statements(self):
        """The loops of this stage."""
        leaves = self.stage.leaves
        found = [item for parts in joints(reductions(self.body)) for item in parts]
        if not found:
            return self.around(
                leaves, lambda: self.guarded(self.stage.axis, self.write(self.body))
            )
        first = next(n for n, leaf in enumerate(leaves) if leaf.reduce)
        if self.intrinsic:
            first = min(first, len(leaves) - len(self.block_leaves()))
        data_inside = [leaf for leaf in leaves[first:] if not leaf.reduce]
        groups = {}
        for item in found:
            groups.setdefault(tuple(map(id, item.axes)), []).append(item)
        self.check_late(first)
        if len(found[0].args) > 1 and any(map(self.bound, leaves[first:])):
            raise ValueError(
                f"bind: threads join sums, products and extremes, not what {found[0].op!r} "
                "joins\n  remedy: bind data axes"
            )
        if not data_inside and not self.intrinsic:
            return self.in_register(list(groups.values()), first)
        for leaf in leaves[first:]:
            if leaf.reduce and self.bound(leaf):
                raise ValueError(
                    f"bind: threads join what {leaf.name} reduces, a value each, and "
                    f"{self.stage.tensor.name} has data loops inside of it\n"
                    "  remedy: reorder() so that the reduction is innermost"
                )
        if len(groups) > 1:
            raise ValueError(
                f"{self.stage.tensor.name} reduces over different axes in one "
                "expression, and has data loops inside of them\n"
                "  remedy: give each reduction a te.compute of its own"
            )
        return self.in_memory(found, first, data_inside)

    def in_register(self, groups, first):
        """Accumulates in locals: no data loop is inside the reductions'."""
        totals, name = {}, f"{self.stage.tensor.name}_total"
        inside = {id(leaf) for leaf in self.stage.leaves[first:]}
        joined = any(map(self.bound, self.stage.leaves[first:]))
        # Threads that are guarded from all of it would miss the barriers of such stages
        distributed = self.program.grid is not None and any(
            id(nest.leaf) in inside for nest in self.inner
        )
        distributed = distributed or joined
        for item in (item for group in groups for item in group):
            totals[id(item)] = ir.Var(self.program.name(name), item.type)

        def update(group):
            steps = []
            for item, value in self.joined(group, lambda item: totals[id(item)], steps):
                steps.append(ir.Assign(totals[id(item)], value))
            steps = self.guarded(group[0].axes, steps)
            if not distributed:
                return steps
            return wrap(self.guards(self.stage.axis, joining=True), steps)

        def whole():
            steps, roots = [], self.roots()
            for group in groups:
                for item in group:
                    steps.append(ir.Declare(totals[id(item)], item.identity))
                axes = set(map(id, group[0].axes))
                leaves = [
                    leaf for leaf in self.stage.leaves[first:] if roots[id(leaf)] & axes
                ]
                self.check_group(group, leaves, roots, axes)
                steps += self.around(leaves, lambda g=group: update(g))
                for leaf in filter(self.bound, leaves):
                    for item in group:
                        total, axis = totals[id(item)], self.bound(leaf)
                        steps += self.program.grid.joined(total, item.op, axis)
            last = self.write(substitute(self.body, totals))
            if distributed:
                return (*steps, *self.guarded(self.stage.axis, last))
            return self.guarded(self.stage.axis, [*steps, *last])

        return self.around(self.stage.leaves[:first], whole)

    def check_group(self, group, leaves, roots, axes):
        if any(roots[id(leaf)] - axes for leaf in leaves):
            raise ValueError(
                f"{self.stage.tensor.name}: a loop was fused of axes of different "
                f"reductions; {group[0]!r} runs over only some of them"
            )

    def in_memory(self, found, first, data_inside):
        """Accumulates in memory, first filled with the identity.

        That is the output, where it is the reduction itself; otherwise room for what the
        data loops inside go through, which a last pass goes on from.
        """
        direct = found[0] is self.body and len(found[0].args) == 1
        cells, arrays = {}, []
        for item in found:
            cells[id(item)] = self.buffer.pointer, self.place
            if not direct:
                cells[id(item)] = self.room(item, data_inside, arrays)
        inside = self.stage.axis

        filled, blocks = data_inside, self.intrinsic and self.intrinsic[1].scope
        if blocks:
            own = set(map(id, self.block_leaves()))
            filled = [leaf for leaf in data_inside if id(leaf) not in own]

        def clear():
            if blocks:
                return self.cleared_block(found[0].identity)
            steps = [
                ir.Store(*located(cells[id(item)]), item.identity) for item in found
            ]
            return self.guarded(inside, steps)

        def update():
            steps = []

            def read(item):
                return ir.load(*located(cells[id(item)]))

            for item, value in self.joined(found, read, steps):
                steps.append(ir.Store(*located(cells[id(item)]), value))
            return self.guarded(inside, self.guarded(found[0].axes, steps))

        def finish():
            values = {key: ir.load(*located(cell)) for key, cell in cells.items()}
            return self.guarded(inside, self.write(substitute(self.body, values)))

        def whole():
            self.cell = cells[id(found[0])]
            steps = [*arrays, *self.chain(filled, clear, FILL)]
            steps += self.around(self.stage.leaves[first:], update)
            return (
                steps if direct else [*steps, *self.chain(data_inside, finish, FINISH)]
            )

        return self.around(self.stage.leaves[:first], whole)

    def joined(self, found, read, steps):
        """What reductions come to with an element more: pairs of each and its value.

        Args:
            read: of a reduction, what it came to before.
            steps: where statements are added that are needed for it.
        """
        for parts in joints(found):
            before = [read(item) for item in parts]
            values = [self.element(arg, steps) for arg in parts[0].args]
            if len(parts) == 1:
                yield parts[0], combined(parts[0].op, *before, *values)
                continue
            named = []
            for value in parts[0].op.joined(before, values):
                named.append(ir.Var(self.program.name("joined"), value.type))
                steps.append(ir.Let(named[-1], value))
            yield from zip(parts, named, strict=True)

    def room(self, item, leaves, arrays):
        """A cell for each turn of some loops: its pointer, and how its place is found."""
        shape = tuple(self.sizes[id(leaf)] for leaf in leaves)
        tensor = self.stage.tensor
        self.program.check_room(tensor, shape, leaves[0])
        name = self.program.name(f"{tensor.name}_totals")
        buffer = Buffer(ir.Var(name, ir.Pointer(item.type)), shape, (0,) * len(shape))
        arrays.append(ir.Array(buffer.pointer, buffer.size))
        return buffer.pointer, lambda: buffer.index(
            [self.values[id(leaf)] for leaf in leaves]
        )

    def check_late(self, first):
        """Refuses what is computed inside a reduction but read after it."""
        late = self.read_late()
        for nest in self.inner:
            if nest.leaf.reduce and nest.stage.tensor in late:
                raise ValueError(
                    f"compute_at: {nest.stage.tensor.name} is computed inside the "
                    f"reduction loop {nest.leaf.name}, but {self.stage.tensor.name} "
                    "reads it when the reduction is done\n"
                    "  remedy: place it at a loop around the reduction"
                )

    def read_late(self):
        """The tensors that are needed once the reductions are done."""
        zeros = {id(item): ir.Const(item.type, 0) for item in reductions(self.body)}
        late = {read.tensor for read in reads(substitute(self.body, zeros))}
        for nest in reversed(self.inner):
            if nest.stage.tensor in late:
                late |= {read.tensor for read in reads(nest.body)}
        return late

    def around(self, leaves, body):
        """Loops around what ``body`` gives."""
        return self.chain(list(leaves), body, WORK)

    def chain(self, leaves, body, purpose):
        """Loops around a body.

        Args:
            purpose: `WORK`; `FILL` only puts identities in place, `FINISH` goes on from
                what was accumulated.
        """
        if not leaves:
            return tuple(body())
        leaf, *rest = leaves
        intrinsic = self.intrinsic
        if purpose == WORK and intrinsic and intrinsic[0] is leaf:
            return self.intrinsic_block()
        inside = (*self.nested(leaf, purpose), *self.chain(rest, body, purpose))
        size, axis = self.sizes[id(leaf)], self.bound(leaf)
        if axis is not None:
            test = self.program.grid.guard(axis, size)
            return inside if test is None else wrap([test], inside)
        if self.values[id(leaf)] is ZERO:  # it turns once
            return inside
        kind = self.kind_of(leaf)
        start, stop = ZERO, ir.as_expr(size, ir.i64)
        if self.program.divided is leaf:
            start, stop, kind = ir.BEGIN, ir.END, "serial"
        return (ir.For(self.loops[id(leaf)], start, stop, inside, kind=kind),)

    def kind_of(self, leaf):
        """How a loop runs; on the host the innermost one of threads is one of vectors."""
        kind = self.stage.marks.get(id(leaf), "serial")
        if kind not in AXES:
            return kind
        plain = leaf is self.stage.leaves[-1] and not self.inner and not leaf.reduce
        return "vectorized" if plain and kind in THREADS else "serial"

    def nested(self, leaf, purpose):
        """The stages computed inside this loop."""
        if purpose == FILL:
            return
        late = self.read_late() if purpose == FINISH else None
        for nest in self.inner:
            if nest.leaf is leaf and (late is None or nest.stage.tensor in late):
                grid, room = self.program.grid, nest.buffer
                plain = ir.Array(room.pointer, room.size)
                yield plain if grid is None else grid.array(nest)
                yield from nest.statements()

    def guarded(self, axes, statements):
        """Statements under the guards of some axes."""
        return wrap(self.guards(axes), statements)

    def write(self, body):
        """The statements that put a value in its place."""
        steps = []
        bodies = body.args if isinstance(body, Several) else (body,)
        values = [self.element(value, steps) for value in bodies]
        for tensor, value in zip(self.stage.tensor.results, values, strict=True):
            buffer = self.program.buffers[tensor]
            steps.append(ir.Store(buffer.pointer, self.place(buffer), value))
        return steps

    def place(self, buffer=None):
        """Where an element is written, in a buffer of the stage's."""
        values = self.root_values()
        at = [values[id(axis)] for axis in self.stage.axis]
        return (buffer or self.buffer).index(at)

    def element(self, e, steps):
        """An expression over this nest's loops, its reads turned into loads.

        What it refuses is noted by statements added to ``steps``.
        """
        bound = substitute(e, self.root_values())
        (value,), faults = take_faults(
            [self.program.load_reads(bound, self.stage.tensor)]
        )
        steps += self.program.note(faults)
        return value

    # ---- intrinsics

    def block_leaves(self):
        """The loops that an intrinsic does."""
        return self.stage.leaves[self.stage.find(self.intrinsic[0], "tensorize") :]

    def intrinsic_block(self):
        """The user's statements over views of the output and of every read."""
        _, chosen = self.intrinsic
        leaves = self.block_leaves()
        if self.guards((*self.stage.axis, *self.stage.reduce_axis)):
            raise ValueError(
                f"tensorize: the blocks of {self.stage.tensor.name} do not fill its "
                "loops; pad the tensor, or choose sizes that divide"
            )
        inner = {
            id(item): self.loops[id(leaf)] for item, leaf in zip(chosen.axes, leaves)
        }
        pattern, found = chosen.pattern, reductions(self.body)
        pointer, place = self.cell if found else (self.buffer.pointer, self.place)
        if chosen.scope is None:
            out = self.view(pointer, place(), pattern.axis, inner)
        else:
            out = self.block_view()
        views = []
        body = found[0] if found else self.body
        for theirs, ours in zip(reads(pattern.body), reads(body)):
            bound = [tidy(substitute(at, self.root_values())) for at in ours.indices]
            buffer = self.program.buffers[ours.tensor]
            views.append(
                self.view(buffer.pointer, buffer.index(bound), theirs.args, inner)
            )
        return tuple(chosen.emit(out, *views))

    def block_view(self):
        """A warp's own elements of the block that an intrinsic writes."""
        inner = [self.loops[id(leaf)] for leaf in self.block_leaves()]
        values = self.root_values()
        at = [values[id(axis)] for axis in self.stage.axis]
        return View(self.buffer.pointer, self.buffer.block(at, inner), (1,))

    def cleared_block(self, identity):
        """Statements that put an identity where an intrinsic accumulates."""
        view = self.block_view()
        return [view.store(identity, n) for n in range(SUMS)]

    def view(self, pointer, flat, axes, inner):
        form = linear(flat)
        if form is None:
            raise ValueError(
                f"tensorize: {self.stage.tensor.name} is not indexed linearly"
            )
        strides = tuple(form.terms.get(inner[id(axis)], 0) for axis in axes)
        block = set(inner.values())
        rest = {var: count for var, count in form.terms.items() if var not in block}
        grid, steps = self.program.grid, (form.constant, *rest.values(), *strides)
        shared = grid is not None and pointer.name in grid.shared
        runs = [step for step in steps if step % RUN] == [1] and 1 in strides
        return View(
            *(pointer, Linear(form.constant, rest).expression(), strides),
            shared and runs,
        )


def combined(op, total, value):
    """One step of a reduction: products are added in one rounding where there is that."""
    product = isinstance(value, ir.Binary) and value.op == "mul"
    if op == "add" and product and value.type.name in FUSED and current().has("fma"):
        return ir.Call("fma", value.type, *value.args, total)
    return ir.Binary(op, total, value)


def tidy(e):
    """An expression with its linear part gathered."""
    form = linear(e)
    return e if form is None else form.expression()


def located(cell):
    """A cell's pointer, and its place now."""
    pointer, place = cell
    return pointer, place()


def position_of(leaf, leaves):
    """Where a loop is among others."""
    return next(n for n, item in enumerate(leaves) if item is leaf)


def wrap(tests, statements):
    """Statements under every one of some conditions."""
    statements = tuple(statements)
    if not tests:
        return statements
    condition = tests[0]
    for test in tests[1:]:
        condition = condition & test
    return (ir.If(condition, statements),)
