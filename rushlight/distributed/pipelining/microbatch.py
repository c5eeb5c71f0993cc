"""Batches in parts, and parts of results as one."""

import rushlight as rl
from rushlight.utils import _pytree as pytree

__all__ = [
    "TensorChunkSpec",
    "merge_chunks",
    "sum_reducer",
    "split_args_kwargs_into_chunks",
]


class TensorChunkSpec:
    """A tensor that is cut along a dimension.

    Args:
        split_dim: the dimension.
    """

    def __init__(self, split_dim):
        self.split_dim = split_dim

    def __repr__(self):
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims):
        """One for each of several dimensions.

        Args:
            chunk_dims: the dimensions.
        """
        return tuple(TensorChunkSpec(dim) for dim in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims):
        """One for each name.

        Args:
            chunk_dims: dimensions by name.
        """
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


class _Replicate:
    """What every part of a batch has whole."""


class _Reducer:
    """How values of parts become one.

    Args:
        init_value: what they are added to.
        reduce_fn: makes one of two.
    """

    def __init__(self, init_value, reduce_fn):
        self.init_value, self.reduce_fn = init_value, reduce_fn


sum_reducer = _Reducer(rl.tensor(0.0), lambda total, value: total + value)


def _parts(value, spec, count):
    if spec is _Replicate or isinstance(spec, _Replicate):
        return [value] * count
    if not isinstance(value, rl.Tensor):
        return [value] * count
    dim = spec.split_dim if spec is not None else 0
    if value.shape[dim] < count:
        raise ValueError(
            f"a batch of {value.shape[dim]} cannot be cut into {count} microbatches"
        )
    return list(rl.tensor_split(value, count, dim))


def _split(values, specs, count):
    leaves, structure = pytree.tree_flatten(values)
    if specs is None:
        specs = [None] * len(leaves)
    else:
        is_spec = (TensorChunkSpec, _Replicate)
        specs = pytree.tree_leaves(
            specs, is_leaf=lambda each: isinstance(each, is_spec)
        )
    lists = [_parts(leaf, spec, count) for leaf, spec in zip(leaves, specs)]
    return [
        pytree.tree_unflatten([each[i] for each in lists], structure)
        for i in range(count)
    ]


def split_args_kwargs_into_chunks(
    args, kwargs, chunks, args_chunk_spec=None, kwargs_chunk_spec=None
):
    """The arguments of each part of a batch.

    Args:
        args: the batch's.
        kwargs: those by name.
        chunks: the number of parts.
        args_chunk_spec: how each is cut; along the first dimension without it.
        kwargs_chunk_spec: the same of those by name.

    Returns:
        A list of arguments, and one of those by name.
    """
    return (
        _split(tuple(args), args_chunk_spec, chunks),
        _split(dict(kwargs or {}), kwargs_chunk_spec, chunks),
    )


def merge_chunks(chunks, chunk_spec=None):
    """The results of parts as one.

    Args:
        chunks: those of each part.
        chunk_spec: how each was cut; along the first dimension without it.
    """
    flat = [pytree.tree_flatten(each) for each in chunks]
    structure = flat[0][1]
    count = len(flat[0][0])
    specs = [None] * count if chunk_spec is None else pytree.tree_leaves(chunk_spec)
    merged = []
    for number, spec in enumerate(specs):
        values = [leaves[number] for leaves, _ in flat]
        if isinstance(spec, _Reducer):
            total = spec.init_value
            for value in values:
                total = spec.reduce_fn(total, value)
            merged.append(total)
        elif isinstance(values[0], rl.Tensor) and values[0].dim():
            merged.append(rl.cat(values, spec.split_dim if spec is not None else 0))
        else:
            merged.append(values[0])
    return pytree.tree_unflatten(merged, structure)
