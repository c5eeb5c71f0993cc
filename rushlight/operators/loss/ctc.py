"""Connectionist temporal classification: the loss of all alignments of a label sequence.

A sequence of ``S`` labels has ``2 S + 1`` states, a blank before, between and after the
labels. ``alpha[t, s]`` is the log-probability of all ways to state ``s`` at time ``t``, and
``beta[t, s]`` that of all ways on from there, time ``t`` itself counted in both.
"""

from __future__ import annotations

import math

from rushlight.codegen.language import exp, log, maximum, minimum, select
from rushlight.codegen.loops import A, T, i64, loops, loops_inline, vectorized
from rushlight.core.dtype import INTEGER
from rushlight.core.dtypes import float64, int64
from rushlight.core.tensor import Tensor
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor
from rushlight.operators.loop_calls import (
    expect,
    fault_flag,
    filled,
    fresh,
    name_of,
    refuse_fault,
    require,
    run,
)
from rushlight.operators.shared import has_elements
from rushlight.operators.sorting.sorting_kernels import find_outside
from rushlight.operators.type_groups import SINGLE_DOUBLE

MINUS_INF = -math.inf
LEAST = -700.0  # an exponential of it is nothing beside one, and normal
INF = math.inf
NONE, MEAN, SUM = 0, 1, 2


@loops_inline
def label_of(targets, start, state, blank):
    """The class of a state."""
    label = i64(blank)
    if state % 2 == 1:
        label = targets[start + state // 2]
    return label


@loops_inline
def log_sum(a, b, c):
    """The logarithm of a sum of three exponentials; the largest one's is one."""
    most = maximum(a, b)
    least = minimum(a, b)
    top = maximum(most, c)
    middle = maximum(least, minimum(most, c))
    low = minimum(least, c)
    nothing = top == A(MINUS_INF)
    base = A(0) if nothing else top
    # States without ways are in every step: nothing infinite goes to the functions, whose
    # far arguments take a branch. What is bounded here adds nothing to one.
    rest = exp(maximum(middle - base, A(LEAST))) + exp(maximum(low - base, A(LEAST)))
    total = log(A(1) + rest) + base  # a name that is assigned twice is not vectorized
    return A(MINUS_INF) if nothing else total


@loops_inline
def ctc_states(classes_of, crossing, targets, at, start, states, blank, step):
    """Lists each state's class, and whether the state two away may be next to it.

    Args:
        step: -2 where states come from before, 2 where they go on.
    """
    for s in range(states):
        label = label_of(targets, start, s, blank)
        other = s + step
        crossing[at + s] = A(0)
        if other >= 0 and other < states:
            if label != label_of(targets, start, other, blank):
                crossing[at + s] = A(1)
        classes_of[at + s] = label
    return states


@loops
def ctc_alpha(
    loss: "T*", alpha: "T*", scores: "T*", targets: "i64*", starts: "i64*",
    times: "i64*", lengths: "i64*", classes_of: "i64*", crossing: "A*", score: "A*",
    ways: "A*", batch: int, classes: int, steps: int, span: int, blank: int, begin: int,
    end: int,
):  # fmt: skip
    """Forward: all ways to each state, and the loss of each sequence.

    Two rows of ``ways`` take turns; two states that nobody comes from are before each.
    """
    for n in range(begin, end):
        states = 2 * lengths[n] + 1
        time = times[n]
        base = n * steps * span
        at = n * span
        states = ctc_states(
            classes_of, crossing, targets, at, starts[n], states, blank, -2
        )
        first = n * 2 * (span + 2)
        for s in range(2 * (span + 2)):
            ways[first + s] = A(MINUS_INF)
        for t in range(time):
            row = base + t * span
            line = (t * batch + n) * classes
            now = first + (t % 2) * (span + 2)
            last = first + ((t + 1) % 2) * (span + 2)
            for s in range(states):
                score[at + s] = A(scores[line + classes_of[at + s]])
            if t == 0:
                for s in range(states):
                    alpha[row + s] = T(score[at + s] if s < 2 else A(MINUS_INF))
                    ways[now + s + 2] = A(alpha[row + s])
            else:
                for s in vectorized(states):
                    crossed = crossing[at + s] > A(0)
                    skip = select(crossed, ways[last + s], A(MINUS_INF))
                    total = log_sum(ways[last + s + 2], ways[last + s + 1], skip)
                    held = T(total + score[at + s])
                    alpha[row + s] = held
                    ways[now + s + 2] = A(held)
        if time == 0:
            loss[n] = T(A(0) if states == 1 else A(INF))
        else:
            end_of = base + (time - 1) * span + states - 1
            before = A(MINUS_INF)
            if states > 1:
                before = A(alpha[end_of - 1])
            loss[n] = T(-log_sum(A(alpha[end_of]), before, A(MINUS_INF)))


@loops
def ctc_gradient(
    out: "T*", grad: "T*", loss: "T*", alpha: "T*", scores: "T*", targets: "i64*",
    starts: "i64*", times: "i64*", lengths: "i64*", classes_of: "i64*", crossing: "A*",
    score: "A*", ways: "A*", share: "A*", batch: int, classes: int, steps: int, span: int,
    blank: int, zero_infinity: int, begin: int, end: int,
):  # fmt: skip
    """Backward: all ways on from each state; what they and `ctc_alpha` give each class.

    A class's share of all ways is below one, so shares are added as they are. Two rows of
    ``ways`` take turns; two states that lead nowhere are behind each.
    """
    for n in range(begin, end):
        states = 2 * lengths[n] + 1
        time = times[n]
        base = n * steps * span
        at = n * span
        total = A(loss[n])
        unlikely = zero_infinity != 0 and total == A(INF)
        states = ctc_states(
            classes_of, crossing, targets, at, starts[n], states, blank, 2
        )
        first = n * 2 * (span + 2)
        for s in range(2 * (span + 2)):
            ways[first + s] = A(MINUS_INF)
        for iteration in range(time):
            t = time - 1 - iteration
            row = base + t * span
            line = (t * batch + n) * classes
            now = first + (iteration % 2) * (span + 2)
            last = first + ((iteration + 1) % 2) * (span + 2)
            for s in range(states):
                score[at + s] = A(scores[line + classes_of[at + s]])
            if iteration == 0:
                for s in range(states):
                    share[at + s] = score[at + s] if s > states - 3 else A(MINUS_INF)
                    ways[now + s] = A(T(share[at + s]))
            else:
                for s in vectorized(states):
                    crossed = crossing[at + s] > A(0)
                    skip = select(crossed, ways[last + s + 2], A(MINUS_INF))
                    mass = log_sum(ways[last + s], ways[last + s + 1], skip)
                    share[at + s] = mass + score[at + s]
                    ways[now + s] = A(T(mass + score[at + s]))
            for c in range(classes):
                out[line + c] = T(A(0) * total)  # NaN where no way is possible
            for s in vectorized(states):
                through = A(alpha[row + s]) + share[at + s]
                possible = through != A(MINUS_INF)
                power = through + total - score[at + s]
                part = exp(select(possible, power, A(0)))
                share[at + s] = select(possible, part, A(0))
            for s in range(states):
                place = line + classes_of[at + s]
                out[place] = T(A(out[place]) + share[at + s])
            for c in vectorized(classes):
                value = (exp(A(scores[line + c])) - A(out[line + c])) * A(grad[n])
                out[line + c] = T(A(0) if unlikely else value)


def work_space(like, batch, span):
    """Memory of the kernels: classes of states, and numbers for each sequence."""
    row, wide = (batch, span), float64
    return [
        fresh(like, row, int64), fresh(like, row, wide), fresh(like, row, wide),
        fresh(like, (batch, 2, span + 2), wide),
    ]  # fmt: skip


def tables(log_probs, targets, input_lengths, target_lengths):
    """Where each sequence's labels start, and all lengths, for the kernels.

    Raises:
        RuntimeError: a length or a size does not fit.
    """
    steps, batch, _ = log_probs.shape
    where = " (while checking arguments for ctc_loss_allocate_outputs)"
    for name, lengths, most in (
        ("input_lengths", input_lengths, steps), ("target_lengths", target_lengths, None),
    ):  # fmt: skip
        if len(lengths) != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
        for length in lengths:
            if length < 0:
                raise RuntimeError(
                    f"Expected {name} to have value at least 0, but got value {length}"
                    f"{where}"
                )
            if most is not None and length > most:
                raise RuntimeError(
                    f"Expected {name} to have value at most {most}, but got value "
                    f"{length}{where}"
                )
    if targets.ndim == 1:
        starts, at = [], 0
        for length in target_lengths:
            starts.append(at)
            at += length
        if targets.shape[0] != at:
            raise RuntimeError(
                f"Expected tensor to have size {at} at dimension 0, but got size "
                f"{targets.shape[0]} for argument #2 'targets'{where}"
            )
    else:
        longest = max(target_lengths, default=0)
        if targets.shape[1] < longest:
            raise RuntimeError(
                f"Expected tensor to have size at least {longest} at dimension 1, but "
                f"got size {targets.shape[1]} for argument #2 'targets'{where}"
            )
        starts = [n * targets.shape[1] for n in range(batch)]
    kind = int64
    labels = targets.to(kind).contiguous()
    return labels, *(
        tensor(list(values), dtype=kind, device=labels.device)
        for values in (starts, input_lengths, target_lengths)
    )


def check_labels(labels, classes):
    """Refuses labels that are no class.

    Raises:
        RuntimeError: a label is negative or too large.
    """
    if not has_elements(labels):
        return
    flag = fault_flag(labels)
    run(find_outside, [labels.contiguous(), flag], [classes], labels.numel())
    refuse_fault(flag, "ctc_loss", _no_class, classes)


def _no_class(found, classes):
    return RuntimeError(
        f"ctc_loss: labels are between 0 and {classes - 1}, but the targets have {found}"
    )


def ctc_loss_forward(
    log_probs, targets, input_lengths, target_lengths, blank, zero_infinity
):
    """The loss of each sequence, and all alphas.

    Raises:
        NotImplementedError: the type is neither float32 nor float64.
        RuntimeError: an argument does not fit.
    """
    require("ctc_loss_cpu", log_probs.dtype, SINGLE_DOUBLE, log_probs)
    steps, batch, classes = log_probs.shape
    held = checked_tables(log_probs, targets, input_lengths, target_lengths, blank)
    span = 2 * max(target_lengths, default=0) + 1
    loss = fresh(log_probs, (batch,))
    alpha = filled(log_probs, (batch, steps, span), MINUS_INF)
    ints = [batch, classes, steps, span, blank]
    work = work_space(log_probs, batch, span)
    operands = [loss, alpha, log_probs.contiguous(), *held, *work]
    types = {"T": name_of(log_probs.dtype), "A": "float64"}
    run(ctc_alpha, operands, ints, batch, steps * span * 16, **types)
    return loss, alpha


def checked_tables(log_probs, targets, input_lengths, target_lengths, blank):
    """`tables`, once the blank and the labels that the lengths leave are classes."""
    classes = log_probs.shape[2]
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    labels, *held = tables(log_probs, targets, input_lengths, target_lengths)
    given, lengths = labels, held[-1]
    if labels.ndim > 1:
        positions = ops.arange(labels.shape[1], device=labels.device)
        labels = ops.where(positions < lengths.unsqueeze(1), labels, 0)
    check_labels(labels, classes)
    return _within(given.device, given, classes), *held


def _clamped(device, labels, classes):
    """Labels for kernels that run before somebody is told of those that are no class."""
    return ops.clamp(labels, 0, classes - 1)


_within = KernelTable(cpu=lambda device, labels, classes: labels, cuda=_clamped)


def ctc_loss_backward(
    grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood,
    log_alpha, blank, zero_infinity,
):  # fmt: skip
    """The gradient for the log-probabilities, which are taken for a softmax's.

    Raises:
        NotImplementedError: the type is neither float32 nor float64.
        RuntimeError: an argument does not fit.
    """
    require("ctc_loss_backward_cpu", log_probs.dtype, SINGLE_DOUBLE, log_probs)
    steps, batch, classes = log_probs.shape
    held = checked_tables(log_probs, targets, input_lengths, target_lengths, blank)
    span, kind = 2 * max(target_lengths, default=0) + 1, log_probs.dtype
    expect(
        "_ctc_loss_backward", grad=(grad, (batch,), kind),
        neg_log_likelihood=(neg_log_likelihood, (batch,), kind),
        log_alpha=(log_alpha, (batch, steps, span), kind),
    )  # fmt: skip
    out = filled(log_probs, log_probs.shape, 0)
    work = work_space(log_probs, batch, span)
    share = fresh(log_probs, (batch, span), float64)
    ints = [batch, classes, steps, span, blank, int(zero_infinity)]
    operands = [
        out, grad.contiguous(), neg_log_likelihood.contiguous(), log_alpha.contiguous(),
        log_probs.contiguous(), *held, *work, share,
    ]  # fmt: skip
    types = {"T": name_of(log_probs.dtype), "A": "float64"}
    run(ctc_gradient, operands, ints, batch, steps * span * 16, **types)
    return out


def numbers_of(lengths, name):
    """The elements of a tensor of lengths.

    Raises:
        RuntimeError: it is not of integers.
    """
    if lengths.dtype.category != INTEGER:
        raise RuntimeError(f"{name} must be integral")
    return lengths.reshape([-1]).tolist()


def ctc_loss_forward_by_tensors(
    log_probs, targets, input_lengths, target_lengths, blank, zero_infinity
):
    """`ctc_loss_forward` of the numbers in two tensors."""
    inputs = numbers_of(input_lengths, "input_lengths")
    labels = numbers_of(target_lengths, "target_lengths")
    return ctc_loss_forward(log_probs, targets, inputs, labels, blank, zero_infinity)


def ctc_loss_backward_by_tensors(
    grad, log_probs, targets, input_lengths, target_lengths, *rest
):
    """`ctc_loss_backward` of the numbers in two tensors."""
    inputs = numbers_of(input_lengths, "input_lengths")
    labels = numbers_of(target_lengths, "target_lengths")
    return ctc_loss_backward(grad, log_probs, targets, inputs, labels, *rest)


def ctc_loss(
    log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity
):
    """The losses put together; lengths are numbers, or tensors of them."""
    batched = log_probs.ndim == 3
    scores = log_probs if batched else log_probs.unsqueeze(1)
    loss = ops._ctc_loss(
        scores, targets, input_lengths, target_lengths, blank, zero_infinity
    )[0]
    if zero_infinity:
        nothing = ops.zeros([], dtype=loss.dtype, device=loss.device)
        loss = ops.where(loss == INF, nothing, loss)
    if reduction == MEAN:
        if not isinstance(target_lengths, Tensor):
            target_lengths = tensor(target_lengths, dtype=int64)
        weights = target_lengths.to(loss.device, loss.dtype).clamp_min(1)
        return (loss / weights).mean()
    if reduction == SUM:
        return loss.sum()
    return loss if batched else loss.squeeze(0)
