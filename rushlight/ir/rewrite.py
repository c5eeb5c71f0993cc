"""Rewriting of programs: maps over trees, and tables of rules.

A rule is ``before, after`` or ``before, after, condition``. Pattern variables stand for
any expression; ones named ``a`` to ``d`` stand for integer literals only. ``fold(e)``
in the right side is computed at once.
"""

import functools
import operator
from dataclasses import fields, replace

from rushlight.ir import expr as ir
from rushlight.ir.expr import Binary, Const, Expr, Select, Unary, Var, i64


def map_expr(e: Expr, change, memo=None) -> Expr:
    """``e`` with ``change`` applied to every node, arguments first."""
    memo = {} if memo is None else memo
    pending = [e]
    while pending:
        node = pending[-1]
        if id(node) in memo:
            pending.pop()
            continue
        missing = []
        for arg in node.args:
            if id(arg) not in memo:
                if arg.args:
                    missing.append(arg)
                else:
                    memo[id(arg)] = change(arg), arg
        if missing:
            missing.reverse()
            pending += missing
            continue
        pending.pop()
        args = [memo[id(arg)][0] for arg in node.args]
        same = all(map(operator.is_, args, node.args))
        # the node is kept too, so that its id is not reused
        memo[id(node)] = change(node if same else node.rebuild(tuple(args))), node
    return memo[id(e)][0]


@functools.cache
def _fields(kind) -> tuple:
    """The names of a statement's parts, the variable that it names left out."""
    return tuple(item.name for item in fields(kind) if item.name != "var")


def map_statement(s, on_expr, on_body):
    """A statement with every expression and every body replaced."""
    changes = {}
    for name in _fields(type(s)):
        value = getattr(s, name)
        if isinstance(value, tuple):
            new = on_body(value)
        elif isinstance(value, Expr):
            new = on_expr(value)
        else:
            continue
        if new is not value:
            changes[name] = new
    return replace(s, **changes) if changes else s


def expressions_of(s):
    """The expressions that a statement evaluates itself, not those in its bodies."""
    values = (getattr(s, name) for name in _fields(type(s)))
    return [value for value in values if isinstance(value, Expr)]


def bodies_of(s):
    """The bodies of a statement."""
    values = (getattr(s, name) for name in _fields(type(s)))
    return [value for value in values if isinstance(value, tuple)]


def widen(e: Expr, args, lanes: int) -> Expr:
    """A scalar operation over vectors."""
    if isinstance(e, ir.Call):
        return ir.Call(e.name, e.type.vector(lanes), *args)
    if isinstance(e, (ir.Cast, ir.Reinterpret)):
        return type(e)(e.type.vector(lanes), *args)
    return e.rebuild(args)


LITERALS = "abcd"


def pattern(names: str) -> tuple:
    """Pattern variables, one for each name."""
    return tuple(Var(name, i64) for name in names.split())


def fold(e: Expr) -> Expr:
    """Marks a right-hand side over literals, to be computed when the rule fires."""
    return ir.Folded(e)


class Rule:
    """One rewriting of integer expressions."""

    def __init__(self, before, after, condition=None):
        self.before = before
        self.after = ir.as_expr(after, before.type)
        self.condition = condition

    def __str__(self):
        guard = "" if self.condition is None else f" if {self.condition!r}"
        return f"{self.before!r} -> {self.after!r}{guard}"

    def apply(self, e: Expr) -> Expr | None:
        """The rewritten expression, or None where the rule does not fit."""
        found: dict = {}
        if not _match(self.before, e, found):
            return None
        if self.condition is not None and not evaluate(self.condition, found):
            return None
        return _substitute(self.after, found)

    @property
    def names(self) -> list:
        """The pattern's variables, in order of appearance."""
        found: list = []
        _collect(self.before, found)
        return found


class Rules:
    """An ordered table of rules, indexed by the operation at their root."""

    def __init__(self, *rows):
        self.rules = [Rule(*row) for row in rows]
        self.index: dict = {}
        for rule in self.rules:
            row = rule, tuple(map(_wanted, rule.before.args))
            self.index.setdefault(_root(rule.before), []).append(row)

    def __iter__(self):
        return iter(self.rules)

    def __call__(self, e: Expr) -> Expr | None:
        """``e`` rewritten at its root by the first rule that fits, or None."""
        rows = self.index.get(_root(e))
        if rows is None:
            return None
        roots = [_root(arg) for arg in e.args]
        for rule, wanted in rows:
            if any(w is not None and w != r for w, r in zip(wanted, roots)):
                continue  # most rules do not fit at a glance
            result = rule.apply(e)
            if result is not None:
                return result
        return None


def _root(e):
    return type(e), getattr(e, "op", None)


def _wanted(shape):
    """The root that a pattern asks for, or None where any will do."""
    if isinstance(shape, Var):
        return (Const, None) if shape.name in LITERALS else None
    return _root(shape)


def _collect(e, found):
    if isinstance(e, Var) and e.name not in found:
        found.append(e.name)
    for arg in e.args:
        _collect(arg, found)


def _match(shape, e, found):
    if isinstance(shape, Var):
        if shape.name in LITERALS and not isinstance(e, Const):
            return False
        known = found.setdefault(shape.name, e)
        return known is e or ir.same(known, e)
    if isinstance(shape, Const):
        return isinstance(e, Const) and not e.type.is_float and e.value == shape.value
    if _root(shape) != _root(e):
        return False
    return all(_match(s, x, found) for s, x in zip(shape.args, e.args, strict=True))


def _substitute(shape, found):
    if isinstance(shape, Var):
        return found[shape.name]
    if isinstance(shape, Const):
        return shape
    if isinstance(shape, ir.Folded):
        return Const(shape.type, evaluate(shape.args[0], found))
    return shape.rebuild(tuple(_substitute(arg, found) for arg in shape.args))


OPERATIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: x // y if y else 0,
    "mod": lambda x, y: x % y if y else 0,
    "min": min,
    "max": max,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "shl": lambda x, y: x << y,
    "shr": lambda x, y: x >> y,
}


def evaluate(e: Expr, values: dict):
    """The value of an integer expression; ``values`` binds names to literals."""
    if isinstance(e, Const):
        return e.value
    if isinstance(e, Var):
        value = values[e.name]
        return value.value if isinstance(value, Const) else value
    args = [evaluate(arg, values) for arg in e.args]
    if isinstance(e, Binary):
        return OPERATIONS[e.op](*args)
    if isinstance(e, Select):
        return args[1] if args[0] else args[2]
    if isinstance(e, Unary):
        if e.op == "not":
            return not args[0] if e.type.is_bool else ~args[0]
        return -args[0] if e.op == "neg" else abs(args[0])
    return args[0]
