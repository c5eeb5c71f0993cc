"""Update rules of the optimizers, each one kernel over all parameters at once."""

from rushlight.codegen.language import maximum, pointwise, select, sqrt
from rushlight.codegen.language import pow as power
from rushlight.core.dtypes import float32, float64
from rushlight.core.facts import bump_version
from rushlight.core.roles import host
from rushlight.core.state import included_keys
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.python_key import listening
from rushlight.operators import batched_launch, call
from rushlight.operators.functions import tensor

# Dtypes whose parameters the kernels update; the state has the same dtype.
FUSED_DTYPES = frozenset({"float32", "float64", "bfloat16", "float16"})
ROW = 8192  # elements of a row where a tensor is divided among threads


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


def _guarded(rule, states, options):
    """A rule for scaled gradients: unscales them; nothing changes where one overflowed.

    Args:
        rule: what is done otherwise.
        states: how many tensors it keeps of each parameter.
        options: how many of its last arguments are known when it is compiled.
    """

    def guarded(param, grad, *given):
        kept, static = given[:states], given[len(given) - options :]
        *numbers, scale, found = given[states : len(given) - options]
        old, shown = (param, *kept, grad), grad / scale
        new = rule.function(param, shown, *kept, *numbers, *static)
        new = (*(new if isinstance(new, tuple) else (new,)), shown)
        return tuple(
            select(found > 0, one, other) for one, other in zip(old, new, strict=True)
        )

    guarded.__name__ = f"{rule.name}_guarded"
    return pointwise(guarded)


@pointwise
def adam_counted(step, lr, weight_decay, beta1, beta2, found, decoupled):
    """A counter that goes on, and what Adam's step takes from it."""
    step = select(found > 0, step, step + 1)
    size = lr / (1 - power(beta1, step))
    correction = 1 / sqrt(1 - power(beta2, step))
    shrink = 1 - lr * weight_decay if decoupled else 1 + 0 * lr
    return step, size, correction, shrink


GUARDED = {
    sgd: _guarded(sgd, 0, 2),
    sgd_momentum: _guarded(sgd_momentum, 1, 3),
    adam: _guarded(adam, 2, 2),
    adam_amsgrad: _guarded(adam_amsgrad, 3, 2),
}


def can_fuse(params):
    """Whether the kernels can update these parameters: dense, floating, seen by nobody."""
    if not params:
        return True
    if listening(*params):
        return False  # handlers see the operators of one parameter after the other
    grads = [each.grad for each in params]
    head = params[0]
    return (
        batched_launch.reaches(head.device)
        and head.dtype.name in FUSED_DTYPES
        and host.foreach.same_layout([params, grads])
    )


def _launch(rule, written, read, scalars, static, guard=None):
    """Specialise a rule for the tensors' dtype and run it over all of them.

    Args:
        guard: on a device, the scale of the gradients and whether one has overflowed.
    """
    _launch_by_kind(written[0][0].device, rule, written, read, scalars, static, guard)


def _launch_device(device, rule, written, read, scalars, static, guard):
    if guard is not None:
        rule, scalars = GUARDED[rule], (*scalars, *guard)
        written = [*written, read[1]]
    batched_launch.run(rule, written, [*read, *scalars], static)


def _launch_host(device, rule, written, read, scalars, static, guard):
    dtype = written[0][0].dtype.name
    compute = "float64" if dtype == "float64" else "float32"
    dtypes = (dtype,) * len(read) + (compute,) * len(scalars)
    kernel = rule.specialize(dtypes, (dtype,) * len(written), compute, static)
    host.foreach.launch_each(kernel, written, read, scalars)


_launch_by_kind = KernelTable(
    cpu=_launch_host, cuda=_launch_device, meta=_launch_device
)


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
    grad_scale=None,
    found_inf=None,
):
    """One step of stochastic gradient descent for all parameters, in place.

    Args:
        params, grads: lists of dense tensors of one dtype.
        momentum_buffers: the directions so far, or None for no momentum.
        first_step: whether the buffers hold nothing yet; they become the gradients.
        grad_scale, found_inf: what the gradients are divided by, and whether one of them
            has overflowed: then nothing changes.
    """
    if not params:
        return
    guard, overflown = _guard(grads, grad_scale, found_inf)
    if overflown:
        return
    static = (weight_decay != 0, bool(maximize))
    if momentum_buffers is None:
        scalars = (lr, weight_decay)
        _launch(sgd, [params], [params, grads], scalars, static, guard)
        return
    kept, share = (0.0, 1.0) if first_step else (momentum, 1 - dampening)
    _launch(
        sgd_momentum,
        [params, momentum_buffers],
        [params, grads, momentum_buffers],
        (lr, weight_decay, momentum, kept, share),
        (*static, bool(nesterov)),
        guard,
    )


def left_out(params, optimizer):
    """Whether a scaler leaves out a step that no kernel of lists takes.

    The gradients are unscaled here where it does not.
    """
    scale = getattr(optimizer, "grad_scale", None)
    found = getattr(optimizer, "found_inf", None)
    if found is not None and float(found):
        return True
    if scale is not None:
        for each in params:
            each.grad.div_(scale.to(each.grad.device))
    return False


def _guard(grads, grad_scale, found_inf):
    """What a step takes of a scaler's: two tensors on a device, or whether it is left out.

    On the host the gradients are unscaled here.
    """
    if grad_scale is None and found_inf is None:
        return None, False
    return _guard_by_kind(grads[0].device, grads, grad_scale, found_inf)


def _host_guard(device, grads, grad_scale, found_inf):
    if found_inf is not None and float(found_inf):
        return None, True
    if grad_scale is not None:
        for grad in grads:
            grad.div_(float(grad_scale))
    return None, False


def _device_guard(device, grads, grad_scale, found_inf):
    scale = 1.0 if grad_scale is None else grad_scale.to(device, non_blocking=True)
    found = 0.0 if found_inf is None else found_inf.to(device, non_blocking=True)
    return (scale, found), False


_guard_by_kind = KernelTable(cpu=_host_guard, cuda=_device_guard, meta=_device_guard)


def written_down():
    """Whether somebody writes down what this thread launches, to do it again later."""
    return (included_keys() >> DispatchKey.Planning) & 1


def _run_alone(rule, written, read, compute, static):
    """An elementwise kernel over one tensor of each list; those of one element are spread.

    So numbers are read where they lie, not handed over.
    """
    each, size = [*written, *read], written[0].numel()
    names = [[t.dtype.name for t in part] for part in (read, written)]
    kernel = rule.specialize(*names, compute, static)
    widths = [t.element_size() if t.numel() == size else 0 for t in each]
    flat = [t.detach().view(-1) for t in each]
    rows = size // ROW if size > ROW else 0
    if rows:
        host.launch.launch(
            kernel, flat, [ROW, *widths, *(ROW * width for width in widths)], rows, 2
        )
        flat = [t[rows * ROW :] if width else t for t, width in zip(flat, widths)]
    if size > rows * ROW:
        host.launch.launch(kernel, flat, [size - rows * ROW, *widths, *[0] * len(each)])
    for one in written:
        bump_version(one)


def _adam_alone(rule, written, read, counters, numbers, decoupled, static):
    """Adam's step where what it launches is done again without Python.

    What follows from the counters is computed by a kernel, as on a device.
    """
    lr, weight_decay, beta1, beta2, eps = numbers
    kind = written[0][0].dtype.name
    compute = float64 if kind == "float64" else float32

    def held(*values, dtype=compute):
        return [tensor(value, dtype=dtype) for value in values]

    counted_by = held(lr, weight_decay, beta1, beta2, 0.0, dtype=float64)
    decay, rest1, kept, rest2, small = held(
        weight_decay, 1 - beta1, beta2, 1 - beta2, eps
    )
    for at, counter in enumerate(counters):
        size, correction, shrink = (call.empty((), dtype=compute) for _ in range(3))
        _run_alone(
            adam_counted, [counter, size, correction, shrink], [counter, *counted_by],
            "float64", (decoupled,),
        )  # fmt: skip
        scalars = size, shrink, decay, rest1, kept, rest2, correction, small
        own, seen = [each[at] for each in written], [each[at] for each in read]
        _run_alone(rule, own, [*seen, *scalars], compute.name, static)


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
    grad_scale=None,
    found_inf=None,
):
    """One step of Adam for all parameters, in place; counts ``state_steps`` up.

    Args:
        params, grads, exp_avgs, exp_avg_sqs: lists of dense tensors of one dtype.
        max_exp_avg_sqs: the largest mean squares seen, or None without AMSGrad.
        state_steps: one-element float32 tensors, of the host or beside the parameters:
            then nothing waits for the device.
        decoupled: whether weight decay shrinks the parameters, as in AdamW.
        grad_scale, found_inf: as for `fused_sgd_`.
    """
    if not params:
        return
    guard, overflown = _guard(grads, grad_scale, found_inf)
    if overflown:
        return
    state = [exp_avgs, exp_avg_sqs]
    rule = adam
    if max_exp_avg_sqs is not None:
        state.append(max_exp_avg_sqs)
        rule = adam_amsgrad
    static = (weight_decay != 0 and not decoupled, bool(maximize))
    numbers = lr, weight_decay, beta1, beta2, eps
    operands = state_steps, params, grads, state
    _adam_by_kind(
        state_steps[0].device, rule, operands, numbers, bool(decoupled), static, guard
    )


def _adam_on_device(device, rule, operands, numbers, decoupled, static, guard):
    """Steps are counted where they are: nothing waits for a device."""
    state_steps, params, grads, state = operands
    lr, weight_decay, beta1, beta2, eps = numbers
    found = 0.0 if guard is None else guard[1]
    counted = [batched_launch.singles_for(state_steps) for _ in range(3)]
    batched_launch.run(
        adam_counted,
        [state_steps, *counted],
        [state_steps, lr, weight_decay, beta1, beta2, found],
        (decoupled,),
        "float64",
    )
    size, correction, shrink = counted
    scalars = (
        *(size, shrink, weight_decay, 1 - beta1, beta2, 1 - beta2),
        *(correction, eps),
    )
    read = [params, grads, *state]
    _launch(rule, [params, *state], read, scalars, static, guard)


def _adam_on_host(device, rule, operands, numbers, decoupled, static, guard):
    state_steps, params, grads, state = operands
    lr, weight_decay, beta1, beta2, eps = numbers
    if written_down():
        lists = [params, *state], [params, grads, *state], state_steps
        numbers = float(lr), weight_decay, beta1, beta2, eps
        _adam_alone(rule, *lists, numbers, decoupled, static)
        return
    lr, shrink = float(lr), 1 - lr * weight_decay if decoupled else 1.0
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
        _launch(rule, written, read, scalars, static, guard)


_adam_by_kind = KernelTable(
    cpu=_adam_on_host, cuda=_adam_on_device, meta=_adam_on_device
)


def fused_adamw_(*args, **options):
    """``fused_adam_`` whose weight decay shrinks the parameters."""
    fused_adam_(*args, decoupled=True, **options)
