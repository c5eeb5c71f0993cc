"""``vmap``: a function of one example as a function of many."""

from __future__ import annotations

import functools

import rushlight
from rushlight.autograd.levels.batch import BatchLevel
from rushlight.core.tensor import Tensor
from rushlight.func import _trees as trees

__all__ = ["vmap"]


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that applies ``func`` to every example of its arguments at once.

    Args:
        func: takes and returns tensors, or nests of them.
        in_dims: for each argument (a nest may follow the argument's) the dimension that
            counts the examples, or None for what all of them share.
        out_dims: where the examples go in the outputs.
        randomness: "error" refuses random operators; "different" draws for each
            example, "same" once for all.
        chunk_size: how many examples at once; None for all of them.

    Raises:
        ValueError: in_dims does not fit the arguments, or the examples differ in number.

    >>> vmap(rl.dot)(rl.ones(3, 2), rl.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(
            f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})"
        )

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        leaves, dims, spec, size = _examples(in_dims, args, func)
        run = functools.partial(_run, func, spec, dims, out_dims, randomness, kwargs)
        if chunk_size is None or chunk_size >= size:
            return run(leaves, size)
        parts, at = [], 0
        while at < size:
            n = min(chunk_size, size - at)
            chunk = [
                leaf if dim is None else leaf.narrow(dim, at, n)
                for leaf, dim in zip(leaves, dims)
            ]
            parts.append(run(chunk, n))
            at += n
        return _joined(parts, out_dims)

    return wrapper


def _name(func):
    return getattr(func, "__name__", repr(func))


def _examples(in_dims, args, func):
    """The arguments' leaves, the dimension of each, and the number of examples."""
    call = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple, list)) or isinstance(in_dims, bool):
        raise ValueError(
            f"{call}: expected `in_dims` to be int or a (potentially nested) tuple "
            f"matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"{call}: got no inputs. Maybe you forgot to add inputs, or you are trying "
            "to vmap over a function with no inputs. The latter is unsupported."
        )
    leaves, spec = trees.flatten(args)
    if isinstance(in_dims, list):
        in_dims = tuple(in_dims)
    dims = trees.spread(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims "
            f"has structure {trees.flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    sizes = set()
    for i, (leaf, dim) in enumerate(zip(leaves, dims)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"{call}: Got in_dim={dim} for an input but in_dim must be either an "
                "integer dimension or None."
            )
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"{call}: Got in_dim={dim} for an input but the input is of type "
                f"{type(leaf)}. We cannot vmap over non-Tensor arguments, please use "
                "None as the respective in_dim"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"{call}: Got in_dim={dim} for some input, but that input is a Tensor of "
                f"dimensionality {leaf.dim()} so expected in_dim to satisfy "
                f"-{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
        dims[i] = dim % leaf.dim()
        sizes.add(leaf.shape[dims[i]])
    if not sizes:
        raise ValueError("vmap: at least one of the inputs must be batched: got none")
    if len(sizes) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, "
            f"got sizes {[leaf.shape[d] for leaf, d in zip(leaves, dims) if d is not None]}"
            " for the mapped dimension"
        )
    return leaves, dims, spec, sizes.pop()


def _run(func, spec, dims, out_dims, randomness, kwargs, leaves, size):
    with BatchLevel(size, randomness) as level:
        given = [
            leaf if dim is None else level.wrap(leaf, dim)
            for leaf, dim in zip(leaves, dims)
        ]
        output = func(*trees.unflatten(given, spec), **kwargs)
    outputs, shape = trees.flatten(output)
    for leaf in outputs:
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, "
                f"got type {type(leaf)}. Did you mean to set out_dims= to None for output?"
            )
    places = _out_places(out_dims, shape, func)
    results = []
    for leaf, place in zip(outputs, places):
        if level.owns(leaf):
            value, dim = leaf._stand.value, leaf._stand.dim
            if place is None:
                raise ValueError(
                    f"vmap({_name(func)}, ...): `{_name(func)}` can not return a "
                    "BatchedTensor when out_dim is None"
                )
            if not -value.dim() <= place < value.dim():
                raise IndexError(
                    "Dimension out of range (expected to be in range of "
                    f"[{-value.dim()}, {value.dim() - 1}], but got {place})"
                )
            results.append(value if dim == place else value.movedim(dim, place))
        elif place is None:
            results.append(leaf)
        else:
            spread = leaf.unsqueeze(place)
            sizes = list(spread.shape)
            sizes[place] = size
            results.append(spread.expand(sizes))
    return trees.unflatten(results, shape)


def _out_places(out_dims, shape, func):
    places = trees.spread(out_dims, shape)
    if places is None and shape is trees.LEAF and isinstance(out_dims, (tuple, list)):
        places = list(out_dims) if len(out_dims) == 1 else None
    if places is None or not all(p is None or isinstance(p, int) for p in places):
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not "
            "compatible with the structure of `outputs`."
        )
    return places


def _joined(parts, out_dims):
    """The chunks' outputs one after another."""
    flat = [trees.flatten(part)[0] for part in parts]
    shape = trees.flatten(parts[0])[1]
    places = trees.spread(out_dims, shape)
    results = [
        pieces[0] if place is None else rushlight.cat(pieces, place)
        for place, pieces in zip(places, zip(*flat))
    ]
    return trees.unflatten(results, shape)
