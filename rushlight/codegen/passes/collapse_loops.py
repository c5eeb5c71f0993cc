"""Makes one loop of a nest: the range that a kernel is given counts the innermost turns.

Law: every store stays, and writes what it wrote; `reference` of the nest is the oracle.

    for p in range(begin, end):          for at in range(begin, end):
        for y in range(h):          ->       p, y, x = at // (h * w), at // w % h, at % w
            row = y * s                      row = y * s
            for x in range(w):               ...
                ...

It is a schedule, which `codegen.loops.Loops.collapsed` asks for, not one of the passes of
`lower`. Where a body holds more than one loop, or writes to memory around it, that loop
is the body of the new one.

Source: ``collapse`` of OpenMP 5.2, section 4.4.3; ``fuse`` of Halide and TVM.
"""

from rushlight.ir import expr as ir
from rushlight.ir.rewrite import bodies_of


def collapse_loops(function):
    """The program with its outermost nest of loops as one loop.

    Raises:
        ValueError: the program is not one loop over its range.
    """
    *entry, outer = function.body
    if not isinstance(outer, ir.For) or outer.start is not ir.BEGIN:
        raise ValueError(f"collapse_loops: {function.name} is no loop over its range")
    levels, between = [outer], []
    while True:
        *before, inner = levels[-1].body
        if not _counts_from_zero(inner, levels) or any(map(_writes, before)):
            break
        between += before
        levels.append(inner)
    if len(levels) == 1:
        return function
    at = ir.Var("item", ir.i64)
    rest, positions = at, []
    for level in reversed(levels[1:]):
        positions.append(ir.Let(level.var, rest % level.stop))
        rest = rest // level.stop
    positions.append(ir.Let(outer.var, rest))
    body = (*reversed(positions), *between, *levels[-1].body)
    loop = ir.For(at, outer.start, outer.stop, body, kind=outer.kind)
    return function.with_body((*entry, loop))


def _counts_from_zero(statement, levels):
    """Whether a statement is a loop of as many turns each time it is met."""
    if not isinstance(statement, ir.For):
        return False
    plain = isinstance(statement.start, ir.Const) and statement.start.value == 0
    plain = plain and isinstance(statement.step, ir.Const) and statement.step.value == 1
    # what is known before the outermost loop: a constant, or one of the launch's integers
    inside = {s.var.name for level in levels for s in level.body if hasattr(s, "var")}
    inside |= {level.var.name for level in levels}
    stop = statement.stop
    known = isinstance(stop, ir.Const) or (
        isinstance(stop, ir.Var) and stop.name not in inside
    )
    return plain and known


def _writes(statement):
    """Whether a statement, or one inside it, has other effects than on local names."""
    if isinstance(statement, (ir.Let, ir.Declare, ir.Assign)):
        return False
    if isinstance(statement, (ir.If, ir.While, ir.For)):
        return any(_writes(s) for body in bodies_of(statement) for s in body)
    return not isinstance(statement, (ir.Break, ir.Continue))
