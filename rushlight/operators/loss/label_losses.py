"""Losses of labels on devices of many threads: a label is a thread's.

The host goes over the samples in order, and over all of a sample's classes. Here each
label's share is found by itself, in double precision, and a reduction adds them.
"""

from __future__ import annotations

from rushlight.codegen.loops import A, T, f64, loops
from rushlight.core.dtypes import float64
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import filled, fresh, run


@loops
def label_shares(
    losses: "f64*",
    shares: "f64*",
    x: "T*",
    target: "i64*",
    weight: "T*",
    fault: "i64*",
    classes: int,
    inner: int,
    ignore: int,
    weighted: int,
    begin: int,
    end: int,
):
    """What each label adds to the loss, and to the weight that it is divided by."""
    for i in range(begin, end):
        label = target[i]
        loss = f64(0)
        share = f64(0)
        if label != ignore:
            if label < 0 or label >= classes:
                fault[0] = label
            else:
                share = f64(weight[label]) if weighted else f64(1)
                loss = f64(x[(i // inner * classes + label) * inner + i % inner])
                loss = -share * loss
        losses[i] = loss
        shares[i] = share


@loops
def label_gradients(
    grad_input: "T*",
    grad: "T*",
    target: "i64*",
    weight: "T*",
    total_weight: "T*",
    fault: "i64*",
    classes: int,
    inner: int,
    ignore: int,
    weighted: int,
    each: int,
    mean: int,
    begin: int,
    end: int,
):
    """Puts minus the (weighted, averaged) gradient at each label."""
    for i in range(begin, end):
        label = target[i]
        if label != ignore:
            if label < 0 or label >= classes:
                fault[0] = label
            else:
                g = -A(grad[i if each else 0])
                if weighted:
                    g = g * A(weight[label])
                if mean:
                    g = g / A(total_weight[0])
                here = (i // inner * classes + label) * inner + i % inner
                grad_input[here] = T(g)


def total(x, out, total_weight, operands, ints, mean, types):
    """The sum or weighted mean of all losses, and the weights' sum."""
    target, weight, flag = operands
    given = {"T": types["T"], "weighted": types["weighted"]}
    losses, shares = (fresh(x, (target.numel(),), float64) for _ in range(2))
    operands = [losses, shares, x, target, weight, flag]
    run(label_shares, operands, ints, target.numel(), **given)
    mass, count = ops.sum(losses), ops.sum(shares)
    ops.copy_(out, ops.div(mass, count) if mean else mass)
    ops.copy_(total_weight, count)


def gradients(x, operands, ints, types):
    """The gradient of the log-probabilities: zeros but at the labels."""
    grad_input = filled(x, x.shape, 0)
    target = operands[1]
    run(label_gradients, [grad_input, *operands], ints, target.numel(), **types)
    return grad_input
