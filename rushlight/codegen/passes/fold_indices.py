"""Simplifies integer arithmetic by the rules of `simplify`.

Law: every expression keeps its value. Indices are counts that do not wrap: what is
made of loop variables, the kernel's integers and literals alone. Every other integer of
64 bits is data, and may.

    x[(i * 4 + 8) // 4]   ->   x[i + 2]
    x[i] * 4 // 4         ->   x[i] * 4 // 4
"""

from rushlight.ir import expr as ir
from rushlight.ir.rewrite import map_expr, map_statement
from rushlight.ir.simplify import DATA_RULES, INDEX_RULES, simplify_node

FOLDED = (ir.Binary, ir.Select, ir.Unary)
MADE = (ir.Binary, ir.Unary, ir.Ramp, ir.Broadcast)


def fold_indices(function):
    """The program with simpler integer expressions."""
    counts = {var.name for var in (ir.BEGIN, ir.END)} & {
        var.name for var in function.parameters
    }
    return function.with_body(_folded(function.body, counts))


def _folded(body, counts):
    """A block's statements; ``counts`` names the indices that it sees."""
    counts, result = set(counts), []
    for statement in body:
        known, inner = _Known(counts), counts
        if isinstance(statement, ir.For):
            own = {statement.var.name}
            inner = counts | own if known.holds(statement.start) else counts - own
        statement = map_statement(
            statement, known.fold, lambda body, inner=inner: _folded(body, inner)
        )
        result.append(statement)
        if isinstance(statement, (ir.Let, ir.Declare)):
            counts.discard(statement.var.name)
            if isinstance(statement, ir.Let) and _Known(counts).holds(statement.value):
                counts.add(statement.var.name)
    return tuple(result)


class _Known:
    """Tells indices from data among the expressions of one statement."""

    def __init__(self, counts):
        self.counts, self.memo = counts, {}

    def fold(self, e):
        return map_expr(e, self.fold_node)

    def fold_node(self, e):
        if not isinstance(e, FOLDED):
            return e  # nothing that rules are about
        indices = all(map(self.holds, e.args))
        return simplify_node(e, INDEX_RULES if indices else DATA_RULES)

    def holds(self, e):
        """Whether an expression is an index."""
        if id(e) not in self.memo:
            self.memo[id(e)] = self.decide(e), e
        return self.memo[id(e)][0]

    def decide(self, e):
        if isinstance(e, ir.Const):
            return True
        if isinstance(e, ir.Var):
            return e.name in self.counts
        if isinstance(e, ir.Load):
            return isinstance(e.args[0], ir.Var) and e.args[0].name == ir.INTS.name
        if isinstance(e, ir.Select):
            return all(map(self.holds, e.args[1:]))
        return isinstance(e, MADE) and all(map(self.holds, e.args))
