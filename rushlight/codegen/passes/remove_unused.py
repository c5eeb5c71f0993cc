"""Removes names that nothing reads.

Law: every store stays, and writes what it wrote.

    n = ints[0]      ->   out[i] = x[i]
    t = x[i] * 2
    out[i] = x[i]
"""

from rushlight.ir import expr as ir
from rushlight.ir.rewrite import bodies_of, expressions_of, map_statement

DEFINITIONS = (ir.Let, ir.Declare, ir.Assign, ir.Array)


def remove_unused(function):
    """The program without unread definitions."""
    feeds, pending = {}, set()
    _collect(function.body, feeds, pending)
    used = set()
    while pending:
        name = pending.pop()
        if name not in used:
            used.add(name)
            pending |= feeds.get(name, set()) - used
    return function.with_body(_kept(function.body, used))


def _collect(body, feeds, wanted):
    """Notes what names read: for each definition, and for all that has effects."""
    for statement in body:
        into = wanted
        if isinstance(statement, DEFINITIONS):
            into = feeds.setdefault(statement.var.name, set())
        for e in expressions_of(statement):
            _names(e, into)
        for inner in bodies_of(statement):
            _collect(inner, feeds, wanted)


def _names(e, found):
    """Adds the names in an expression, each node of which is looked at once."""
    seen, pending = set(), [e]
    while pending:
        node = pending.pop()
        if isinstance(node, ir.Var):
            found.add(node.name)
        elif node.args and id(node) not in seen:
            seen.add(id(node))
            pending.extend(node.args)


def _kept(body, used):
    kept = []
    for statement in body:
        if isinstance(statement, DEFINITIONS) and statement.var.name not in used:
            continue
        kept.append(map_statement(statement, lambda e: e, lambda b: _kept(b, used)))
    return tuple(kept)
