"""From a schedule to loops: bounds of every loop, buffers, guards, then statements.

A stage that is computed at its reader's loop covers the range that the reader needs
there, found from the index expressions: they are linear in the loops, or else the whole
tensor is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from rushlight.codegen.frontend.te import Read, Reduce, reads, substitute
from rushlight.codegen.schedule.te_schedule import Fuse, Schedule, Split
from rushlight.ir import expr as ir

STACK_BYTES = 1 << 18  # larger buffers of nested stages are refused


@dataclass
class Linear:
    """``constant + sum(coefficient * variable)`` over loop variables."""

    constant: int = 0
    terms: dict = field(default_factory=dict)  # variable -> coefficient

    def plus(self, other, factor=1):
        terms = dict(self.terms)
        for var, count in other.terms.items():
            terms[var] = terms.get(var, 0) + factor * count
        kept = {var: count for var, count in terms.items() if count}
        return Linear(self.constant + factor * other.constant, kept)

    def range_over(self, extents):
        """The least and largest value while some variables run over their extents."""
        low = high = self.constant
        rest = {}
        for var, count in self.terms.items():
            if var in extents:
                reach = count * (extents[var] - 1)
                low, high = low + min(reach, 0), high + max(reach, 0)
            else:
                rest[var] = count
        return low, high, rest

    def expression(self):
        """The form as an expression."""
        result = None
        for var, count in self.terms.items():
            term = var if count == 1 else var * count
            result = term if result is None else result + term
        if result is None:
            return ir.Const(ir.i64, self.constant)
        return result + self.constant if self.constant else result


def linear(e) -> Linear | None:
    """An index expression as a linear form, or None."""
    if isinstance(e, ir.Const):
        return Linear(e.value)
    if isinstance(e, ir.Var):
        return Linear(0, {e: 1})
    if not isinstance(e, ir.Binary) or e.op not in ("add", "sub", "mul"):
        return None
    left, right = map(linear, e.args)
    if left is None or right is None:
        return None
    if e.op != "mul":
        return left.plus(right, 1 if e.op == "add" else -1)
    if left.terms and right.terms:
        return None
    if right.terms:
        left, right = right, left
    return Linear().plus(left, right.constant)


@dataclass
class Buffer:
    """Where a tensor lives while it is read: a pointer, sizes, and its first index."""

    pointer: ir.Var
    shape: tuple
    origin: tuple

    def index(self, indices):
        """The flat index of an element."""
        flat = ir.Const(ir.i64, 0)
        for at, size, first in zip(indices, self.shape, self.origin):
            flat = flat * size + (at - first)
        form = linear(flat)
        return flat if form is None else form.expression()


@dataclass(frozen=True)
class View:
    """A block of a buffer, as an intrinsic sees it."""

    pointer: ir.Var
    base: ir.Expr
    strides: tuple

    def index(self, indices):
        """The flat index of an element of the block."""
        result = self.base
        for at, stride in zip(indices, self.strides):
            result = result + ir.as_expr(at, ir.i64) * stride
        return result

    def load(self, *indices, lanes=1):
        """The element at an index of the block, or ``lanes`` of them from there."""
        return ir.load(self.pointer, self.index(indices), lanes)

    def store(self, value, *indices):
        """The statement that writes a value or vector at an index of the block."""
        return ir.Store(self.pointer, self.index(indices), value)


class Nest:
    """Writes the loops of one stage, and of the stages placed inside them."""

    def __init__(self, program, stage, buffer, domain, extents):
        self.program, self.stage, self.buffer = program, stage, buffer
        self.extents = dict(extents)  # of loops around this nest: Var -> extent
        self.sizes = {}  # of every axis: id -> extent
        self.values = {}  # of every axis: id -> expression
        self.domain = domain  # per data axis: (first index, extent)
        self.measure()

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
            inner = min(inner, size)
            self.sizes[id(step.inner)] = inner
            self.sizes[id(step.outer)] = -(-size // inner)
        self.loops = {
            id(leaf): self.program.variable(leaf.name) for leaf in stage.leaves
        }
        for leaf in stage.leaves:
            self.values[id(leaf)] = self.loops[id(leaf)]
        for step in reversed(stage.relations):
            self.derive(step)

    def derive(self, step):
        if isinstance(step, Fuse):
            fused, size = self.values[id(step.fused)], self.sizes[id(step.second)]
            self.values[id(step.first)] = fused // size
            self.values[id(step.second)] = fused % size
            return
        inner = self.values[id(step.inner)]
        outer = self.values[id(step.outer)]
        self.values[id(step.parent)] = outer * self.sizes[id(step.inner)] + inner

    def root_values(self):
        """The stage's own axes as expressions of the loops: by id, origin included."""
        values = {}
        for axis, (first, _) in zip(self.stage.axis, self.domain):
            values[id(axis)] = self.tidy(self.values[id(axis)] + first)
        for axis in self.stage.reduce_axis:
            values[id(axis)] = self.tidy(self.values[id(axis)])
        return values

    def tidy(self, e):
        form = linear(e)
        return e if form is None else form.expression()

    def guards(self, reduce):
        """Conditions that keep split loops, and the domain, within their tensors."""
        tests = []
        for step in self.stage.relations:
            if isinstance(step, Split) and step.parent.reduce == reduce:
                size = self.sizes[id(step.parent)]
                covered = self.sizes[id(step.outer)] * self.sizes[id(step.inner)]
                if covered > size:
                    tests.append(self.tidy(self.values[id(step.parent)]) < size)
        if not reduce:
            for axis, (first, extent) in zip(self.stage.axis, self.domain):
                form, size = linear(first), axis.extent
                if form is None or form.range_over(self.extents)[1] + extent > size:
                    tests.append(self.root_values()[id(axis)] < size)
        return tests

    def spans(self):
        return {
            self.loops[id(leaf)]: self.sizes[id(leaf)] for leaf in self.stage.leaves
        }

    # ---- statements

    def statements(self):
        """The loops of this stage."""
        stage = self.stage
        body = self.program.inline(stage.body)
        if not isinstance(body, Reduce):
            return self.around(0, lambda: self.guarded(False, self.write(body)))
        first = next(
            position for position, leaf in enumerate(stage.leaves) if leaf.reduce
        )
        data_inside = [leaf for leaf in stage.leaves[first:] if not leaf.reduce]
        if data_inside or stage.intrinsic:
            return self.in_memory(body, first, data_inside)
        return self.in_register(body, first)

    def in_register(self, body, first):
        """Accumulates in a local: no data loop is inside the reduction's."""
        total = ir.Var(self.program.name(f"{self.stage.tensor.name}_total"), body.type)

        def update():
            value = self.element(body.args[0])
            step = ir.Assign(total, ir.Binary(body.op, total, value))
            return wrap(self.guards(True), (step,))

        def whole():
            store = self.store(total)
            loops = self.around(first, update)
            steps = (ir.Declare(total, body.identity), *loops, *store)
            return wrap(self.guards(False), steps)

        return self.around(0, whole, first)

    def in_memory(self, body, first, data_inside):
        """Accumulates in the output, first filled with the identity."""

        def clear():
            return self.guarded(False, self.store(body.identity))

        def update():
            place = self.place()
            value = ir.Binary(
                body.op, ir.load(self.buffer.pointer, place), self.element(body.args[0])
            )
            steps = wrap(self.guards(True), self.store(value))
            return self.guarded(False, steps)

        def both():
            filled = self.chain(data_inside, clear, filling=True)
            return (*filled, *self.around(first, update))

        return self.around(0, both, first)

    def around(self, start, body, stop=None):
        """The loops from one leaf to another around what ``body`` gives."""
        leaves = self.stage.leaves[start:stop]
        return self.chain(leaves, body)

    def chain(self, leaves, body, filling=False):
        """Loops around a body; ``filling`` ones only put the identity in place."""
        if not leaves:
            return body()
        leaf, *rest = leaves
        if not filling and self.stage.intrinsic and self.stage.intrinsic[0] is leaf:
            return self.intrinsic_block()
        before = () if filling else self.nested(leaf)
        inside = (*before, *self.chain(rest, body, filling))
        kind = self.stage.marks.get(id(leaf), "serial")
        start, stop = ir.Const(ir.i64, 0), ir.Const(ir.i64, self.sizes[id(leaf)])
        if self.program.divided is leaf:
            start, stop, kind = ir.BEGIN, ir.END, "serial"
        return (ir.For(self.loops[id(leaf)], start, stop, inside, kind=kind),)

    def nested(self, leaf):
        """The stages computed inside this loop."""
        steps = []
        for stage in self.program.schedule.stages:
            if stage.place and stage.place[0] is self.stage and stage.place[1] is leaf:
                steps += self.program.nested_stage(stage, self, leaf)
        return steps

    def guarded(self, reduce, statements):
        return wrap(self.guards(reduce), statements)

    def write(self, body):
        return self.store(self.element(body))

    def place(self):
        values = self.root_values()
        return self.buffer.index([values[id(axis)] for axis in self.stage.axis])

    def store(self, value):
        return (ir.Store(self.buffer.pointer, self.place(), value),)

    def element(self, e):
        """An expression over this nest's loops, its reads turned into loads."""
        bound = substitute(e, self.root_values())
        return self.program.load_reads(bound)

    # ---- intrinsics

    def intrinsic_block(self):
        """The user's statements over views of the output and of every read."""
        axis, chosen = self.stage.intrinsic
        leaves = self.stage.leaves[self.stage.find(axis, "tensorize") :]
        inner = {
            id(item): self.loops[id(leaf)] for item, leaf in zip(chosen.axes, leaves)
        }
        pattern = chosen.pattern
        out = self.view(self.buffer.pointer, self.place(), pattern.axis, inner)
        views = []
        body = self.program.inline(self.stage.body)
        for theirs, ours in zip(reads(pattern.body), reads(body)):
            bound = [self.tidy(substitute(at, self.root_values())) for at in ours.args]
            buffer = self.program.buffers[ours.tensor]
            views.append(
                self.view(buffer.pointer, buffer.index(bound), theirs.args, inner)
            )
        return tuple(chosen.emit(out, *views))

    def view(self, pointer, flat, axes, inner):
        form = linear(flat)
        if form is None:
            raise ValueError(
                f"tensorize: {self.stage.tensor.name} is not indexed linearly"
            )
        strides = tuple(form.terms.get(inner[id(axis)], 0) for axis in axes)
        block = set(inner.values())
        rest = {var: count for var, count in form.terms.items() if var not in block}
        return View(pointer, Linear(form.constant, rest).expression(), strides)


def wrap(tests, statements):
    """Statements under every one of some conditions."""
    statements = tuple(statements)
    if not tests:
        return statements
    condition = tests[0]
    for test in tests[1:]:
        condition = condition & test
    return (ir.If(condition, statements),)


class Program:
    """The kernels of a schedule, one for each tensor that is computed whole.

    Attributes:
        functions: triples of kernel, turns of its divided axis, and its tensors.
        scratch: tensors that are neither arguments nor computed inside a loop.
    """

    def __init__(self, schedule: Schedule, arguments, name):
        self.schedule, self.arguments, self.name_ = schedule, list(arguments), name
        self.names, self.buffers, self.functions = set(), {}, []
        known = set(map(id, self.arguments))
        whole = [s for s in schedule.stages if not s.place and not s.inlined]
        self.scratch = [s.tensor for s in whole if id(s.tensor) not in known]
        for number, stage in enumerate(whole):
            self.divided = None
            label = name if len(whole) == 1 else f"{name}_{number}_{stage.tensor.name}"
            self.functions.append(self.function(label, stage))

    def __str__(self):
        """The loops of every kernel, as Python."""
        return "\n\n".join(str(function) for function, _, _ in self.functions)

    def name(self, wanted):
        """A name that this kernel doesn't use yet."""
        number, name = 1, wanted
        while name in self.names:
            name = f"{wanted}_{number}"
            number += 1
        self.names.add(name)
        return name

    def variable(self, wanted):
        return ir.Var(self.name(wanted), ir.i64)

    def function(self, label, stage):
        from rushlight.codegen.lower import lower

        self.names, self.buffers = {"data", "ints", "begin", "end"}, {}
        used = []
        for tensor in [*self.arguments, *self.scratch]:
            pointer = ir.Var(self.name(tensor.name), ir.Pointer(tensor.type))
            origin = (0,) * len(tensor.shape)
            self.buffers[tensor] = Buffer(pointer, tensor.shape, origin)
            used.append(tensor)
        first = stage.leaves[0] if stage.leaves else None
        if first is not None and stage.marks.get(id(first)) == "parallel":
            self.divided = first
        domain = [(ir.Const(ir.i64, 0), axis.extent) for axis in stage.axis]
        nest = Nest(self, stage, self.buffers[stage.tensor], domain, {})
        body = nest.statements()
        entry = [
            ir.Let(self.buffers[t].pointer, ir.argument(n, t.type))
            for n, t in enumerate(used)
        ]
        function = ir.Function(
            label, ir.KERNEL_PARAMETERS, (*entry, *body), distinct=True
        )
        turns = 1 if self.divided is None else nest.sizes[id(first)]
        return lower(function), turns, used

    def inline(self, body):
        """A body with the reads of inlined stages replaced by what they compute."""
        for stage in reversed(self.schedule.stages):
            if stage.inlined:
                values = {}
                for read in reads(body):
                    if read.tensor is stage.tensor:
                        bound = {
                            id(axis): at for axis, at in zip(stage.axis, read.args)
                        }
                        values[id(read)] = substitute(stage.body, bound)
                body = substitute(body, values)
        return body

    def load_reads(self, e):
        """An expression with every read turned into a load from the tensor's buffer."""
        from rushlight.ir.rewrite import map_expr

        def change(node):
            if not isinstance(node, Read):
                return node
            buffer = self.buffers.get(node.tensor)
            if buffer is None:
                raise ValueError(
                    f"{node.tensor.name} is read but is neither an argument nor "
                    "computed before: give it to lower() or build()"
                )
            return ir.load(buffer.pointer, buffer.index(node.args))

        return map_expr(e, change)

    def nested_stage(self, stage, reader, leaf):
        """The buffer and loops of a stage that is computed inside its reader's loop."""
        inside = reader.stage.leaves[reader.stage.find(leaf, "compute_at") + 1 :]
        spans = {reader.loops[id(item)]: reader.sizes[id(item)] for item in inside}
        domain = self.needed(stage, reader, spans)
        shape = tuple(extent for _, extent in domain)
        if prod(shape) * stage.tensor.type.itemsize > STACK_BYTES:
            raise ValueError(
                f"compute_at: {stage.tensor.name} needs {list(shape)} elements inside "
                f"the loop {leaf.name}, more than the stack should hold; choose an "
                "inner loop"
            )
        pointer = ir.Var(self.name(stage.tensor.name), ir.Pointer(stage.tensor.type))
        origin = tuple(first for first, _ in domain)
        self.buffers[stage.tensor] = Buffer(pointer, shape, origin)
        around = {**reader.extents, **reader.spans()}
        outside = {var: size for var, size in around.items() if var not in spans}
        nest = Nest(self, stage, self.buffers[stage.tensor], domain, outside)
        return [ir.Array(pointer, max(1, prod(shape))), *nest.statements()]

    def needed(self, stage, reader, spans):
        """For each dimension, the first index and how many the reader needs."""
        values = reader.root_values()
        found = [[] for _ in stage.axis]
        for read in reads(self.inline(reader.stage.body)):
            if read.tensor is stage.tensor:
                for axis, at in enumerate(read.args):
                    found[axis].append(linear(substitute(at, values)))
        return [
            self.range_of(forms, spans, size)
            for forms, size in zip(found, stage.tensor.shape)
        ]

    def range_of(self, forms, spans, size):
        whole = ir.Const(ir.i64, 0), size
        if not forms or any(form is None for form in forms):
            return whole
        ranges = [form.range_over(spans) for form in forms]
        rest = ranges[0][2]
        if any(item[2] != rest for item in ranges):
            return whole
        low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
        if high - low + 1 >= size:
            return whole
        return Linear(low, rest).expression(), high - low + 1


def lower(schedule, arguments, name="main") -> Program:
    """The loops of a schedule; ``print`` shows them.

    Args:
        arguments: the tensors that the caller passes, inputs and outputs.
    """
    return Program(schedule, arguments, name)
