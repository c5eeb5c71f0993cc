"""Operators that write to their arguments, run on copies of those."""

from rushlight._higher_order_ops.base import HigherOrderOperator, unrecorded
from rushlight.core.tensor import Tensor
from rushlight.utils._pytree import tree_map

__all__ = ["auto_functionalized_v2", "run_functionalized"]


def _copied(value):
    return tree_map(lambda one: one.clone() if isinstance(one, Tensor) else one, value)


def _run(op, *, _all_bases, **kwargs):
    """The results of an operator, and the copies of arguments that it has written to."""
    bases = [_copied(one) for one in _all_bases]
    given = {}
    for name, value in kwargs.items():
        if name.startswith("_") and name.endswith("_base_index"):
            name, value = name[1 : -len("_base_index")], bases[value]
        given[name] = value
    result = op(**given)
    results = result if isinstance(result, tuple) else (result,)
    return (*results, *bases)


def _record(tracer, op, **kwargs):
    with unrecorded():
        result = _run(op, **kwargs)
    given = tree_map(tracer.node_of, kwargs)
    node = tracer.graph.create_node(
        "call_function",
        auto_functionalized_v2,
        (op,),
        given,
        name="auto_functionalized_v2",
    )
    tracer.record_result(node, result)
    return result


auto_functionalized_v2 = HigherOrderOperator("auto_functionalized_v2", _run, _record)


def run_functionalized(op, values, positions):
    """An operator's result, and what it has written to, as one step of a program.

    Args:
        op: the operator.
        values: its arguments by position.
        positions: of those that it writes to.
    """
    names = [row[0] for row in op.signature.rows]
    kwargs = {name: value for name, value in zip(names, values)}
    for number, at in enumerate(positions):
        del kwargs[names[at]]
        kwargs[f"_{names[at]}_base_index"] = number
    found = auto_functionalized_v2(
        op, **kwargs, _all_bases=[values[at] for at in positions]
    )
    results, made = found[: -len(positions)], found[-len(positions) :]
    return results[0] if len(results) == 1 else results, made
