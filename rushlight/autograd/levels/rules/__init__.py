"""How operators take a whole batch: rules by kind, found once for each operator.

A rule is called as ``rule(level, op, args)`` while the levels outside see calls, with at
least one batched tensor among the arguments. It returns tensors of the level, or
NotImplemented where the arguments are of a form that it does not take. A declaration
names the rule in any of the files here.
"""

from importlib import import_module
from typing import NamedTuple

from rushlight.autograd.levels.rules.dimensions import along_dim
from rushlight.autograd.levels.rules.elementwise import elementwise
from rushlight.autograd.levels.rules.reductions import reduction
from rushlight.autograd.levels.stack import each
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import (
    ARGUMENTS,
    BATCHING,
    IMPLEMENTATION,
    INPLACE,
    KIND,
    OUT,
)
from rushlight.dispatch.rules_from_outside import vmap_rules

_found = {}


def rule_of(op):
    """The operator's rule, or None."""
    if op in vmap_rules:
        return registered
    if op not in _found:
        _found[op] = _choose(op)
    return _found[op]


class VmapInfo(NamedTuple):
    """What a rule from outside is told of the batch."""

    batch_size: int
    randomness: str


def registered(level, op, args):
    """A rule from outside: it is told which dimensions count the examples.

    Raises:
        RuntimeError: it gives no dimensions for its results.
    """

    def dim_of(arg):
        if isinstance(arg, Tensor):
            return arg._stand.dim if level.owns(arg) else None
        if isinstance(arg, (list, tuple)) and any(isinstance(t, Tensor) for t in arg):
            return [dim_of(each) for each in arg]
        return None

    values = each(level.unwrap, args)
    positional, named, dims = [], {}, []
    for row, value, arg in zip(op.signature.rows, values, args, strict=True):
        if row[3]:
            named[row[0]] = value
        else:
            positional.append(value)
            dims.append(dim_of(arg))
    info = VmapInfo(level.size, level.randomness)
    given = vmap_rules[op](info, tuple(dims), *positional, **named)
    if not isinstance(given, tuple) or len(given) != 2:
        raise RuntimeError(
            f"the vmap rule of {op.namespace}::{op.name} must return a tuple of its "
            f"output and of the output's dimensions, but returned {type(given).__name__}"
        )
    return _wrapped(level, *given)


def _wrapped(level, result, dims):
    """Results with the dimensions that count the examples."""
    if isinstance(result, Tensor):
        return result if dims is None else level.wrap(result, dims)
    if isinstance(result, (tuple, list)):
        each_dim = dims if isinstance(dims, (tuple, list)) else [dims] * len(result)
        parts = zip(result, each_dim, strict=True)
        return type(result)(_wrapped(level, part, dim) for part, dim in parts)
    return result


def _load(module, name):
    """A rule that a declaration names."""
    return getattr(import_module(module), name)


def _choose(op):
    """What the declaration says; else what its kind of kernel implies."""
    if op.form == OUT or not op.entry:
        return None
    said = op.entry[BATCHING]
    kind = op.entry[IMPLEMENTATION][KIND]
    if isinstance(said, tuple):
        rows = op.entry[ARGUMENTS]
        rule = _load(*said)
        own = bool(rows and rows[0][5] & 1)  # declared in place, and so is the rule
        if own or op.form != INPLACE or getattr(rule, "in_place", False):
            return rule
        return overwritten
    if said == "elementwise" or kind == "pointwise":
        return elementwise
    if said == "along":
        return along_dim
    if op.form == INPLACE:
        return None
    return {"reduction": reduction, "view": along_dim}.get(kind)


def overwritten(level, op, args):
    """What the form without writing computes is written over the examples."""
    rule = rule_of(op.functional) if op.functional is not None else None
    result = NotImplemented if rule is None else rule(level, op.functional, args)
    target = args[0]
    if result is NotImplemented or not level.owns(result):
        return NotImplemented
    if result.shape != target.shape or result.dtype != target.dtype:
        return NotImplemented  # one example's call says what is wrong
    level.front(target).copy_(level.front(result))
    return target
