"""Drops what is known not to run.

Law: the statements that run, and their order, stay the same.

    if True:              ->   out[i] = x[i]
        out[i] = x[i]
    for j in range(3, 3):
        ...
"""

from rushlight.ir import expr as ir
from rushlight.ir.rewrite import map_statement


def prune_branches(function):
    """The program without dead branches and empty loops."""
    return function.with_body(_pruned(function.body))


def _pruned(body):
    result = []
    for statement in body:
        statement = map_statement(statement, lambda e: e, _pruned)
        if isinstance(statement, ir.If):
            result += _branch(statement)
        elif not _is_empty(statement):
            result.append(statement)
    return tuple(result)


def _branch(s):
    if isinstance(s.condition, ir.Const):
        return s.then if s.condition.value else s.otherwise
    return [s] if s.then or s.otherwise else []


def _is_empty(s):
    if not isinstance(s, ir.For):
        return False
    bounds = isinstance(s.start, ir.Const) and isinstance(s.stop, ir.Const)
    return not s.body or bounds and s.start.value >= s.stop.value
