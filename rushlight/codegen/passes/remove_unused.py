"""Removes names that nothing reads.

Law: every store stays, and writes what it wrote.

    n = ints[0]      ->   out[i] = x[i]
    t = x[i] * 2
    out[i] = x[i]
"""

from __future__ import annotations

from rushlight.codegen import expr as ir
from rushlight.codegen.rewrite import bodies_of, expressions_of, map_statement

DEFINITIONS = (ir.Let, ir.Declare, ir.Assign, ir.Array)


def remove_unused(function):
    """The program without unread definitions."""
    while True:
        used = set()
        _collect(function.body, used)
        body = _kept(function.body, used)
        if _size(body) == _size(function.body):
            return function
        function = function.with_body(body)


def _collect(body, used):
    for statement in body:
        own = statement.var.name if isinstance(statement, ir.Assign) else None
        for e in expressions_of(statement):
            _names(e, used, own, set())
        for inner in bodies_of(statement):
            _collect(inner, used)


def _names(e, used, own, seen):
    """Adds the names in ``e``; a local that only feeds itself does not count."""
    if id(e) in seen:
        return
    seen.add(id(e))
    if isinstance(e, ir.Var) and e.name != own:
        used.add(e.name)
    for arg in e.args:
        _names(arg, used, own, seen)


def _kept(body, used):
    kept = []
    for statement in body:
        if isinstance(statement, DEFINITIONS) and statement.var.name not in used:
            continue
        kept.append(map_statement(statement, lambda e: e, lambda b: _kept(b, used)))
    return tuple(kept)


def _size(body):
    return sum(1 + sum(map(_size, bodies_of(s))) for s in body)
