"""Dimensions summed over, the batch kept."""

from __future__ import annotations

from rushlight.autograd.levels.rules.dimensions import shift
from rushlight.autograd.levels.stack import each, mapped
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import ARGUMENTS, NAME


def reduction(level, op, args):
    """The batch is kept; where no dimension is named, all of an example go."""
    x = args[0]
    names = [row[0] for row in op.entry[ARGUMENTS]]
    values = each(level.filled, args)
    rank = x.dim()
    if rank == 0:
        values[0] = values[0].unsqueeze(1)
    named = values[names.index("dim")] if "dim" in names else None
    everything = named is None or (isinstance(named, (list, tuple)) and not named)
    if everything and named is not None and op.entry[NAME] in ("any", "all"):
        return NotImplemented  # to these, no dimensions are none
    if not everything:
        if rank == 0:
            # the one element is a row of its own, and none is kept
            values[names.index("dim")] = shift(named, 1)
            if "keepdim" in names:
                values[names.index("keepdim")] = False
            return mapped(level.wrap, op.redispatch(None, *values))
        values[names.index("dim")] = shift(named, rank)
        return mapped(level.wrap, op.redispatch(None, *values))
    if "keepdim" in names and values[names.index("keepdim")]:
        return NotImplemented
    flat = values[0].flatten(1)
    base = op.entry[NAME]
    if base in ("max", "min"):
        return level.wrap(getattr(flat, "a" + base)(1))
    function = FLAT.get(base)
    if function is None:
        return NotImplemented
    rest = {name: value for name, value in zip(names[1:], values[1:]) if name != "dim"}
    rest.pop("keepdim", None)
    result = function(flat, dim=1, **{k: v for k, v in rest.items() if v is not None})
    return mapped(level.wrap, result)


FLAT = {
    name: getattr(Tensor, name)
    for name in (
        *("sum", "nansum", "mean", "prod", "any", "all", "amax", "amin", "argmax"),
        *("argmin", "count_nonzero", "var", "std", "logsumexp"),
    )
}
