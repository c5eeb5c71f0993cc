"""``cond``: one of two functions, by the value of a tensor."""

import warnings

from rushlight._higher_order_ops.base import (
    Body,
    HigherOrderOperator,
    alike,
    copies,
    outer_steps,
    recorder,
    steps_of,
    unrecorded,
    written,
)
from rushlight.autograd.levels.batch import Batched
from rushlight.core.tensor import Tensor
from rushlight.ir.symbolic import SymInt
from rushlight.ir.truths import SymBool
from rushlight.operators import call
from rushlight.utils import _pytree

__all__ = ["cond"]


def cond(pred, true_fn, false_fn, operands=()):
    """What one of two functions gives, chosen by a value that is known when it runs.

    A program that is recorded has both functions as graphs. Their results have to be
    alike in nesting, sizes and types.

    Args:
        pred: a truth value (of open sizes, too), or a tensor of one.
        true_fn: called with ``operands`` where it is true.
        false_fn: called with them where it is not.
        operands: tensors, or nests of them, in a tuple.

    Raises:
        RuntimeError: an argument is of another kind, or the results are not alike.

    >>> import rushlight as rl
    >>> x = rl.tensor([1.0, -2.0])
    >>> cond(x.sum() > 0, lambda x: x.cos(), lambda x: x.sin(), (x,))
    tensor([ 0.8415, -0.9093])
    """
    if not isinstance(pred, (bool, int, float, Tensor, SymBool, SymInt)) or (
        isinstance(pred, Tensor) and pred.numel() != 1
    ):
        raise RuntimeError(
            f"Expected pred to be bool or single-element tensor, but got {pred}."
        )
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    leaves, spec = _pytree.tree_flatten(operands)
    if not isinstance(operands, (tuple, list)) or not all(
        isinstance(leaf, Tensor) for leaf in leaves
    ):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only "
            f"consists of tensor leaves, but got {operands}."
        )
    if isinstance(pred, (bool, int, float)):
        if recorder() is not None:
            warnings.warn(
                "Pred is a Python constant. When used with torch.cond, it specializes on "
                "one of the branches.",
                UserWarning,
                stacklevel=2,
            )
        return (true_fn if pred else false_fn)(*operands)
    specs: list = []

    def flat(function):
        def called(*given):
            result = function(*_pytree.tree_unflatten(list(given), spec))
            made, out = _pytree.tree_flatten(result)
            specs.append(out)
            return tuple(made)

        return called

    result = cond_op(pred, flat(true_fn), flat(false_fn), tuple(leaves))
    if len(specs) > 1 and specs[0] != specs[1]:
        raise RuntimeError(
            "Unmatched output spec from torch.cond branches: true branch tree_spec "
            f"{specs[0]} vs false branch tree_spec {specs[1]}."
        )
    return _pytree.tree_unflatten(list(result), specs[0])


def _run(pred, true_graph, false_graph, operands):
    if isinstance(pred, Tensor) and _is_batched(pred):
        chosen = [graph(*operands) for graph in (true_graph, false_graph)]
        return tuple(call.where(pred, one, other) for one, other in zip(*chosen))
    return tuple((true_graph if pred else false_graph)(*operands))


def _is_batched(tensor):
    return isinstance(tensor._stand, Batched)


def _record(tracer, pred, true_graph, false_graph, operands):
    branches = [Body(tracer, graph, operands) for graph in (true_graph, false_graph)]
    alike(
        branches[0].results,
        branches[1].results,
        "Expect both branches of torch.cond to",
    )
    outer, chosen_by = outer_steps(*branches), tracer.node_of(pred)
    graphs = [
        body.placed(tracer, name)
        for body, name in zip(branches, ("true_graph", "false_graph"))
    ]
    with unrecorded():
        result = copies(branches[0].results)
    given = (*steps_of(tracer, operands), *outer)
    return written(tracer, cond_op, (chosen_by, *graphs, given), result)


cond_op = HigherOrderOperator("cond", _run, _record)
