"""``while_loop``: a function again and again, until a tensor says that it is enough."""

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
from rushlight.ir.symbolic import SymInt
from rushlight.utils import _pytree

__all__ = ["while_loop"]


def while_loop(cond_fn, body_fn, carried_inputs):
    """What is carried when a condition has become false.

    A program that is recorded has both functions as graphs. ``body_fn`` gives what is
    like ``carried_inputs``: as many tensors, of the same sizes and types.

    Args:
        cond_fn: of what is carried, a tensor of one truth value.
        body_fn: of what is carried, what is carried next.
        carried_inputs: tensors, or nests of them, in a tuple.

    Raises:
        RuntimeError: an argument is of another kind, or the body changes what things
            look like.

    >>> import rushlight as rl
    >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (rl.tensor(0), rl.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    leaves, spec = _pytree.tree_flatten(carried_inputs)
    if not isinstance(carried_inputs, (tuple, list)) or not all(
        isinstance(leaf, (Tensor, int, float, SymInt)) for leaf in leaves
    ):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that "
            f"only consists of tensor or int leaves, but got {carried_inputs}."
        )

    def condition(*given):
        return cond_fn(*_pytree.tree_unflatten(list(given), spec))

    def body(*given):
        result = body_fn(*_pytree.tree_unflatten(list(given), spec))
        return tuple(_pytree.tree_flatten(result)[0])

    result = while_loop_op(condition, body, tuple(leaves), ())
    return _pytree.tree_unflatten(list(result), spec)


_CARRIED = "Expected body_fn_output and carried_inputs to"


def _run(cond_graph, body_graph, carried, additional):
    carried = tuple(carried)
    while True:
        wanted = cond_graph(*carried, *additional)
        if isinstance(wanted, Tensor) and wanted.numel() != 1:
            raise RuntimeError(
                "cond_fn must return a boolean scalar tensor, but got one of "
                f"{tuple(wanted.shape)}"
            )
        if not wanted:
            return carried
        made = tuple(body_graph(*carried, *additional))
        alike(made, carried, _CARRIED)
        carried = made


def _record(tracer, cond_graph, body_graph, carried, additional):
    bodies = [
        Body(tracer, graph, (*carried, *additional))
        for graph in (cond_graph, body_graph)
    ]
    alike(bodies[1].results, carried, _CARRIED)
    outer = outer_steps(*bodies)
    names = "while_loop_cond_graph", "while_loop_body_graph"
    graphs = [body.placed(tracer, name) for body, name in zip(bodies, names)]
    with unrecorded():
        result = copies(bodies[1].results)
    return written(
        tracer,
        while_loop_op,
        (
            *graphs,
            tuple(steps_of(tracer, carried)),
            (*steps_of(tracer, additional), *outer),
        ),
        result,
    )


while_loop_op = HigherOrderOperator("while_loop", _run, _record)
