"""Losses: what each element costs, and how the costs are put together."""

import math

from rushlight.codegen import language as L
from rushlight.codegen.language import pointwise
from rushlight.codegen.loops import A, loops
from rushlight.core.dtype import can_cast, get_default_dtype
from rushlight.core.tensor import Tensor
from rushlight.operators import call as ops
from rushlight.operators.functions import result_type
from rushlight.operators.loop_calls import (
    fault_flag,
    name_of,
    refuse_fault,
    run,
    scalar_name,
)
from rushlight.operators.shared import readable, refuse_gradient, written

NONE, MEAN, SUM = 0, 1, 2
FLOATING, COMPLEX = 2, 3  # categories of types


@pointwise
def squared_difference(x, y):
    """``(x - y) ** 2``."""
    return (x - y) * (x - y)


@pointwise
def scaled_difference(grad, x, y, scale):
    """The slope of a squared difference, times a scale."""
    return grad * ((x - y) * scale)


@pointwise
def smooth_l1(x, y, beta):
    """A parabola within ``beta`` of zero, then lines."""
    gap = abs(x - y)
    return L.select(gap < beta, 0.5 * gap * gap / beta, gap - 0.5 * beta)


@pointwise
def smooth_l1_backward(grad, x, y, beta):
    """The gap over ``beta``, held between -1 and 1."""
    gap = x - y
    outside = L.select(gap >= beta, grad, grad * gap / beta)
    return L.select(gap <= -beta, -grad, outside)


@pointwise
def huber(x, y, delta):
    """A parabola within ``delta`` of zero, then lines of that slope."""
    gap = abs(x - y)
    return L.select(gap < delta, 0.5 * gap * gap, delta * (gap - 0.5 * delta))


@pointwise
def huber_backward(grad, x, y, delta):
    """The gap, held between -delta and delta."""
    return grad * L.minimum(L.maximum(x - y, -delta), delta)


@pointwise
def soft_margin(x, y):
    """Logistic loss of the margin ``x * y``, in half precision of rounded steps."""
    return L.log1p(L.rounded(L.exp(L.rounded(-x * y))))


@pointwise
def soft_margin_backward(grad, x, y):
    """The slope of the logistic loss: NaN where its exponential overflows."""
    mass = L.rounded(L.exp(L.rounded(-x * y)))
    return -grad * y * mass / (1 + mass)


@pointwise
def bce(x, y):
    """Logarithms are held above -100, so that the cost stays finite."""
    right = L.maximum(L.log(x), -100)
    wrong = L.maximum(L.log1p(-x), -100)
    return (y - 1) * wrong - y * right


@pointwise
def bce_with_logits(x, y):
    """``(1 - y) * x - log_sigmoid(x)``, without its cancellation below zero.

    ``0 * x`` leaves no number at -inf, where the formula has none; targets above one
    cancel nothing, and are infinite there.
    """
    cancels = (x < 0) & (y <= 1)
    linear = L.where(cancels, 0 * x - x * y, (1 - y) * x - L.minimum(x, 0))
    return linear + L.log1p(L.exp(-abs(x)))


def reduce(costs, reduction):
    """All the costs, their mean or their sum."""
    if reduction == MEAN:
        return costs.mean()
    return costs.sum() if reduction == SUM else costs


def require_float(kernel, self, target):
    """Refuses operands whose common type isn't floating.

    Raises:
        NotImplementedError: it is another type, in the words for such a kernel.
    """
    dtype = result_type(self, target)
    if dtype.category == FLOATING:
        return
    raise NotImplementedError(
        f"\"{kernel}\" not implemented for '{scalar_name(dtype)}'"
    )


def check_cast(source, target):
    """Refuses to write results of one type where those of another belong.

    Raises:
        RuntimeError: it would lose what they are.
    """
    if not can_cast(source, target):
        raise RuntimeError(
            f"result type {scalar_name(source)} can't be cast to the desired output "
            f"type {scalar_name(target)}"
        )


def mse_loss(self, target, reduction):
    """Squares, then the mean or the sum.

    Raises:
        NotImplementedError: the tensors aren't floating.
    """
    if self.dtype.category != FLOATING or target.dtype is not self.dtype:
        require_float("mse_cpu", self, target)
    return reduce(ops._squared_difference(self, target), reduction)


def mse_loss_backward(grad_output, self, target, reduction):
    """Twice the difference, over the number of elements for the mean."""
    scale = 2.0
    if reduction == MEAN:
        wide = max(self.numel(), target.numel())
        scale = 2.0 / wide if wide else math.nan
    return ops._scaled_difference(grad_output, self, target, scale)


def mse_second_gradients(grad, grad_output, self, target, reduction, needs):
    """``mse_loss_backward`` is linear in each of its tensors."""
    scale = 2.0
    if reduction == MEAN:
        scale = 2.0 / max(self.numel(), target.numel(), 1)
    d_grad = d_self = d_target = None
    if needs & 1:
        d_grad = grad * ((self - target) * scale)
    if needs & 6:
        d_self = grad * grad_output * scale
        d_target = -d_self
    return d_grad, d_self, d_target


def l1_loss(self, target, reduction):
    """Distances, then the mean or the sum."""
    return reduce(ops.abs(self - target), reduction)


def smooth_l1_loss(self, target, reduction, beta):
    """Distances where ``beta`` is zero.

    Raises:
        RuntimeError: ``beta`` is negative.
    """
    if not beta >= 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(self, target, reduction)
    if self.dtype.category != FLOATING or target.dtype is not self.dtype:
        require_float("smooth_l1_cpu", self, target)
    return reduce(ops._smooth_l1(self, target, beta), reduction)


def smooth_l1_second_gradient(grad, grad_output, self, target, beta):
    """One over ``beta`` on the parabola."""
    inside = ops.abs(self - target) < beta
    return ops.where(inside, grad * grad_output / beta, 0)


def huber_loss(self, target, reduction, delta):
    """Parabola and lines.

    Raises:
        RuntimeError: ``delta`` isn't positive.
    """
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    delta = float(delta)
    if self.dtype.category != FLOATING or target.dtype is not self.dtype:
        common = result_type(self, target)
        check_cast(common, self.dtype)
        require_float("huber_cpu", self, target)
        if common is not self.dtype:
            costs = ops._huber(self, target, delta).to(self.dtype)
            return reduce(costs, reduction)
    costs = ops._huber(self, target, delta)
    if reduction == 0 and not self.is_contiguous():  # laid out by the input alone
        like = ops.empty_like(self)
        if costs.stride() != like.stride() and costs.shape == like.shape:
            return like.copy_(costs)
    return reduce(costs, reduction)


def huber_second_gradient(grad, grad_output, self, target, delta):
    """One on the parabola."""
    inside = ops.abs(self - target) < delta
    return ops.where(inside, grad * grad_output, 0)


def refuse_short(self, target, weight, reduction):
    """What autocast's blocks for GPUs say to logarithms of short probabilities.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
        "autocast.\nMany models use a sigmoid layer right before the binary cross "
        "entropy layer.\nIn this case, combine the two layers using "
        "torch.nn.functional.binary_cross_entropy_with_logits\nor "
        "torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and "
        "BCEWithLogits are\nsafe to autocast."
    )


@loops
def find_improper(x: "T*", fault: "i64*", begin: int, end: int):
    """Reports a number that is not from 0 to 1."""
    proper = True
    for i in range(begin, end):
        proper = proper & (A(x[i]) >= A(0)) & (A(x[i]) <= A(1))
    if not proper:
        fault[0] = begin


def _no_shares(at, name, tensor):
    """The error for what is no probability; of a device's only the outline is known."""
    found = ""
    if isinstance(tensor, Tensor):
        low, high = ops.aminmax(tensor)
        found = f"\n  {name}: {low.item()} to {high.item()}"
    return RuntimeError(f"all elements of {name} should be between 0 and 1{found}")


def binary_cross_entropy(self, target, weight, reduction):
    """The cost of each probability, weighted.

    Raises:
        RuntimeError: a probability is outside of [0, 1].
        ValueError: the shapes differ.
    """
    if weight is not None:
        refuse_gradient("binary_cross_entropy", weight=weight)
    if target.dtype is not self.dtype:
        raise RuntimeError(
            f"Found dtype {scalar_name(target.dtype)} but expected "
            f"{scalar_name(self.dtype)}"
        )
    if self.dtype.category != FLOATING:
        require_float("binary_cross_entropy", self, target)
    if readable(self) and readable(target) and self.numel():
        for name, tensor in (("input", self), ("target", target)):
            flag, kind = fault_flag(tensor), name_of(tensor.dtype)
            run(find_improper, [tensor.contiguous(), flag], [], tensor.numel(), T=kind)
            refuse_fault(flag, "binary_cross_entropy", _no_shares, name, tensor)
    costs = ops._bce(self, target)
    costs = costs if weight is None else written("mul", costs, weight)
    return reduce(costs, reduction)


def binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction):
    """The cost of each logit, weighted; ``pos_weight`` counts for the positive side."""
    if weight is not None or pos_weight is not None:
        name = "binary_cross_entropy_with_logits"
        refuse_gradient(name, weight=weight, pos_weight=pos_weight)
    if self.dtype.category != FLOATING:
        require_float("log_sigmoid_cpu", self, self)
    if target.dtype is not self.dtype:
        # what is computed from the target first has the target's dtype
        check_cast(result_type(self, target), target.dtype)
    if pos_weight is None and target.dtype.category != COMPLEX:
        costs = ops._bce_with_logits(self, target)
        if target.dtype is not self.dtype or target.stride() != self.stride():
            if costs._stand is None:
                costs = ops.empty_like(target).copy_(costs)
            else:  # a batch has no layout of its own to follow
                costs = costs.to(target.dtype)
    else:
        share = 1 if pos_weight is None else (pos_weight - 1) * target + 1
        costs = written("mul", written("sub", ops.ones_like(target), target), self)
        costs = written("sub", costs, share * ops.log_sigmoid(self))
    costs = costs if weight is None else written("mul", costs, weight)
    return reduce(costs, reduction)


def kl_div(self, target, reduction, log_target):
    """``target * (log(target) - self)``.

    Raises:
        RuntimeError: a tensor isn't floating.
    """
    kinds = self.dtype.category, target.dtype.category
    if kinds != (FLOATING, FLOATING):
        kind = "Complex" if COMPLEX in kinds else "Integral"
        raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    if log_target:
        gap = target - self
        return reduce(ops.exp(target) * gap, reduction)
    product = target * self
    return reduce(ops.xlogy(target, target) - product, reduction)


def soft_margin_second_gradient(grad, grad_output, self, target):
    """The logistic function's own slope: NaN where its exponential overflows."""
    mass = ops.exp(-self * target)
    slope = mass / (1 + mass).square()
    return grad * grad_output * target * target * slope


def soft_margin_loss(self, target, reduction):
    """``log(1 + exp(-target * self))``.

    Raises:
        RuntimeError: the input's dtype or shape isn't that of the result.
    """
    refuse_gradient("soft_margin_loss", target=target)
    if self.dtype.category not in (FLOATING, COMPLEX) or target.dtype is not self.dtype:
        common = result_type(self, target)
        if common.category < FLOATING:
            common = get_default_dtype()
        check_cast(common, self.dtype)
        target = target.to(self.dtype)
    costs = ops._soft_margin(self, target)
    if costs.shape != self.shape:
        raise RuntimeError(
            f"output with shape {list(self.shape)} doesn't match the broadcast shape "
            f"{list(costs.shape)}"
        )
    return reduce(costs, reduction)


def nll_loss(self, target, weight, reduction, ignore_index):
    """The loss without the weights' sum."""
    if weight is not None:
        refuse_gradient("nll_loss_forward", weight=weight)
    return ops.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]


def nll_grad_gradient(grad, target, weight, reduction, ignore_index):
    """The gradient of a gradient is the loss of what arrives."""
    return ops.nll_loss_forward(grad, target, weight, reduction, ignore_index)[0]


def cross_entropy_loss(self, target, weight, reduction, ignore_index, label_smoothing):
    """Labels by their likelihood; probabilities by the weighted sum of all.

    Raises:
        RuntimeError: the smoothing is outside of [0, 1], or shapes don't fit.
    """
    if not label_smoothing > 0.0:
        label_smoothing = 0.0  # as PyTorch has it, of negative numbers and NaN
    elif label_smoothing > 1.0:
        raise RuntimeError(
            f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        )
    channels = 0 if self.ndim == 1 else 1
    if self.shape == target.shape:
        if not target.is_floating_point():
            raise RuntimeError(
                "Expected floating point type for target with class probabilities, got "
                f"{scalar_name(target.dtype)}"
            )
        if ignore_index >= 0:
            raise RuntimeError(
                "ignore_index is not supported for floating point target"
            )
        return _with_probabilities(
            self, target, weight, reduction, label_smoothing, channels
        )
    logarithms = ops._log_softmax(self, channels, False)
    likelihood = nll_loss(logarithms, target, weight, reduction, ignore_index)
    if label_smoothing == 0:
        return likelihood
    smooth = _smooth_part(logarithms, target, weight, reduction, ignore_index, channels)
    share = label_smoothing / self.shape[channels]
    return (1 - label_smoothing) * likelihood + share * smooth


def _along_channels(weight, ndim, channels):
    shape = [1] * ndim
    shape[channels] = -1
    return weight.reshape(shape)


def _smooth_part(logarithms, target, weight, reduction, ignore_index, channels):
    """The loss of all classes alike, where the label isn't to be ignored."""
    costs = -logarithms
    if weight is not None:
        costs = costs * _along_channels(weight, logarithms.ndim, channels)
    kept = target != ignore_index
    costs = costs.sum([channels]) * kept
    if reduction != MEAN:
        return reduce(costs, reduction)
    if weight is None:
        return costs.sum() / kept.sum()
    labels = ops.where(kept, target, 0)
    counted = ops.index_select(weight, 0, labels.reshape(-1)).reshape(labels.shape)
    return costs.sum() / (counted * kept).sum()


def _with_probabilities(self, target, weight, reduction, smoothing, channels):
    classes = self.shape[channels]
    if weight is not None and (weight.ndim != 1 or weight.shape[0] != classes):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} "
            f"classes or no classes but got weight tensor of shape: {list(weight.shape)}"
        )
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / self.shape[channels]
    gains = ops._log_softmax(self, channels, False) * target
    if weight is not None:
        gains = gains * _along_channels(weight, self.ndim, channels)
    if reduction == MEAN:
        return -gains.sum() / (self.numel() // max(self.shape[channels], 1))
    return -gains.sum([channels]) if reduction == NONE else -gains.sum()
