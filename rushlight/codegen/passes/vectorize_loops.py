"""Turns ``vectorized`` loops into loops over vectors, and one masked step for the rest.

Law: every element that was written is written with the same value, and nothing else is
touched. Loops that do anything but name values and store them side by side, from anywhere
that does not move with the loop, are left to LLVM's vectoriser; so are loops of a known
count that whole vectors do not fill, and all on a GPU, whose threads are scalar.

    for i in vectorized(0, n):        for i in rolled(0, n // 16 * 16, 16):
        out[i] = x[i] + 1.0     ->        out.put(i, x.lanes(i, 16) + 1.0)
                                      if n // 16 * 16 < n:
                                          mask = ramp(...) < broadcast(n, 16)
                                          out.put(..., x.lanes(..., mask) + 1.0, mask)

Where such a loop takes either its elements or one value for all of them, the choice is made
ahead of it: of where to load from, and of whether the index goes along.

    for i in vectorized(0, n):        one = local(f32, 16)
        out[i] = select(c, y, x[i])   if c: one.put(0, broadcast(y, 16))
                                 ->   either, along = select(c, one, x), select(c, 0, -1)
                                      for i in rolled(0, n // 16 * 16, 16):
                                          out.put(i, either.lanes(i & along, 16))

An element that is read where a condition holds, and used nowhere else, is a lane of a
masked load.

    select(c, x[select(c, i - 1, 0)], y)  ->  select(c, x.lanes(i - 1, 16, c), y)
"""

from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, Var, i64
from rushlight.ir.rewrite import map_statement, widen

VECTOR_BYTES = 64  # of AVX-512 one register; of others several, which hide latency


class Widths:
    """Bytes of the values that vary along a loop, and of those that lie in memory."""

    def __init__(self):
        self.values, self.memory = [1], [1]

    @property
    def lanes(self):
        """How many fill a vector of the widest value; of halves, a register in memory.

        Two registers of values at most hide one another's latency, where tables of
        functions leave room for no more.
        """
        widest = max(self.values)
        whole = current().vector_bytes * widest // max(self.memory)
        return max(VECTOR_BYTES, min(whole, 2 * VECTOR_BYTES)) // widest


def vectorize_loops(function):
    """The program with its simple vectorised loops written over vectors."""
    if current().is_gpu:
        return function
    names = Names()
    return function.with_body(_rewritten(function.body, names))


class Names:
    """Fresh names for what the pass adds."""

    def __init__(self):
        self.count = 0

    def var(self, stem, type):
        self.count += 1
        return Var(f"{stem}_v{self.count}", type)


def _rewritten(body, names):
    result = []
    for statement in body:
        if isinstance(statement, ir.For) and statement.kind == "vectorized":
            result += _vectorized(statement, names) or [statement]
        else:
            result.append(
                map_statement(
                    statement, lambda e: e, lambda inner: _rewritten(inner, names)
                )
            )
    return tuple(result)


def _vectorized(loop, names):
    """The statements instead of one loop, or None where it is not simple enough."""
    widths = _widths(loop)
    if widths is None:
        return None
    lanes = widths.lanes
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        if (loop.stop.value - loop.start.value) % lanes:
            return None  # LLVM finds vectors that fit, or none
    stop, whole = names.var("stop", i64), names.var("whole", i64)
    mask = names.var("mask", ir.boolean.vector(lanes))
    index = loop.var
    step = Const(i64, lanes)
    ramp = ir.Ramp(lanes, index, Const(i64, 1))
    choices = _Choices(loop, lanes, names)
    rest = (
        ir.Let(index, whole),  # the loop's variable is its last, partial vector's here
        ir.Let(mask, ir.Binary("lt", ramp, ir.Broadcast(lanes, stop))),
        *_Body(index, lanes, mask, choices).statements(loop.body),
    )
    vectors = _Body(index, lanes, None, choices).statements(loop.body)
    return [
        *choices.statements,
        ir.Let(stop, loop.stop),
        ir.Let(whole, loop.start + (stop - loop.start) // lanes * lanes),
        ir.For(index, loop.start, whole, vectors, step, "rolled"),
        ir.If(ir.Binary("lt", whole, stop), rest),
    ]


def _widths(loop):
    """The widths of what a loop goes through, or None if it is not simple."""
    if not isinstance(loop.step, Const) or loop.step.value != 1:
        return None
    varying, widths = {loop.var.name}, Widths()
    for s in loop.body:
        if isinstance(s, ir.Let):
            if not _is_simple(s.value, loop.var, varying, widths):
                return None
            if varies(s.value, varying):
                varying.add(s.var.name)
        elif isinstance(s, ir.Store) and s.mask is None and not s.streaming:
            if not goes_along(s.index, loop.var, varying):
                return None
            if varies(s.pointer, varying):
                return None
            widths.memory.append(s.value.type.itemsize)
            if not _is_simple(s.value, loop.var, varying, widths):
                return None
        elif not _joins(s) or not _is_simple(
            s.value.args[1], loop.var, varying, widths
        ):
            return None
    return widths


def _joins(s):
    """Whether a statement is ``flag = flag | condition``."""
    return (
        isinstance(s, ir.Assign)
        and isinstance(s.value, ir.Binary)
        and s.value.op == "or"
        and s.var.type.is_bool
        and _is_position(s.value.args[0], s.var)
    )


def _is_position(index, var):
    return isinstance(index, Var) and index.name == var.name


def goes_along(index, var, varying):
    """Whether an index is the loop's, or lies a fixed distance from it."""
    if isinstance(index, ir.Binary) and index.op == "add":
        left, right = index.args
        if not varies(right, varying):
            return goes_along(left, var, varying)
        return not varies(left, varying) and goes_along(right, var, varying)
    return _is_position(index, var)


def varies(e, varying):
    if isinstance(e, Var):
        return e.name in varying
    return any(varies(arg, varying) for arg in e.args)


def _is_simple(e, var, varying, widths):
    """Whether a value can be widened; adds the bytes of what it goes through."""
    if e.type.lanes > 1 or isinstance(e.type, ir.Pointer) and varies(e, varying):
        return False
    if not varies(e, varying):
        return True
    parts = _read_where(e)
    if parts is not None:
        return all(_is_simple(part, var, varying, widths) for part in parts)
    if isinstance(e, ir.Load):
        widths.values.append(e.type.itemsize)
        widths.memory.append(e.type.itemsize)
        side_by_side = goes_along(e.args[1], var, varying)
        return side_by_side and not varies(e.args[0], varying) and e.mask is None
    if not e.type.is_bool:
        widths.values.append(e.type.itemsize)
    return all(_is_simple(arg, var, varying, widths) for arg in e.args)


def _read_where(e):
    """Of ``select(c, p[select(c, i, 0)], y)`` the parts ``c``, ``p[i]`` and ``y``, or None."""
    if not isinstance(e, ir.Select) or not isinstance(e.args[1], ir.Load):
        return None
    if not current().masks(e.type.itemsize):
        return None  # LLVM's own vectors of a loop do better than lanes one by one
    condition, element, other = e.args
    pointer, index, *mask = element.args
    if (
        mask
        or not isinstance(index, ir.Select)
        or not ir.same(condition, index.args[0])
    ):
        return None
    return condition, ir.Load(1, element.alignment, pointer, index.args[1]), other


class _Choices:
    """Loads of a loop that has one value instead of all elements, where a choice says so.

    Attributes:
        statements: those to run ahead of the loop.
    """

    def __init__(self, loop, lanes, names):
        self.index, self.lanes, self.names = loop.var, lanes, names
        self.statements, self.known = [], {}
        named = {s.var.name for s in loop.body if isinstance(s, ir.Let)}
        self.inside = named | {loop.var.name}

    def load(self, e, mask):
        """A load of a select's lanes, or None where it is no such choice."""
        if not isinstance(e, ir.Select) or not isinstance(e.args[2], ir.Load):
            return None
        condition, one, element = e.args
        if not _is_position(element.args[1], self.index) or any(
            varies(part, self.inside)
            or part.type.lanes > 1
            or isinstance(part, ir.Load)
            for part in (condition, one, element.args[0])
        ):
            return None
        if id(e) not in self.known:
            self.known[id(e)] = *self.prepared(condition, one, element.args[0]), e
        pointer, along, _ = self.known[id(e)]
        index = ir.Binary("and", self.index, along)
        return ir.load(pointer, index, self.lanes, element.alignment, mask)

    def prepared(self, condition, one, pointer):
        """The pointer to load from, and what its index is masked by."""
        array = self.names.var("one", pointer.type)
        either = self.names.var("either", pointer.type)
        along = self.names.var("along", i64)
        store = ir.Store(array, Const(i64, 0), ir.Broadcast(self.lanes, one))
        self.statements += [
            ir.Array(array, self.lanes),
            ir.If(condition, (store,)),
            ir.Let(either, ir.Select(condition, array, pointer)),
            ir.Let(along, ir.Select(condition, Const(i64, 0), Const(i64, -1))),
        ]
        return either, along


class _Body:
    """Widens the statements of one loop; ``mask`` limits loads and stores."""

    def __init__(self, index, lanes, mask, choices):
        self.index, self.lanes, self.mask = index, lanes, mask
        self.choices = choices
        self.wide, self.memo = {}, {}

    def statements(self, body):
        return tuple(map(self.statement, body))

    def statement(self, s):
        if isinstance(s, ir.Store):
            return ir.Store(
                s.pointer, s.index, self.spread(s.value), s.alignment, self.mask
            )
        if isinstance(s, ir.Assign):
            return ir.Assign(s.var, s.var | self.any_lane(s.value.args[1]))
        value = self.value(s.value)
        if value.type.lanes == 1:
            return s
        var = self.wide[s.var.name] = Var(s.var.name, value.type)
        return ir.Let(var, value)

    def any_lane(self, condition):
        """Whether a condition holds in a lane that counts."""
        wide = self.spread(condition)
        if self.mask is not None:
            wide = wide & self.mask
        return ir.AnyLane(wide)

    def spread(self, e):
        value = self.value(e)
        if value.type.lanes > 1:
            return value
        if isinstance(value, Const):
            return Const(value.type.vector(self.lanes), value.value)
        return ir.Broadcast(self.lanes, value)

    def value(self, e):
        """The value over all lanes, or unchanged where every lane has the same."""
        if id(e) not in self.memo:
            self.memo[id(e)] = self.fresh(e), e
        return self.memo[id(e)][0]

    def fresh(self, e):
        if isinstance(e, Var):
            if e.name == self.index.name:
                return ir.Ramp(self.lanes, self.index, Const(i64, 1))
            return self.wide.get(e.name, e)
        if isinstance(e, ir.Load):
            if not varies(e.args[1], {self.index.name}):
                return e
            return ir.load(*e.args[:2], self.lanes, e.alignment, self.mask)
        parts = _read_where(e)
        if parts is not None:
            return self.read_where(*parts)
        chosen = self.choices.load(e, self.mask)
        if chosen is not None:
            return chosen
        args = tuple(map(self.value, e.args))
        if all(arg.type.lanes == 1 for arg in args):
            return e
        return widen(e, tuple(map(self.spread, e.args)), self.lanes)

    def read_where(self, condition, element, other):
        """The lanes of a load where a condition holds, those of a value elsewhere."""
        condition, other = self.spread(condition), self.spread(other)
        mask = condition if self.mask is None else condition & self.mask
        found = ir.load(*element.args, self.lanes, element.alignment, mask)
        return ir.select(condition, found, other)
