"""Update rules of the optimizers, each one kernel over all parameters at once."""

from __future__ import annotations

from rushlight.backends.roles import host
from rushlight.codegen.language import maximum, pointwise, sqrt

# Dtypes whose parameters the kernels update; the state has the same dtype.
FUSED_DTYPES = frozenset({"float32", "float64", "bfloat16", "float16"})


def _descent(param, grad, weight_decay, decays, maximize):
    """The gradient to follow, with weight decay as an L2 penalty."""
    if maximize:
        grad = -grad
    return grad + weight_decay * param if decays else grad


@pointwise
def sgd(param, grad, lr, weight_decay, decays, maximize):
    """One step of plain gradient descent."""
    return param - lr * _descent(param, grad, weight_decay, decays, maximize)


@pointwise
def sgd_momentum(
    param,
    grad,
    buffer,
    lr,
    weight_decay,
    momentum,
    kept,
    share,
    decays,
    maximize,
    nesterov,
):
    """One step along a direction that remembers: ``kept`` of it, ``share`` of grad."""
    grad = _descent(param, grad, weight_decay, decays, maximize)
    buffer = kept * buffer + share * grad
    direction = grad + momentum * buffer if nesterov else buffer
    return param - lr * direction, buffer


def _moments(grad, mean, square, rest1, beta2, rest2):
    mean = mean + rest1 * (grad - mean)
    return mean, beta2 * square + rest2 * (grad * grad)


@pointwise
def adam(
    param,
    grad,
    mean,
    square,
    size,
    shrink,
    weight_decay,
    rest1,
    beta2,
    rest2,
    correction,
    eps,
    decays,
    maximize,
):
    """One step along the mean gradient over the root of its mean square."""
    grad = _descent(param, grad, weight_decay, decays, maximize)
    mean, square = _moments(grad, mean, square, rest1, beta2, rest2)
    root = sqrt(square) * correction + eps
    return shrink * param - size * (mean / root), mean, square


@pointwise
def adam_amsgrad(
    param,
    grad,
    mean,
    square,
    largest,
    size,
    shrink,
    weight_decay,
    rest1,
    beta2,
    rest2,
    correction,
    eps,
    decays,
    maximize,
):
    """``adam`` over the root of the largest mean square seen."""
    grad = _descent(param, grad, weight_decay, decays, maximize)
    mean, square = _moments(grad, mean, square, rest1, beta2, rest2)
    largest = maximum(largest, square)
    root = sqrt(largest) * correction + eps
    return shrink * param - size * (mean / root), mean, square, largest


def can_fuse(params):
    """Whether the kernels can update these parameters: dense, floating, on the CPU."""
    if not params:
        return True
    grads = [each.grad for each in params]
    head = params[0]
    return (
        head.device.on_host
        and head.dtype.name in FUSED_DTYPES
        and host.foreach.same_layout([params, grads])
    )


def _launch(rule, written, read, scalars, static):
    """Specialise a rule for the tensors' dtype and run it over all of them."""
    dtype = written[0][0].dtype.name
    compute = "float64" if dtype == "float64" else "float32"
    dtypes = (dtype,) * len(read) + (compute,) * len(scalars)
    kernel = rule.specialize(dtypes, (dtype,) * len(written), compute, static)
    host.foreach.launch_each(kernel, written, read, scalars)


def fused_sgd_(
    params,
    grads,
    momentum_buffers,
    *,
    lr,
    weight_decay=0.0,
    momentum=0.0,
    dampening=0.0,
    nesterov=False,
    maximize=False,
    first_step=False,
):
    """One step of stochastic gradient descent for all parameters, in place.

    Args:
        params, grads: lists of dense tensors of one dtype.
        momentum_buffers: the directions so far, or None for no momentum.
        first_step: whether the buffers hold nothing yet; they become the gradients.
    """
    if not params:
        return
    static = (weight_decay != 0, bool(maximize))
    if momentum_buffers is None:
        _launch(sgd, [params], [params, grads], (lr, weight_decay), static)
        return
    kept, share = (0.0, 1.0) if first_step else (momentum, 1 - dampening)
    _launch(
        sgd_momentum,
        [params, momentum_buffers],
        [params, grads, momentum_buffers],
        (lr, weight_decay, momentum, kept, share),
        (*static, bool(nesterov)),
    )


def fused_adam_(
    params,
    grads,
    exp_avgs,
    exp_avg_sqs,
    max_exp_avg_sqs,
    state_steps,
    *,
    lr,
    beta1,
    beta2,
    weight_decay,
    eps,
    maximize=False,
    decoupled=False,
):
    """One step of Adam for all parameters, in place; counts ``state_steps`` up.

    Args:
        params, grads, exp_avgs, exp_avg_sqs: lists of dense tensors of one dtype.
        max_exp_avg_sqs: the largest mean squares seen, or None without AMSGrad.
        state_steps: one-element float32 tensors.
        decoupled: whether weight decay shrinks the parameters, as in AdamW.
    """
    if not params:
        return
    state = [exp_avgs, exp_avg_sqs]
    rule = adam
    if max_exp_avg_sqs is not None:
        state.append(max_exp_avg_sqs)
        rule = adam_amsgrad
    static = (weight_decay != 0 and not decoupled, bool(maximize))
    shrink = 1 - lr * weight_decay if decoupled else 1.0
    steps = host.foreach.advance(state_steps)
    for step in set(steps):
        written, grads_now = [params, *state], grads
        if any(each != step for each in steps):  # parameters that skipped steps
            chosen = [i for i, each in enumerate(steps) if each == step]
            written = [[group[i] for i in chosen] for group in written]
            grads_now = [grads[i] for i in chosen]
        scalars = (
            lr / (1 - beta1**step),
            shrink,
            weight_decay,
            1 - beta1,
            beta2,
            1 - beta2,
            (1 - beta2**step) ** -0.5,
            eps,
        )
        read = [written[0], grads_now, *written[1:]]
        _launch(rule, written, read, scalars, static)


def fused_adamw_(*args, **options):
    """``fused_adam_`` whose weight decay shrinks the parameters."""
    fused_adam_(*args, decoupled=True, **options)
