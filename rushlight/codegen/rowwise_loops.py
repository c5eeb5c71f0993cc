"""The passes over a row: one for each level of reductions, one for the results."""

from __future__ import annotations

from contextlib import contextmanager

from rushlight.codegen import expr as ir
from rushlight.codegen.builder import Builder
from rushlight.codegen.expr import Along, At, Call, Const, Position, Var, i64
from rushlight.codegen.passes.name_shared import name_shared
from rushlight.codegen.rewrite import widen
from rushlight.codegen.rowwise import LENGTH, identity_of

ZERO = Const(i64, 0)
CHEAP_CALLS = ("sqrt", "fma", "floor", "ceil", "trunc", "round", "copysign", "isnan")


def row_loops(inputs, in_types, elements, outputs, out_types):
    """The body of a rowwise kernel.

    Args:
        inputs: the traced function's variables.
        in_types: what they are stored as.
        elements: names of those with a value for each position of the row.
        outputs: the traced results.
        out_types: what they are stored as.
    """
    program = _Program(inputs, elements, outputs, out_types)
    b = Builder()
    n, inner = b.let(LENGTH, ir.integer(0)), b.let("inner", ir.integer(1))
    types = [*out_types, *in_types]
    names = [*(f"out{k}" for k in range(len(out_types))), *(v.name for v in inputs)]
    bases = [
        b.let(f"{name}_base", ir.argument(k, type))
        for k, (name, type) in enumerate(zip(names, types, strict=True))
    ]
    count = len(types)
    strides = [
        [
            b.let(f"{name}_{axis}", ir.integer(2 + start * count + k))
            for k, name in enumerate(names)
        ]
        for start, axis in enumerate(("outer", "inner", "step"))
    ]
    along = [k for k in range(count) if program.is_element(k)]
    vector = Const(ir.boolean, True)
    for k in along:
        vector = vector & (strides[2][k] == types[k].itemsize)
    # Where rows pick an element, each lane would pick at another place.
    picks = any(isinstance(e, At) for e in _nodes(outputs))
    beside = b.let("beside", _side_by_side(types, strides[1]))
    row = b.declare("row", ir.BEGIN)
    with b.loop_while(row < ir.END):
        place = b.let("place", row % inner)
        rows = [
            b.let(
                f"{name}_row",
                ir.Offset(base, (row // inner) * strides[0][k] + place * strides[1][k]),
            )
            for k, (name, base) in enumerate(zip(names, bases, strict=True))
        ]
        lanes = program.lanes
        room = (place + lanes <= inner) & (row + lanes <= ir.END)
        with b.when(vector):
            _Row(b, program, rows, n, strides[2], lanes).run()
            b.assign(row, row + 1)
        with b.otherwise():
            together = Const(ir.boolean, False) if picks else beside & room
            with b.when(together):
                if not picks:
                    _RowsBeside(b, program, rows, n, strides, lanes).run()
                b.assign(row, row + lanes)
            with b.otherwise():
                _Row(b, program, rows, n, strides[2], 1).run()
                b.assign(row, row + 1)
    return b.statements


def _side_by_side(types, inner_strides):
    """Whether each operand's rows lie an element apart, or are one row for all."""
    result = Const(ir.boolean, True)
    for type, stride in zip(types, inner_strides, strict=True):
        result = result & ((stride == type.itemsize) | (stride == 0))
    return result


class _Program:
    """The traced results with their reductions sorted into levels."""

    def __init__(self, inputs, elements, outputs, out_types):
        self.inputs, self.elements, self.outputs = inputs, elements, outputs
        self.out_types = out_types
        self._varies, self._level = {}, {}
        self.per_row = [not self.varies(e) for e in outputs]
        self.levels = self._sort()
        widest = max(self._widths(outputs))
        self.lanes = 64 // widest
        self.kept, self.kept_in = self._to_keep()

    def is_element(self, k):
        """Whether operand ``k``, outputs first, has a value for each position."""
        if k < len(self.outputs):
            return not self.per_row[k]
        return self.inputs[k - len(self.outputs)].name in self.elements

    def varies(self, e) -> bool:
        """Whether a value differs along the row."""
        known = self._varies.get(id(e))
        if known is None:
            if isinstance(e, Var):
                known = e.name in self.elements
            elif isinstance(e, (Along, At)):
                known = False
            else:
                known = isinstance(e, Position) or any(map(self.varies, e.args))
            self._varies[id(e)] = known
        return known

    def level(self, e) -> int:
        """How many passes must have ended before a value can be computed."""
        known = self._level.get(id(e))
        if known is None:
            known = max(map(self.level, e.args), default=0) + isinstance(e, Along)
            self._level[id(e)] = known
        return known

    def _sort(self):
        levels: dict = {}
        for e in _nodes(self.outputs):
            if isinstance(e, Along):
                levels.setdefault(self.level(e), []).append(e)
        return [levels[k] for k in sorted(levels)]

    def _widths(self, roots):
        for e in _nodes(roots):
            if self.varies(e) and not e.type.is_bool:
                yield e.type.itemsize
        yield 4

    def _to_keep(self):
        """The costly value, if any, that a pass leaves in the output for later ones."""
        later = _nodes(self.outputs, within=lambda e: not isinstance(e, Along))
        for k, (out, type) in enumerate(zip(self.outputs, self.out_types, strict=True)):
            for group in self.levels:
                for e in group:
                    value = e.args[0]
                    if (
                        any(value is other for other in later)
                        and _is_costly(value)
                        and value.type == type
                        and self.varies(out)
                    ):
                        return value, k
        return None, None


def _nodes(roots, within=lambda e: True):
    """Every node under the roots once, arguments before their users."""
    seen, order = set(), []

    def visit(e):
        if id(e) in seen:
            return
        seen.add(id(e))
        if within(e):
            for arg in e.args:
                visit(arg)
        order.append(e)

    for root in roots:
        visit(root)
    return order


def _is_costly(value):
    return any(
        isinstance(e, (At, Position))
        or isinstance(e, Call)
        and e.name not in CHEAP_CALLS
        for e in _nodes([value], within=lambda e: not isinstance(e, Along))
    )


class _Row:
    """Writes the passes over one row, with vectors of ``lanes`` or one by one."""

    copies_of_cheap = 4

    def __init__(self, b, program, rows, n, steps, lanes):
        self.b, self.program, self.n, self.lanes = b, program, n, lanes
        outputs = len(program.outputs)
        self.out_rows, self.in_rows = rows[:outputs], rows[outputs:]
        self.out_steps, self.in_steps = steps[:outputs], steps[outputs:]
        self.uniform, self.stored = {}, False

    def run(self):
        program = self.program
        for k, var in enumerate(program.inputs):
            if var.name not in program.elements:
                value = self.scalar_input(k, var.type)
                self.uniform[var.name] = self.b.let(var.name, value)
        for group in program.levels:
            self.reduce(group)
        for k, e in enumerate(program.outputs):
            if program.per_row[k]:
                self.put_scalar(k, self.scalar(e))
        varying = [k for k in range(len(program.outputs)) if not program.per_row[k]]
        if varying:
            roots = [program.outputs[k] for k in varying]
            self.hoist(roots)
            for i, mask in self.positions():
                with i as index:
                    self.write(varying, roots, index, mask(index))

    def scalar_input(self, k, type):
        """The value that one input has for this row."""
        return ir.cast(type, ir.load(self.in_rows[k], 0))

    def put_scalar(self, k, value):
        """Writes what an output has for this row."""
        self.b.store(self.out_rows[k], 0, ir.cast(self.program.out_types[k], value))

    def spread(self, value):
        """A value that is the same along the row, in every lane."""
        return _spread(value, self.lanes)

    def position(self, index):
        """The positions along the row that the lanes hold."""
        return index if self.lanes == 1 else ir.Ramp(self.lanes, index, Const(i64, 1))

    def whole_value(self, e, vector):
        """One value out of the partial results of the lanes."""
        if self.lanes == 1:
            return vector
        return Call(f"reduce_{e.op}", e.type, vector)

    def reduce(self, group):
        """One pass: every reduction of a level, and the value to keep if it is here."""
        b, lanes = self.b, self.lanes
        roots = [e.args[0] for e in group]
        self.hoist(roots)
        # Cheap values arrive faster than one chain of additions can take them in.
        cheap = lanes > 1 and not any(map(_is_costly, roots))
        copies = self.copies_of_cheap if cheap else 1
        sums = [
            [b.declare("partial", _spread(identity_of(e), lanes)) for e in group]
            for _ in range(copies)
        ]
        whole = ZERO
        if copies > 1:
            whole = b.let("blocks", self.n // (lanes * copies) * (lanes * copies))
            with b.loop("i", 0, whole, lanes * copies, kind="rolled") as index:
                for copy, partial in enumerate(sums):
                    self.accumulate(group, partial, index + copy * lanes, None)
        for i, mask in self.positions(whole):
            with i as index:
                self.accumulate(group, sums[0], index, mask(index))
        self.stored = self.stored or any(root is self.program.kept for root in roots)
        for k, e in enumerate(group):
            self.uniform[id(e)] = self.folded(e, [partial[k] for partial in sums])

    def accumulate(self, group, sums, index, mask):
        """The values at one position into their partial results."""
        b = self.b
        values = self.named([e.args[0] for e in group], index, mask)
        for e, var, value in zip(group, sums, values, strict=True):
            if e.args[0] is self.program.kept and not self.stored:
                # Named, because behind the store the compiler would compute it again.
                value = b.let("kept", value)
                self.put(self.program.kept_in, value, index, mask)
            if mask is not None:
                value = ir.select(mask, value, _spread(identity_of(e), self.lanes))
            b.assign(var, ir.Binary(e.op, var, value))

    def folded(self, e, parts):
        """One value out of partial results: pairs of vectors, then pairs of lanes."""
        while len(parts) > 1:
            parts = [
                ir.Binary(e.op, left, right)
                for left, right in zip(parts[::2], parts[1::2], strict=True)
            ]
        return self.b.let("along", self.whole_value(e, parts[0]))

    def positions(self, start=None):
        """The loops that cover a row: whole vectors, then one with a mask."""
        b, n, lanes = self.b, self.n, self.lanes
        start = ZERO if start is None else start
        if lanes == 1:
            yield b.loop("i", start, n, kind="rolled"), lambda index: None
            return
        whole = b.let("whole", n // lanes * lanes)
        yield b.loop("i", start, whole, lanes, kind="rolled"), lambda index: None
        yield (
            self.rest(whole),
            lambda index: b.let(
                "mask",
                ir.Binary(
                    "lt", ir.Ramp(lanes, index, Const(i64, 1)), ir.Broadcast(lanes, n)
                ),
            ),
        )

    @contextmanager
    def rest(self, whole):
        with self.b.when(whole < self.n):
            yield whole

    def hoist(self, roots):
        """Computes once, ahead of the loop, what is the same along the row."""
        program = self.program
        for e in _nodes(roots, within=program.varies):
            if not program.varies(e) and not isinstance(e, (Const, Var)):
                self.scalar(e)

    def scalar(self, e):
        """A value that is the same along the row, computed ahead of the loops."""
        if isinstance(e, Const):
            return e
        if isinstance(e, Var):
            return self.uniform.get(e.name, self.n)
        if id(e) not in self.uniform:
            if isinstance(e, At):
                value = self.at_one_place(e)
            else:
                value = e.rebuild(tuple(map(self.scalar, e.args)))
            self.uniform[id(e)] = self.b.let("row_value", value)
        return self.uniform[id(e)]

    def at_one_place(self, e):
        value, index = e.args
        lanes, self.lanes = self.lanes, 1
        stored, self.stored = self.stored, False
        self.hoist([value])
        result = self.value(value, self.scalar(index), None, {})
        self.lanes, self.stored = lanes, stored
        return result

    def value(self, e, index, mask, memo):
        """A traced expression at a position, with this row's lanes."""
        if id(e) not in memo:
            memo[id(e)] = self.fresh_value(e, index, mask, memo)
        return memo[id(e)]

    def fresh_value(self, e, index, mask, memo):
        if self.stored and e is self.program.kept:
            k = self.program.kept_in
            return self.load(self.out_rows[k], self.out_steps[k], index, mask)
        if not self.program.varies(e):
            return self.spread(self.scalar(e))
        if isinstance(e, Var):
            k = next(k for k, v in enumerate(self.program.inputs) if v.name == e.name)
            loaded = self.load(self.in_rows[k], self.in_steps[k], index, mask)
            return ir.cast(e.type, loaded)
        if isinstance(e, Position):
            return self.position(index)
        args = tuple(self.value(arg, index, mask, memo) for arg in e.args)
        return widen(e, args, self.lanes)

    def load(self, row, step, index, mask):
        if self.lanes == 1:
            return ir.load(ir.Offset(row, index * step), 0)
        return ir.load(row, index, self.lanes, mask=mask)

    def named(self, roots, index, mask):
        """Values at a position, with what they share named."""
        memo: dict = {}
        values = [self.value(root, index, mask, memo) for root in roots]
        lets, trees = name_shared(values, stem=self.b.fresh("v") + "_")
        for let in lets:
            self.b.add(let)
        return trees

    def write(self, positions, roots, index, mask):
        for k, value in zip(positions, self.named(roots, index, mask), strict=True):
            self.put(k, ir.cast(self.program.out_types[k], value), index, mask)

    def put(self, k, value, index, mask):
        row = self.out_rows[k]
        if self.lanes == 1:
            there = ir.Offset(row, index * self.out_steps[k])
            self.b.add(ir.Store(there, Const(i64, 0), value))
        else:
            self.b.add(ir.Store(row, index, value, mask=mask))


def _spread(value, lanes):
    if lanes == 1:
        return value
    if isinstance(value, Const):
        return Const(value.type.vector(lanes), value.value)
    return ir.Broadcast(lanes, value)


class _RowsBeside(_Row):
    """Writes the passes over as many rows as a vector has lanes, one in each lane.

    Every value is a vector: what is the same along a row still differs between rows.
    """

    copies_of_cheap = 1

    def __init__(self, b, program, rows, n, strides, lanes):
        super().__init__(b, program, rows, n, strides[2], lanes)
        apart = strides[1]
        self.apart = {row.name: stride for row, stride in zip(rows, apart, strict=True)}

    def scalar_input(self, k, type):
        return ir.cast(type, self.across(self.in_rows[k], self.in_rows[k]))

    def across(self, row, pointer):
        """One value of each row: they lie side by side, or there is one for all."""
        b, type = self.b, row.type.element
        values = b.declare("each", ir.Broadcast(self.lanes, ir.load(pointer, 0)))
        with b.when(self.apart[row.name] == type.itemsize):
            b.assign(values, ir.load(pointer, 0, self.lanes))
        return values

    def scalar(self, e):
        if id(e) not in self.uniform and not isinstance(e, (Const, Var)):
            args = [
                _spread(self.scalar(arg), self.lanes)
                if self.scalar(arg).type.lanes == 1
                else self.scalar(arg)
                for arg in e.args
            ]
            value = widen(e, tuple(args), self.lanes)
            self.uniform[id(e)] = self.b.let("row_value", value)
        return super().scalar(e)

    def spread(self, value):
        return value if value.type.lanes > 1 else _spread(value, self.lanes)

    def position(self, index):
        return ir.Broadcast(self.lanes, index)

    def whole_value(self, e, vector):
        return vector

    def positions(self, start=None):
        yield self.b.loop("i", 0, self.n, kind="rolled"), lambda index: None

    def load(self, row, step, index, mask):
        return self.across(row, ir.Offset(row, index * step))

    def put(self, k, value, index, mask):
        there = ir.Offset(self.out_rows[k], index * self.out_steps[k])
        self.b.add(ir.Store(there, ZERO, value))

    def put_scalar(self, k, value):
        value = self.spread(ir.cast(self.program.out_types[k], value))
        self.b.add(ir.Store(self.out_rows[k], ZERO, value))
