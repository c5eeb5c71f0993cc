"""Dimensions summed over, the batch kept."""

import functools

from rushlight.autograd.levels.rules.dimensions import shift
from rushlight.autograd.levels.stack import each, mapped
from rushlight.dispatch.declared import ARGUMENTS, NAME
from rushlight.dispatch.schema import KINDS
from rushlight.operators import call


def reduction(level, op, args):
    """The batch is kept; where no dimension is named, all of an example go."""
    rows = op.entry[ARGUMENTS]
    names = [row[0] for row in rows]
    values = each(level.filled, args)
    rank = args[0].dim()
    if rank == 0:
        # the one element is a row of its own, and none is kept
        values[0], rank = values[0].unsqueeze(1), 1
        if "keepdim" in names:
            values[names.index("keepdim")] = False
    at = names.index("dim") if "dim" in names else None
    named = None if at is None else values[at]
    if isinstance(named, (list, tuple)) and not named:
        if op.entry[NAME] in ("any", "all"):
            # to these, no dimensions are none
            return level.wrap(op.redispatch(None, level.front(args[0]), *args[1:]))
        named = None
    if named is not None:
        values[at] = shift(named, rank)
        return mapped(level.wrap, op.redispatch(None, *values))
    if at is not None and rows[at][1] in DIMS:
        values[at] = list(range(1, rank + 1))
        return mapped(level.wrap, op.redispatch(None, *values))
    return _of_rows(level, op, names, values)


def _of_rows(level, op, names, values):
    """The elements of each example as a row, by the form of the operator for rows."""
    base = op.entry[NAME]
    given = dict(zip(names[1:], values[1:], strict=True))
    given.pop("dim", None)
    keepdim = given.pop("keepdim", False)
    flat = values[0].flatten(1)
    along = _overload_along(base)
    if base in ("max", "min"):  # gradients go to all extremes, not to the first
        result = getattr(call, "a" + base)(flat, 1)
    elif along is not None:
        given = {k: v for k, v in given.items() if v is not None}
        result = getattr(call, base)(flat, dim=1, **given)
        if len(along.returns) > len(op.returns):  # its place comes with it
            result = result[0]
    else:
        return NotImplemented
    if keepdim:
        kept = [level.size] + [1] * (values[0].dim() - 1)
        result = mapped(lambda part: part.reshape(kept), result)
    return mapped(level.wrap, result)


@functools.cache
def _overload_along(base):
    """The overload of a name that goes along one dimension; None where there is none."""
    for op in getattr(call, base).overloads:
        if any(row[0] == "dim" for row in op.entry[ARGUMENTS]):
            return op
    return None


# The kinds of arguments that are a list of dimensions.
DIMS = frozenset({KINDS["int[]"], KINDS["int[]?"]})
