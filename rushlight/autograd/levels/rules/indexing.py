"""Elements and slices found by numbers."""

from __future__ import annotations

from rushlight.autograd.levels.rules.dimensions import shift
from rushlight.core.dtypes import bool_, uint8


def embedding(level, op, args):
    weight, places, *rest = args
    if level.owns(weight):
        return NotImplemented
    return level.wrap(op.redispatch(None, weight, level.front(places), *rest))


def index_select(level, op, args):
    x, dim, places = args
    if level.owns(places) or x.dim() == 0:
        return NotImplemented
    value = level.front(x)
    return level.wrap(op.redispatch(None, value, shift(dim, x.dim()), places))


def index(level, op, args):
    x, places = args
    at = [i for i, item in enumerate(places) if item is not None]
    if any(p is not None and level.owns(p) for p in places) or not level.owns(x):
        return NotImplemented
    if at != list(range(at[0], at[0] + len(at))):
        return NotImplemented
    if any(places[i].dtype in (bool_, uint8) for i in at):
        return NotImplemented
    return level.wrap(op.redispatch(None, level.front(x), [None, *places]))
