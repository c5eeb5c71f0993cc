"""Divides indices in 32 bits, where a launch says that all its integers fit.

Law: every expression keeps its value while the kernel's integers, and its range, are at
least 0 and below `LIMIT`.

    row = at // inner      ->      row = i64(u32(at) // u32(inner))
    x[row, at % inner]             x[row, i64(u32(at) % u32(inner))]

GPUs have no instruction that divides: 64 bits take some hundred others, with the branches
around them, 32 take twenty. What is divided must be known not to be negative: loop variables,
the kernel's integers and what sums, products, quotients and minima of them make. It is a
schedule of `gpu_entries.span_entry`, not one of the passes of `lower`.

Source: LLVM's BypassSlowDivision tests at run time what the launch knows here.
"""

from rushlight.ir import expr as ir
from rushlight.ir.expr import Binary, Const, cast, i64, u32
from rushlight.ir.rewrite import map_expr, map_statement

LIMIT = 1 << 29  # so that sums of several indices fit 32 bits, too
FITS = 1 << 32

# The largest value of an operation from those of its operands, none of them negative
LARGEST = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a,
    "mod": lambda a, b: min(a, b),
    "min": min,
    "max": max,
}


def narrow_divisions(function):
    """The program with divisions of 32 bits."""
    known = {var.name: LIMIT for var in (ir.BEGIN, ir.END)}
    return function.with_body(_narrowed(function.body, known))


def _narrowed(body, known):
    """A block's statements; ``known`` has the largest value of each index that it sees."""
    known, result = dict(known), []
    for statement in body:
        bounds, inner = _Bounds(known), known
        if isinstance(statement, ir.For):
            inner = {k: v for k, v in known.items() if k != statement.var.name}
            forward = isinstance(statement.step, Const) and statement.step.value > 0
            last = bounds.largest(statement.stop)
            if (
                forward
                and last is not None
                and bounds.largest(statement.start) is not None
            ):
                inner[statement.var.name] = last
        named = isinstance(statement, ir.Let) and bounds.largest(statement.value)
        statement = map_statement(
            statement,
            lambda e, bounds=bounds: map_expr(e, bounds.divide),
            lambda body, inner=inner: _narrowed(body, inner),
        )
        result.append(statement)
        if isinstance(statement, (ir.Let, ir.Declare)):
            known.pop(statement.var.name, None)
            if isinstance(statement, ir.Let) and named is not None:
                known[statement.var.name] = named
    return tuple(result)


class _Bounds:
    """The largest values of one statement's expressions: None of what may be anything."""

    def __init__(self, known):
        self.known, self.memo = known, {}

    def divide(self, e):
        """The node, or a division of 32 bits that has its value."""
        if not isinstance(e, Binary) or e.op not in ("floordiv", "mod"):
            return e
        left, right = e.args
        if self.largest(left) is None or self.largest(right) is None:
            return e
        if isinstance(right, Const) and right.value & (right.value - 1) == 0:
            return e  # a shift
        found = cast(i64, Binary(e.op, cast(u32, left), cast(u32, right)))
        self.memo[id(found)] = self.largest(e), found
        return found

    def largest(self, e):
        """The largest value of an expression below `FITS` that is never negative."""
        if id(e) not in self.memo:
            found = self.decide(e)
            self.memo[id(e)] = None if found is None or found >= FITS else found, e
        return self.memo[id(e)][0]

    def decide(self, e):
        if e.type != i64:
            return None
        if isinstance(e, Const):
            return e.value if e.value >= 0 else None
        if isinstance(e, ir.Var):
            return self.known.get(e.name)
        if isinstance(e, ir.Load):
            base = e.args[0]
            is_integer = isinstance(base, ir.Var) and base.name == ir.INTS.name
            return LIMIT if is_integer else None
        if isinstance(e, ir.Select):
            sides = [self.largest(side) for side in e.args[1:]]
            return None if None in sides else max(sides)
        if not isinstance(e, Binary) or e.op not in LARGEST:
            return None
        sides = [self.largest(side) for side in e.args]
        return None if None in sides else LARGEST[e.op](*sides)
