"""``vmap``: a function of one example as a function of many."""

import functools

from rushlight.autograd.levels.batch import BatchLevel
from rushlight.autograd.levels.stack import level_of
from rushlight.core.tensor import Tensor
from rushlight.operators import call
from rushlight.random import get_rng_state, set_rng_state
from rushlight.utils import _pytree as pytree


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
        size, dims, leaves, spec = steps.examples(in_dims, args, func)
        ragged = any(_is_ragged(x, d) for x, d in zip(leaves, dims))
        kind = _run_ragged if ragged else _run
        run = functools.partial(kind, func, spec, dims, out_dims, randomness, kwargs)
        if ragged:
            return run(leaves, size)
        if chunk_size is None or chunk_size >= size:
            return run(leaves, size)
        parts, at = [], 0
        drawn = get_rng_state() if randomness == "same" else None
        while at < size:
            if drawn is not None:
                set_rng_state(drawn)
            n = min(chunk_size, size - at)
            chunk = [
                leaf if dim is None else leaf.narrow(dim, at, n)
                for leaf, dim in zip(leaves, dims)
            ]
            parts.append(run(chunk, n))
            at += n
        return _joined(parts, out_dims, func)

    return wrapper


def refuse_nested(name, tensor):
    """Raises for a nested tensor: a transform's sizes are one for all examples.

    Args:
        name: the transform.
        tensor: what it was given.

    Raises:
        RuntimeError: it is nested.
    """
    if tensor.is_nested:
        raise RuntimeError(
            f"{name}: nested tensors have no strides and sizes that a transform could "
            "follow\n  remedy: call the function on each of tensor.unbind(), or take "
            "gradients by autograd.grad"
        )


def _is_ragged(leaf, dim):
    return dim is not None and isinstance(leaf, Tensor) and leaf.is_nested


def _name(func):
    return getattr(func, "__name__", repr(func))


def _examples(in_dims, args, func):
    """The number of examples, the dimension of each leaf, the leaves, and their tree."""
    call = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)) or isinstance(in_dims, bool):
        raise ValueError(
            f"{call}: expected `in_dims` to be int or a (potentially nested) tuple "
            f"matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"{call}: got no inputs. Maybe you forgot to add inputs, or you are trying "
            "to vmap over a function with no inputs. The latter is unsupported."
        )
    leaves, spec = pytree.tree_flatten(args)
    dims = pytree._broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims "
            f"has structure {pytree.tree_structure(in_dims)} but inputs has structure "
            f"{spec}."
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
        size = leaf.size(dims[i])
        if leaf.is_nested:
            _check_first(dims[i])
        sizes.add(size)
    if not sizes:
        raise ValueError("vmap: at least one of the inputs must be batched: got none")
    if len(sizes) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, "
            f"got sizes {[leaf.shape[d] for leaf, d in zip(leaves, dims) if d is not None]}"
            " for the mapped dimension"
        )
    return sizes.pop(), dims, leaves, spec


def _check_first(dim):
    """Refuses a dimension of a nested tensor that does not count its parts."""
    if dim:
        raise RuntimeError(
            f"Nested tensors can only be vmapped over dim=0, but got dim={dim}"
        )


def _run_ragged(func, spec, dims, out_dims, randomness, kwargs, leaves, size):
    """Example by example, as sizes differ: parts of nested tensors are batches of one.

    Outputs that depend on a nested tensor are nested, with parts of any sizes.
    """
    parts = [
        [leaf] * size if dim is None else leaf.unbind(dim)
        for leaf, dim in zip(leaves, dims)
    ]
    drawn = get_rng_state() if randomness == "same" else None
    found = []
    for example in zip(*parts):
        if drawn is not None:
            set_rng_state(drawn)
        with BatchLevel(1, randomness) as level:
            given = [
                level.wrap(part.unsqueeze(0))
                if whole.is_nested and d is not None
                else part
                for part, whole, d in zip(example, leaves, dims)
            ]
            output = func(*pytree.tree_unflatten(given, spec), **kwargs)
        flat, shape = pytree.tree_flatten(output)
        found.append([(level, given, leaf) for leaf in flat])
    if not found:
        raise RuntimeError(f"vmap({_name(func)}, ...): nested tensors without parts")
    positions = _out_dims(out_dims, shape, func)
    results = [
        _gathered(each, place, leaves, func)
        for each, place in zip(zip(*found, strict=True), positions)
    ]
    return pytree.tree_unflatten(results, shape)


def _gathered(found, place, leaves, func):
    """One output of all examples.

    Args:
        found: for each example its level, the arguments, and the output.
        place: where the examples go.
        leaves: the arguments as they were given.
    """
    single = [
        _unbatched(level, leaf, None if place is None else 0, func)
        for level, _, leaf in found
    ]
    level, given, leaf = found[0]
    if place is None:
        return single[-1]
    if not level.owns(leaf):
        return call.stack([each.select(0, 0) for each in single], place)
    rank = leaf.dim() + 1
    _check_first(place % rank if -rank <= place < rank else place)
    for k, whole in enumerate(leaves):
        if all(leaf is given[k] for _, given, leaf in found):
            return whole
    nested = next(whole for whole in leaves if whole.is_nested)
    return nested._of_parts([each.select(0, 0) for each in single])


def _run(func, spec, dims, out_dims, randomness, kwargs, leaves, size):
    with BatchLevel(size, randomness) as level:
        given = steps.wrap(dims, leaves, level.number, spec)
        output = func(*given, **kwargs)
        return steps.unwrap(output, out_dims, level.number, size, func)


def _wrapped(dims, leaves, number, spec):
    """The arguments of one example that stands for all, in the level of a number."""
    level = level_of(number)
    given = [
        leaf if dim is None else level.wrap(leaf, dim)
        for leaf, dim in zip(leaves, dims)
    ]
    return pytree.tree_unflatten(given, spec)


def _unwrapped(output, out_dims, number, size, func):
    """The outputs of all examples, from that of the one that stood for them."""
    level = level_of(number)
    outputs, shape = pytree.tree_flatten(output)
    positions = _out_dims(out_dims, shape, func)
    results = [
        _unbatched(level, leaf, place, func) for leaf, place in zip(outputs, positions)
    ]
    return pytree.tree_unflatten(results, shape)


class _Steps:
    """The three steps of ``vmap``; a package with containers of its own replaces them.

    Each takes and gives what PyTorch's step of that name does:
    ``torch._functorch.vmap._process_batched_inputs``, ``_create_batched_inputs`` and
    ``_unwrap_batched``.
    """

    def __init__(self):
        self.examples, self.wrap, self.unwrap = _examples, _wrapped, _unwrapped


steps = _Steps()


def _unbatched(level, leaf, place, func):
    """An output with the examples along a dimension; as it is where that is None."""
    name = _name(func)
    owned = isinstance(leaf, Tensor) and level.owns(leaf)
    if place is None:
        if owned:
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when "
                "out_dim is None"
            )
        return leaf
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type "
            f"{type(leaf)}. Did you mean to set out_dims= to None for output?"
        )
    rank = leaf.dim() + 1
    if not -rank <= place < rank:
        raise IndexError(
            "Dimension out of range (expected to be in range of "
            f"[{-rank}, {rank - 1}], but got {place})"
        )
    if owned:
        value, dim = leaf._stand.value, leaf._stand.dim
        return value if dim == place else value.movedim(dim, place)
    repeated = leaf.unsqueeze(place)
    sizes = list(repeated.shape)
    sizes[place] = level.size
    return repeated.expand(sizes)


def _out_dims(out_dims, shape, func):
    if shape.is_leaf() and isinstance(out_dims, (tuple, list)):
        positions = list(out_dims) if len(out_dims) == 1 else None
    else:
        positions = pytree._broadcast_to_and_flatten(out_dims, shape)
    if positions is None or not all(p is None or isinstance(p, int) for p in positions):
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not "
            "compatible with the structure of `outputs`. out_dims has structure "
            f"{pytree.tree_structure(out_dims)} but outputs has structure {shape}."
        )
    return positions


def _joined(parts, out_dims, func):
    """The chunks' outputs one after another."""
    flat = [pytree.tree_leaves(part) for part in parts]
    shape = pytree.tree_structure(parts[0])
    positions = _out_dims(out_dims, shape, func)
    results = [
        pieces[0] if place is None else call.cat(pieces, place)
        for place, pieces in zip(positions, zip(*flat))
    ]
    return pytree.tree_unflatten(results, shape)
