"""What PyTorch's core set has in place of operators that are primitive here."""

from rushlight.core.dtypes import complex64, complex128, float32, float64
from rushlight.operators import call

_WIDE = (float32, float64, complex64, complex128)
NONE, MEAN, SUM = range(3)  # how a loss is reduced


def _total(input, *, dtype=None):
    return call.sum(input, [], dtype=dtype)


def _is_wide(*tensors):
    """Whether formulas in steps round as the one operator does."""
    return all(one.dtype in _WIDE for one in tensors)


def _silu(input):
    return input * input.sigmoid() if _is_wide(input) else NotImplemented


def _hardsigmoid(input):
    return (input + 3).clamp(0, 6) / 6 if _is_wide(input) else NotImplemented


def _log_sigmoid(input):
    if not _is_wide(input):
        return NotImplemented
    zero = call.full((), 0, dtype=input.dtype, device=input.device)
    return call.minimum(zero, input) - input.abs().neg().exp().log1p()


def _std(input, dim=None, *, correction=None, keepdim=False):
    if not _is_wide(input):
        return NotImplemented
    return call.var(input, dim, correction=correction, keepdim=keepdim).sqrt()


def _std_mean(input, dim=None, *, correction=None, keepdim=False):
    if not _is_wide(input):
        return NotImplemented
    var, mean = call.var_mean(input, dim, correction=correction, keepdim=keepdim)
    return var.sqrt(), mean


def _stack(tensors, dim=0):
    place = dim if dim >= 0 else dim + tensors[0].dim() + 1
    return call.cat([one.unsqueeze(place) for one in tensors], place)


def _dot(input, other):
    kind = input.dtype
    exact = not (kind.is_floating_point or kind.is_complex)
    if not exact and kind not in _WIDE:
        return NotImplemented
    return call.sum(input * other, [0], dtype=kind if exact else None)


def _baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    if not _is_wide(input):
        return NotImplemented
    made = call.bmm(batch1, batch2)
    made = made if alpha == 1 else made * alpha
    if beta == 0:
        return made
    return made + (input if beta == 1 else input * beta)


def _mse_loss(input, target, reduction=MEAN):
    if not _is_wide(input, target):
        return NotImplemented
    loss = (input - target).pow(2)
    if reduction == NONE:
        return loss
    return loss.mean() if reduction == MEAN else loss.sum()


def _softmax_backward(grad_output, output, dim, input_dtype):
    if not _is_wide(grad_output, output) or input_dtype is not output.dtype:
        return NotImplemented
    product = grad_output * output
    return product - output * call.sum(product, [dim], keepdim=True)


def _nll_loss(input, target, weight, reduction, ignore_index):
    """The loss of classes, and how many examples count."""
    if weight is not None or not _is_wide(input):
        return NotImplemented
    classes = 0 if input.dim() < 2 else 1
    counts = target != ignore_index
    nowhere = call.scalar_tensor(0, dtype=target.dtype, device=target.device)
    positions = call.where(counts, target, nowhere).unsqueeze(classes)
    picked = input.gather(classes, positions).squeeze(classes).neg()
    nothing = call.scalar_tensor(0, dtype=input.dtype, device=input.device)
    losses = call.where(target != ignore_index, picked, nothing)
    if reduction == NONE and input.dim() > 1:
        return losses, call.full((), 0.0, dtype=input.dtype, device=input.device)
    number = (target != ignore_index).sum().to(input.dtype)
    if reduction == MEAN:
        return losses.sum() / number, number
    return losses.sum(), number


def _prelu(input, weight):
    return call.where(input > 0, input, weight * input)


def core():
    """The table: what is recorded in place of operators, by operator."""
    rows = (
        (call.t, lambda input: input.permute([1, 0])),
        (call.silu, _silu),
        (call.hardsigmoid, _hardsigmoid),
        (call.log_sigmoid, _log_sigmoid),
        (call.stack, _stack),
        (call.dot, _dot),
        (call.baddbmm, _baddbmm),
        (call.mse_loss, _mse_loss),
        (call.nll_loss_forward, _nll_loss),
        (call._prelu_kernel, _prelu),
        (call._softmax_backward_data, _softmax_backward),
    )
    found = {packet.overloads[0]: function for packet, function in rows}
    found[call.sum.overloads[0]] = _total
    for packet, function in ((call.std, _std), (call.std_mean, _std_mean)):
        for overload in packet.overloads:
            if overload._overloadname == "correction":
                found[overload] = function
    return found
