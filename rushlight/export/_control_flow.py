"""Branches and loops of a program, as steps that a library jumps between.

cond(p, f, g, (x,))            branch p -> A;  f(x);  y = clone;  jump -> B
                               A: g(x);  y.copy_;  B:
while_loop(c, f, (x,))         x = clone;  A: p = c(x);  branch p -> B
                               f(x);  x.copy_;  jump -> A;  B:
"""

from rushlight._higher_order_ops.cond import cond_op
from rushlight._higher_order_ops.while_loop import while_loop_op
from rushlight.core.tensor import Tensor
from rushlight.export.launch_recorder import place_of


def _tensors(run, values):
    """What a branch or a turn gives: tensors alone."""
    values = values if isinstance(values, (tuple, list)) else (values,)
    if not all(isinstance(one, Tensor) for one in values):
        run.refuse("a branch or a loop gives a number")
    return values


def record_branches(run, interpret, pred, true_graph, false_graph, operands):
    """Both branches, of which a run takes one; results are in the same memory.

    Args:
        run: the `Run` that is listened to.
        interpret: runs a graph with arguments.
        pred: a truth value, or a tensor of one.
        true_graph: what runs where it is true.
        false_graph: what runs where it is false.
        operands: the arguments of both.
    """
    if not isinstance(pred, Tensor):
        return interpret(true_graph if pred else false_graph, operands)
    otherwise = run.branch(pred.bool())
    results = [one.clone() for one in _tensors(run, interpret(true_graph, operands))]
    end = run.jump()
    run.land(otherwise)
    others = _tensors(run, interpret(false_graph, operands))
    for one, value in zip(results, others, strict=True):
        one.copy_(value)
    run.land(end)
    return tuple(results)


def record_loop(run, interpret, cond_graph, body_graph, carried, extra=()):
    """One turn of a loop, which a run takes as often as it has to.

    Args:
        run: the `Run` that is listened to.
        interpret: runs a graph with arguments.
        cond_graph: whether there is another turn, of what is carried.
        body_graph: what is carried next.
        carried: what is carried into the first turn.
        extra: more arguments of both.
    """
    carried = [one.clone() for one in _tensors(run, carried)]
    for one in carried:
        run.carried.add(run.place(place_of(one)[2])[:2])
    start = len(run.steps)
    (pred,) = _tensors(run, interpret(cond_graph, (*carried, *extra)))
    end = run.branch(pred.bool())
    following = _tensors(run, interpret(body_graph, (*carried, *extra)))
    for one, value in zip(carried, [one.clone() for one in following], strict=True):
        one.copy_(value)
    run.jump(back=start)
    run.land(end)
    return tuple(carried)


recorders = {cond_op: record_branches, while_loop_op: record_loop}
