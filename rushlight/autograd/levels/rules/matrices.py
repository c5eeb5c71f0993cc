"""Functions of matrices: batches of them broadcast before the last two dimensions."""

from rushlight.autograd.levels.stack import mapped
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import ARGUMENTS
from rushlight.operators.functions import broadcast_shapes

# How many dimensions one operand of these names has; others are matrices.
VECTORS = {"tau": 1, "pivots": 1, "LU_pivots": 1, "atol": 0, "rtol": 0, "rcond": 0}


def matrices(level, op, args):
    """Every operand gets all the batches that any has."""
    given = _named(op, args)
    own = {
        name: VECTORS.get(name, 2)
        for name, arg in given.items()
        if isinstance(arg, Tensor)
    }
    if any(given[name].dim() < count for name, count in own.items()):
        return NotImplemented
    rank = max(given[name].dim() - count for name, count in own.items())
    for name, count in own.items():
        given[name] = _padded(level, given[name], rank + count)
    batch = broadcast_shapes(*(given[name].shape[: rank + 1] for name in own))
    for name in own:
        sizes = given[name].shape[rank + 1 :]
        given[name] = given[name].expand(*batch, *sizes)
    return mapped(level.wrap, op.redispatch(None, *given.values()))


def equations(level, op, args):
    """Matrices and right sides, which may be vectors of as many elements as rows."""
    a, b, *rest = args
    vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    sides = b.dim() + vector
    if a.dim() < 2 or sides < 2:
        return NotImplemented
    rank = max(a.dim(), sides)
    added = list(range(1, 1 + rank - a.dim()))
    right = _padded(level, b, rank - vector)
    if vector:
        right = right.unsqueeze(-1)
    result, *found = op.redispatch(None, _padded(level, a, rank), right, *rest)
    if vector:
        result = result.squeeze(-1)
    # of the matrices alone: their factors, and which were singular
    found = [part.squeeze(added) if added else part for part in found]
    return tuple(map(level.wrap, (result, *found)))


def _named(op, args):
    return {row[0]: arg for row, arg in zip(op.entry[ARGUMENTS], args, strict=True)}


def _padded(level, tensor, rank):
    """All examples, of so many dimensions each."""
    value = level.filled(tensor)
    for _ in range(rank - tensor.dim()):
        value = value.unsqueeze(1)
    return value
