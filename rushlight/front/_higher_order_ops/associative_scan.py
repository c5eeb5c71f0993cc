"""Running totals under any operation that may be bracketed in any way."""

from rushlight.core.tensor import Tensor
from rushlight.operators import call

__all__ = ["associative_scan"]


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """The operation over all elements up to each one, along a dimension.

    Neighbours are combined in pairs, and the pairs' totals in turn: the depth is the
    logarithm of the length.

    Args:
        combine_fn: of two values like ``xs``, one like them.
        xs: a tensor, or tensors in containers, of one size along the dimension.
        dim: the dimension.
        reverse: from the last element on.
        combine_mode: kept for programs that pass it.

    Raises:
        ValueError: an argument is of another kind.

    >>> associative_scan(rl.add, rl.tensor([1, 2, 3, 4]), 0)
    tensor([ 1,  3,  6, 10])
    """
    from rushlight.utils import _pytree

    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise ValueError(f"Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}"
        )
    leaves, form = _pytree.tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise ValueError("All xs leaves must be a Tensor")
    dims = {dim if dim >= 0 else dim + leaf.dim() for leaf in leaves}
    sizes = {leaf.size(dim) for leaf in leaves}
    if len(dims) > 1 or len(sizes) > 1:
        raise ValueError(
            f"All xs leaves must have the same size along dimension {dim}, not {sizes}"
        )
    if sizes == {0}:
        raise ValueError("All xs leaves must have a scan dimension > 0")
    (place,) = dims

    def combine(left, right):
        made = combine_fn(
            _pytree.tree_unflatten(left, form), _pytree.tree_unflatten(right, form)
        )
        return _pytree.tree_flatten(made)[0]

    if reverse:
        leaves = [leaf.flip([place]) for leaf in leaves]
    result = _scan(combine, leaves, place)
    if reverse:
        result = [leaf.flip([place]) for leaf in result]
    return _pytree.tree_unflatten(result, form)


def _every(leaves, dim, start, stop, step=1):
    index = (slice(None),) * dim + (slice(start, stop, step),)
    return [leaf[index] for leaf in leaves]


def _scan(combine, leaves, dim):
    size = leaves[0].size(dim)
    if size < 2:
        return leaves
    paired = size - size % 2
    odd = _scan(
        combine,
        combine(_every(leaves, dim, 0, paired, 2), _every(leaves, dim, 1, paired, 2)),
        dim,
    )
    first = _every(leaves, dim, 0, 1)
    if size == 2:
        return [call.cat(pair, dim) for pair in zip(first, odd)]
    before = odd if size % 2 else _every(odd, dim, 0, size // 2 - 1)
    even = combine(before, _every(leaves, dim, 2, size, 2))
    even = [call.cat(pair, dim) for pair in zip(first, even)]
    return [_woven(a, b, dim) for a, b in zip(even, odd)]


def _woven(even, odd, dim):
    """Rows of two tensors in turn; the first may have one more."""
    count = odd.size(dim)
    pairs = call.stack([even.narrow(dim, 0, count), odd], dim + 1)
    woven = pairs.flatten(dim, dim + 1)
    if even.size(dim) > count:
        woven = call.cat([woven, even.narrow(dim, count, 1)], dim)
    return woven
