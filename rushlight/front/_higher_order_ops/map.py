"""``map``: a function of each row of tensors."""

from rushlight._higher_order_ops.base import (
    Body,
    HigherOrderOperator,
    outer_steps,
    steps_of,
    unrecorded,
    written,
)
from rushlight.core.tensor import Tensor
from rushlight.operators import call
from rushlight.utils import _pytree

__all__ = ["map"]


def map(f, xs, *args):
    """What a function gives for each row of tensors, stacked.

    A program that is recorded has the function as a graph.

    Args:
        f: called with the rows, nested as ``xs`` is, and with ``args``.
        xs: a tensor, or a nest of tensors with as many rows.
        args: what the function gets each time.

    Raises:
        RuntimeError: there is nothing to map over, or the numbers of rows differ.

    >>> import rushlight as rl
    >>> map(lambda row, y: row.sum() * y, rl.ones(3, 2), rl.tensor(2.0))
    tensor([4., 4., 4.])
    """
    leaves, spec = _pytree.tree_flatten(xs)
    given, rest = _pytree.tree_flatten(args)
    if not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    if not callable(f):
        raise RuntimeError(f"Expect f to be callable, but got {f}.")
    if not leaves or any(leaf.dim() == 0 for leaf in leaves):
        raise RuntimeError("Mapped xs need a leading dimension to map over.")
    sizes = [leaf.shape[0] for leaf in leaves]
    if sizes[0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if any(size != sizes[0] for size in sizes):
        shapes = [leaf.shape for leaf in leaves]
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}."
        )
    specs: list = []

    def flat(*values):
        rows = _pytree.tree_unflatten(list(values[: len(leaves)]), spec)
        result = f(rows, *_pytree.tree_unflatten(list(values[len(leaves) :]), rest))
        made, out = _pytree.tree_flatten(result)
        specs.append(out)
        return tuple(made)

    result = map_impl(flat, list(leaves), list(given))
    return _pytree.tree_unflatten(list(result), specs[0])


def _run(f, xs, pos_args):
    rows = [f(*row, *pos_args) for row in zip(*(one.unbind(0) for one in xs))]
    return tuple(call.stack(list(column)) for column in zip(*rows))


def _record(tracer, f, xs, pos_args):
    with unrecorded():
        row = [one.select(0, 0) for one in xs]
    constants = [one for one in pos_args if isinstance(one, Tensor)]

    def called(*given):
        tensors = iter(given[len(xs) :])
        rest = [next(tensors) if isinstance(one, Tensor) else one for one in pos_args]
        return f(*given[: len(xs)], *rest)

    for one, whole in zip(row, xs):
        tracer._nodes[id(one)] = one, tracer.node_of(whole)
    body = Body(tracer, called, (*row, *constants))
    outer = outer_steps(body)
    graph = body.placed(tracer, "body_graph")
    with unrecorded():
        size = xs[0].shape[0]
        result = tuple(
            one.unsqueeze(0).expand(size, *one.shape).clone() for one in body.results
        )
    return written(
        tracer,
        map_impl,
        (graph, steps_of(tracer, xs), [*steps_of(tracer, constants), *outer]),
        result,
    )


map_impl = HigherOrderOperator("map_impl", _run, _record)
