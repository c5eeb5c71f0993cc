"""``scan``: a function of each slice of tensors, and of what the one before has left."""

from rushlight._higher_order_ops.base import (
    Body,
    HigherOrderOperator,
    alike,
    copies,
    outer_steps,
    steps_of,
    unrecorded,
    written,
)
from rushlight.core.tensor import Tensor
from rushlight.operators import call
from rushlight.utils import _pytree

__all__ = ["scan"]


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """What is carried through slices of tensors, and what is given for each, stacked.

    A program that is recorded has the function as a graph.

    Args:
        combine_fn: of what is carried and a slice, what is carried next and a result.
        init: what is carried first: tensors, or nests of them.
        xs: a tensor, or a nest of tensors of one size along the dimension.
        dim: the dimension.
        reverse: from the last slice on.

    Returns:
        what is carried at the end, and the results, stacked along the dimension.

    Raises:
        RuntimeError: an argument is of another kind, or what is carried changes its look.

    >>> import rushlight as rl
    >>> def add(total, x):
    ...     return total + x, total
    >>> scan(add, rl.tensor(0.0), rl.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 1., 3.]))
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    first, spec = _pytree.tree_flatten(init)
    leaves, form = _pytree.tree_flatten(xs)
    if not first:
        raise RuntimeError("scan() operator requires init leaves.")
    if not all(isinstance(one, Tensor) for one in (*first, *leaves)):
        raise RuntimeError("All init and xs leaves must be a Tensor")
    if not leaves:
        return init, []
    sizes = {one.shape[dim] for one in leaves}
    if len(sizes) > 1:
        raise RuntimeError(
            f"All xs leaves must have the same size along dimension {dim}, not {sizes}"
        )
    if sizes == {0}:
        raise RuntimeError("All xs leaves must have a scan dimension > 0")
    leaves = [one.movedim(dim, 0) if dim else one for one in leaves]
    if reverse:
        leaves = [one.flip([0]) for one in leaves]
    specs: list = []

    def flat(*given):
        carried = _pytree.tree_unflatten(list(given[: len(first)]), spec)
        carried, made = combine_fn(
            carried, _pytree.tree_unflatten(list(given[len(first) :]), form)
        )
        carried, _ = _pytree.tree_flatten(carried)
        made, out = _pytree.tree_flatten(made)
        specs.append(out)
        return [*carried, *made]

    result = scan_op(flat, list(first), leaves, ())
    carried, made = result[: len(first)], result[len(first) :]
    if reverse:
        made = [one.flip([0]) for one in made]
    if dim:
        made = [one.movedim(0, dim) for one in made]
    return (
        _pytree.tree_unflatten(list(carried), spec),
        _pytree.tree_unflatten(list(made), specs[0]),
    )


_CARRIED = "Expected init and carry to"


def _run(combine, init, xs, additional_inputs):
    carried, rows = list(init), []
    for row in zip(*(one.unbind(0) for one in xs)):
        made = list(combine(*carried, *row, *additional_inputs))
        alike(made[: len(init)], carried, _CARRIED)
        carried = made[: len(init)]
        rows.append(made[len(init) :])
    return (*carried, *(call.stack(list(column)) for column in zip(*rows)))


def _record(tracer, combine, init, xs, additional_inputs):
    with unrecorded():
        row = [one.select(0, 0) for one in xs]
    for one, whole in zip(row, xs):
        tracer._nodes[id(one)] = one, tracer.node_of(whole)
    body = Body(tracer, combine, (*init, *row, *additional_inputs))
    alike(body.results[: len(init)], init, _CARRIED)
    outer = outer_steps(body)
    graph = body.placed(tracer, "scan_combine_graph")
    with unrecorded():
        size = xs[0].shape[0]
        made = [
            one.unsqueeze(0).expand(size, *one.shape).clone()
            for one in body.results[len(init) :]
        ]
        result = (*copies(body.results[: len(init)]), *made)
    return written(
        tracer,
        scan_op,
        (
            graph,
            steps_of(tracer, init),
            steps_of(tracer, xs),
            (*steps_of(tracer, additional_inputs), *outer),
        ),
        result,
    )


scan_op = HigherOrderOperator("scan", _run, _record)
