"""Elements and slices found by numbers."""

from rushlight.autograd.levels.rules.dimensions import in_place, shift
from rushlight.autograd.levels.rules.images import merged
from rushlight.core.dtypes import bool_, int64, uint8
from rushlight.dispatch.declared import INPLACE, NAME
from rushlight.operators import call


def _numbers(level, like, rank):
    """The number of each example, with so many dimensions of one element behind."""
    numbers = call.arange(level.size, dtype=int64, device=like.device)
    return numbers.view(level.size, *[1] * rank)


# -- lists of indices -------------------------------------------------------------------


class BatchedIndices:
    """Indices for each dimension of one example, as indices for a batch of examples.

    Attributes:
        given: the list for the batch, whose first dimension has a position of its own.
        first: the dimension of an example before which the indices' own come.
        rank: how many dimensions the indices have.
    """

    def __init__(self, level, x, indices):
        at = [i for i, item in enumerate(indices) if item is not None]
        self.rank = max(indices[i].dim() for i in at)
        # where dimensions without indices stand between, those of indices come first
        adjacent = at == list(range(at[0], at[0] + len(at)))
        self.first = at[0] if adjacent else 0
        self.given = [_numbers(level, x, self.rank)]
        for position in indices:
            if position is not None and level.owns(position):
                value = level.front(position)
                for _ in range(self.rank - position.dim()):
                    value = value.unsqueeze(1)
                position = value
            self.given.append(position)

    def order(self, rank):
        """Where dimensions go from what the batch gives to what examples give.

        Indices that do not follow the batch's own come first of all: behind them are the
        dimensions that the examples have before theirs.
        """
        before = range(1 + self.rank, 1 + self.rank + self.first)
        trailing = range(1 + self.rank + self.first, 1 + rank)
        return [0, *before, *range(1, 1 + self.rank), *trailing]


def _unmasked(level, indices):
    """BatchedIndices with numbers in position of masks that all examples share.

    Raises:
        RuntimeError: each example has a mask of its own.
    """
    found = []
    for position in indices:
        if position is None or position.dtype not in (bool_, uint8):
            found.append(position)
        elif level.owns(position):
            raise RuntimeError(
                "vmap: We do not support batching operators that can support dynamic "
                "shape. Attempting to batch over indexing with a boolean mask."
            )
        else:
            found.extend(position.nonzero().unbind(1))
    return found


def index(level, op, args):
    x, indices = args
    indices = _unmasked(level, indices)
    if not any(position is not None for position in indices):
        return NotImplemented
    if level.owns(x) and not any(p is not None and level.owns(p) for p in indices):
        at = [i for i, item in enumerate(indices) if item is not None]
        if at == list(range(at[0], at[0] + len(at))):
            return level.wrap(op.redispatch(None, level.front(x), [None, *indices]))
    found = BatchedIndices(level, x, indices)
    result = op.redispatch(None, level.filled(x), found.given)
    return level.wrap(result.permute(found.order(result.dim() - 1)))


@in_place
def index_put(level, op, args):
    x, indices, values, accumulate = args
    indices = _unmasked(level, indices)
    if not any(position is not None for position in indices):
        return NotImplemented
    found = BatchedIndices(level, x, indices)
    target = level.filled(x)
    rank = found.rank + x.dim() - sum(position is not None for position in indices)
    value = level.filled(values)
    for _ in range(rank - values.dim()):
        value = value.unsqueeze(1)
    if value.dim() != rank + 1:
        return NotImplemented
    order = found.order(rank)
    back = sorted(range(rank + 1), key=order.__getitem__)
    result = op.redispatch(None, target, found.given, value.permute(back), accumulate)
    return args[0] if op.form == INPLACE else level.wrap(result)


# -- slices ----------------------------------------------------------------------------


def _along(level, indices, dim, sizes):
    """Indices of slices as indices of their elements.

    Args:
        sizes: those of all examples' slices, the batch first.
    """
    shown = [level.size] + [1] * (len(sizes) - 1)
    shown[dim + 1] = sizes[dim + 1]
    return level.filled(indices).reshape(shown).expand(sizes)


def index_select(level, op, args):
    x, dim, indices = args
    if x.dim() == 0 or indices.dim() > 1:
        return NotImplemented
    at = shift(dim, x.dim())
    if not level.owns(indices):
        return level.wrap(op.redispatch(None, level.front(x), at, indices))
    value = level.filled(x)
    sizes = list(value.shape)
    sizes[at] = indices.numel()
    return level.wrap(value.gather(at, _along(level, indices, at - 1, sizes)))


@in_place
def written_slices(level, op, args):
    """Slices written or added at indices: of elements, where examples have other indices."""
    x, dim, indices, source, *rest = args
    if x.dim() == 0 or source.dim() != x.dim() or indices.dim() > 1:
        return NotImplemented
    at = shift(dim, x.dim())
    target, value = level.filled(x), level.filled(source)
    if not level.owns(indices):
        result = op.redispatch(None, target, at, indices, value, *rest)
        return args[0] if op.form == INPLACE else level.wrap(result)
    spread = _along(level, indices, at - 1, value.shape)
    if op.entry[NAME] == "index_add":
        value = value if rest[0] == 1 else value * rest[0]
        name = "scatter_add"
    else:
        name = "scatter"
    if op.form == INPLACE:
        getattr(target, name + "_")(at, spread, value)
        return args[0]
    return level.wrap(getattr(target, name)(at, spread, value))


@in_place
def filled_slices(level, op, args):
    x, dim, indices, value = args
    shared = not isinstance(value, type(x)) or not level.owns(value)
    if x.dim() == 0 or indices.dim() > 1:
        return NotImplemented
    at = shift(dim, x.dim())
    target = level.filled(x)
    if shared and not level.owns(indices):
        result = op.redispatch(None, target, at, indices, value)
        return args[0] if op.form == INPLACE else level.wrap(result)
    sizes = list(target.shape)
    sizes[at] = indices.numel()
    spread = _along(level, indices, at - 1, sizes)
    if isinstance(value, type(x)):
        value = level.filled(value).to(x.dtype)
        value = value.view([level.size] + [1] * x.dim()).expand(sizes)
    if op.form == INPLACE:
        target.scatter_(at, spread, value)
        return args[0]
    return level.wrap(target.scatter(at, spread, value))


# -- rows of tables --------------------------------------------------------------------


def embedding(level, op, args):
    weight, indices, *rest = args
    if not level.owns(weight):
        return level.wrap(op.redispatch(None, weight, level.front(indices), *rest))
    numbers = _numbers(level, indices, indices.dim())
    return level.wrap(level.front(weight)[numbers, level.filled(indices)])


def embedding_backward(level, op, args):
    """The tables of all examples below each other."""
    grad, indices, count, padding, by_frequency = args
    indices, grad = level.filled(indices), level.filled(grad)
    if padding >= 0:
        grad = grad.masked_fill((indices == padding).unsqueeze(-1), 0)
    below = indices + _numbers(level, indices, indices.dim() - 1) * count
    found = op.redispatch(
        None, merged(grad), merged(below), count * level.size, -1, by_frequency
    )
    return level.wrap(found.unflatten(0, (level.size, count)))


def taken(level, op, args):
    """``take``: elements of all of an example in a row."""
    x, indices = args
    rows = level.filled(x).flatten(1) if x.dim() else level.filled(x).unsqueeze(1)
    at = level.filled(indices)
    at = call.where(at < 0, at + x.numel(), at)
    found = rows.gather(1, at.reshape(level.size, -1))
    return level.wrap(found.view(at.shape))


# -- sorted rows -----------------------------------------------------------------------


def searched(level, op, args):
    """``searchsorted`` in rows of each example's own."""
    rows, values, *rest = args
    sorter = rest[-1]
    if not hasattr(values, "dim") or values.dim() == 0:
        return NotImplemented
    own = level.owns(rows) or (sorter is not None and level.owns(sorter))
    if rows.dim() == 1 and not own:
        return level.wrap(op.redispatch(None, rows, level.front(values), *rest))
    found = level.filled(values)
    if rows.dim() == 1:
        found = found.reshape(level.size, -1)
    if sorter is not None:
        rest[-1] = level.filled(sorter)
    result = op.redispatch(None, level.filled(rows), found, *rest)
    return level.wrap(result.view(level.size, *values.shape))


def bucketed(level, op, args):
    """``bucketize``: between bounds that all examples share, or each its own."""
    values, bounds, int32, right = args
    if not level.owns(bounds):
        return level.wrap(op.redispatch(None, level.front(values), *args[1:]))
    if not hasattr(values, "dim"):
        return NotImplemented
    rows = level.filled(values).reshape(level.size, -1)
    result = call.searchsorted(level.filled(bounds), rows, out_int32=int32, right=right)
    return level.wrap(result.view(level.size, *values.shape))
