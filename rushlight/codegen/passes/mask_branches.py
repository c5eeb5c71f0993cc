"""Lets elements that loop for as long as their value asks run side by side.

Law: every element gets the bits that it would have had by itself. A branch is taken if a
lane takes it, and changes those lanes alone; a loop goes on until its last lane is done.
Loops whose lanes might do harm while they wait (a division of integers), that store or
load elsewhere than along the loop, or that are left from deep inside stay as they are,
one element after the other; so do all on a GPU, whose threads are scalar.

    for i in vectorized(0, n):        for i in rolled(0, n, 16):
        x = in0[i]                        mask = ramp(i, 1, 16) < broadcast(n, 16)
        count = 0.0                       x = in0.lanes(i, 16, mask)
        while x > 1.0:            ->      count = broadcast(0.0, 16)
            x = x / 10.0                  going = mask
            count = count + 1.0           while True:
        out[i] = count                        going = going & (x > broadcast(1.0, 16))
                                              if not any_lane(going):
                                                  break
                                              x = select(going, x / ..., x)
                                              count = select(going, count + ..., count)
                                          out.put(i, count, mask)
"""

from dataclasses import replace

from rushlight.codegen.passes.vectorize_loops import Names, goes_along, varies
from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, Var, i64
from rushlight.ir.rewrite import bodies_of, expressions_of, map_statement, widen

LANES = 16  # two vectors of float64: one is waited for while the other is worked on
TRAPS = {"floordiv", "mod", "div", "rem"}


def mask_branches(function):
    """The program with its vectorised loops that have loops inside written over lanes."""
    names = Names()
    return function.with_body(_rewritten(function.body, names))


def _rewritten(body, names):
    result = []
    for s in body:
        if isinstance(s, ir.For) and s.kind == "vectorized" and _loops(s.body):
            masked = not current().is_gpu and _Lanes(s, names).fits()
            result += _masked(s, names) if masked else [replace(s, kind="rolled")]
        else:
            result.append(
                map_statement(s, lambda e: e, lambda inner: _rewritten(inner, names))
            )
    return tuple(result)


def _loops(body):
    """Whether how long an element takes depends on it."""
    return any(isinstance(s, ir.While) or any(map(_loops, bodies_of(s))) for s in body)


def _masked(loop, names):
    mask = names.var("mask", ir.boolean.vector(LANES))
    stop = names.var("stop", i64)
    ramp = ir.Ramp(LANES, loop.var, Const(i64, 1))
    first = ir.Let(mask, ir.Binary("lt", ramp, ir.Broadcast(LANES, stop)))
    body = first, *_Lanes(loop, names).block(loop.body, mask)
    step = Const(i64, LANES)
    rolled = ir.For(loop.var, loop.start, stop, body, step, "rolled")
    return [ir.Let(stop, loop.stop), rolled]


class _Lanes:
    """Widens the statements of one loop.

    Attributes:
        wide: the variables of many lanes, by the names of those of one.
    """

    def __init__(self, loop, names):
        self.loop, self.index, self.names = loop, loop.var, names
        self.wide, self.memo = {}, {}

    # ---- what may be widened

    def fits(self):
        """Whether all of the loop can be."""
        step = self.loop.step
        if not isinstance(step, Const) or step.value != 1:
            return False
        return self.block_fits(self.loop.body, {self.index.name}, set(), False)

    def block_fits(self, body, divergent, mutable, in_while):
        return all(self.one_fits(s, divergent, mutable, in_while) for s in body)

    def one_fits(self, s, divergent, mutable, in_while):
        """The same of one statement; adds to the names that vary, or may change."""
        if not all(self.is_harmless(e, divergent) for e in expressions_of(s)):
            return False
        if isinstance(s, ir.Let):
            if varies(s.value, divergent):
                divergent.add(s.var.name)
            return True
        if isinstance(s, ir.Declare):
            divergent.add(s.var.name)
            mutable.add(s.var.name)
            return True
        if isinstance(s, ir.Assign):
            return s.var.name in mutable
        if isinstance(s, ir.Store):
            alone = s.mask is not None or s.streaming or varies(s.pointer, divergent)
            return not alone and goes_along(s.index, self.index, divergent)
        if isinstance(s, ir.If):
            if _leaves(s):
                return in_while
            return all(
                self.block_fits(b, divergent, mutable, False) for b in bodies_of(s)
            )
        if isinstance(s, ir.For) and any(
            varies(e, divergent) for e in expressions_of(s)
        ):
            return False
        if isinstance(s, (ir.While, ir.For)):
            inside = isinstance(s, ir.While)
            return self.block_fits(s.body, divergent, mutable, inside)
        return False

    def is_harmless(self, e, divergent):
        """Whether a value may be computed in lanes that do not want it."""
        if e.type.lanes > 1:
            return False
        if not varies(e, divergent):
            return True
        if isinstance(e, ir.Load):
            along = goes_along(e.args[1], self.index, divergent)
            return along and not varies(e.args[0], divergent) and e.mask is None
        if isinstance(e.type, ir.Pointer) or isinstance(e, ir.AnyLane):
            return False
        if isinstance(e, ir.Binary) and e.op in TRAPS and not e.type.is_float:
            return False
        return all(self.is_harmless(arg, divergent) for arg in e.args)

    # ---- widening

    def block(self, body, mask):
        """The statements, done in the lanes of a mask."""
        result = []
        for s in body:
            result += self.statement(s, mask)
        return tuple(result)

    def statement(self, s, mask):
        if isinstance(s, ir.Let):
            value = self.value(s.value, mask)
            if value.type.lanes == 1:
                return [s]
            var = self.wide[s.var.name] = Var(s.var.name, value.type)
            return [ir.Let(var, value)]
        if isinstance(s, ir.Declare):
            value = self.spread(s.value, mask)
            var = self.wide[s.var.name] = Var(s.var.name, value.type)
            return [ir.Declare(var, value)]
        if isinstance(s, ir.Assign):
            var = self.wide[s.var.name]
            return [ir.Assign(var, ir.Select(mask, self.spread(s.value, mask), var))]
        if isinstance(s, ir.Store):
            value = self.spread(s.value, mask)
            return [ir.Store(s.pointer, s.index, value, s.alignment, mask)]
        if isinstance(s, ir.If):
            return self.branch(s, mask)
        if isinstance(s, ir.For):
            return [replace(s, body=self.block(s.body, mask))]
        return self.repeat(s, mask)

    def branch(self, s, mask):
        condition = self.value(s.condition, mask)
        if condition.type.lanes == 1 and _leaves(s):
            return [s]
        if condition.type.lanes == 1:
            then, otherwise = (self.block(body, mask) for body in bodies_of(s))
            return [ir.If(condition, then, otherwise)]
        if _leaves(s):
            return self.go_on(mask, ir.Unary("not", condition))
        result = []
        kept = self.names.var("taken", condition.type)
        result.append(ir.Let(kept, condition))
        for body, lanes in ((s.then, kept), (s.otherwise, ir.Unary("not", kept))):
            if body:
                active = self.names.var("there", condition.type)
                result.append(ir.Let(active, mask & lanes))
                result.append(ir.If(ir.AnyLane(active), self.block(body, active)))
        return result

    def go_on(self, going, condition):
        """Lanes without the condition leave a loop: they wait for the others."""
        return [
            ir.Assign(going, going & condition),
            ir.If(ir.Unary("not", ir.AnyLane(going)), (ir.Break(),)),
        ]

    def repeat(self, s, mask):
        going = self.names.var("going", mask.type)
        inner = []
        if not isinstance(s.condition, Const):
            inner += self.go_on(going, self.spread(s.condition, going))
        inner += self.block(s.body, going)
        forever = ir.While(Const(ir.boolean, True), tuple(inner))
        return [ir.Declare(going, mask), forever]

    def spread(self, e, mask):
        value = self.value(e, mask)
        if value.type.lanes > 1:
            return value
        if isinstance(value, Const):
            return Const(value.type.vector(LANES), value.value)
        return ir.Broadcast(LANES, value)

    def value(self, e, mask):
        """The value over all lanes, or unchanged where every lane has the same."""
        key = id(e), mask.name
        if key not in self.memo:
            self.memo[key] = self.fresh(e, mask), e
        return self.memo[key][0]

    def fresh(self, e, mask):
        if isinstance(e, Var):
            if e.name == self.index.name:
                return ir.Ramp(LANES, self.index, Const(i64, 1))
            return self.wide.get(e.name, e)
        if isinstance(e, ir.Load):
            if not varies(e.args[1], {self.index.name}):
                return e
            return ir.load(*e.args[:2], LANES, e.alignment, mask)
        args = tuple(self.value(arg, mask) for arg in e.args)
        if all(arg.type.lanes == 1 for arg in args):
            return e
        return widen(e, tuple(self.spread(arg, mask) for arg in e.args), LANES)


def _leaves(s):
    """Whether a branch leaves the loop that it stands in, and does no more."""
    return len(s.then) == 1 and isinstance(s.then[0], ir.Break) and not s.otherwise
