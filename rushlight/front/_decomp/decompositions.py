"""Operators as formulas of simpler ones, under the names that PyTorch has for them."""

import functools
import math
from enum import Enum

from rushlight._decomp.registry import register_decomposition
from rushlight.core.dtype import finfo
from rushlight.core.dtypes import bfloat16, float16, float32
from rushlight.core.tensor import Tensor
from rushlight.operators import call
from rushlight.ops import aten
from rushlight.utils._pytree import tree_leaves, tree_map

_HALVES = (float16, bfloat16)


class Reduction(Enum):
    """How a loss is reduced."""

    NONE = 0
    MEAN = 1
    SUM = 2


def _in_single(function):
    """Computes in float32 what is given in half precision alone, and rounds the results."""

    @functools.wraps(function)
    def computed(*args, **kwargs):
        given = [v for v in tree_leaves((args, kwargs)) if isinstance(v, Tensor)]
        halves = [value.dtype for value in given if value.dtype in _HALVES]
        if not halves or any(value.dtype is float32 for value in given):
            return function(*args, **kwargs)

        def wide(value):
            half = isinstance(value, Tensor) and value.dtype in _HALVES
            return value.to(float32) if half else value

        def narrow(value):
            single = isinstance(value, Tensor) and value.dtype is float32
            return value.to(halves[0]) if single else value

        args, kwargs = tree_map(wide, (args, kwargs))
        return tree_map(narrow, function(*args, **kwargs))

    return computed


def _formula(*operators):
    """Registers a formula that half precision is widened for."""

    def register(function):
        return register_decomposition(list(operators))(_in_single(function))

    return register


# -- activations -----------------------------------------------------------------------


@_formula(aten.elu)
def elu(self, alpha=1, scale=1, input_scale=1):
    below = (self * input_scale).expm1() * alpha * scale
    return call.where(self > 0, self * scale, below)


@_formula(aten.gelu)
def gelu(self, *, approximate="none"):
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (self + 0.044715 * self * self * self)
        return 0.5 * self * (1 + inner.tanh())
    return self * 0.5 * (1 + (self * math.sqrt(0.5)).erf())


@_formula(aten.silu)
def silu(self):
    return self * self.sigmoid()


@_formula(aten.mish)
def mish(self):
    return self * call.softplus(self).tanh()


@_formula(aten.hardswish)
def hardswish(self):
    return self * (self + 3).clamp(0, 6) / 6


@_formula(aten.hardsigmoid)
def hardsigmoid(self):
    return (self + 3).clamp(0, 6) / 6


@_formula(aten.hardtanh)
def hardtanh(self, min_val=-1, max_val=1):
    return self.clamp(min_val, max_val)


@_formula(aten.leaky_relu)
def leaky_relu(self, negative_slope=0.01):
    return call.where(self > 0, self, self * negative_slope)


@_formula(aten.softplus)
def softplus(self, beta=1, threshold=20):
    scaled = self * beta
    return call.where(scaled > threshold, self, scaled.exp().log1p() / beta)


@_formula(aten.softshrink)
def softshrink(self, lambd=0.5):
    low = call.where(self < -lambd, self + lambd, self * 0)
    return call.where(self > lambd, self - lambd, low)


@_formula(aten.hardshrink)
def hardshrink(self, lambd=0.5):
    inside = (self >= -lambd).logical_and(self <= lambd)
    return call.where(inside, 0, self)


@_formula(aten.tanh_backward)
def tanh_backward(grad_output, output):
    return grad_output * (1 - output * output)


@_formula(aten.sigmoid_backward)
def sigmoid_backward(grad_output, output):
    return grad_output * (output * (1 - output))


@_formula(aten.softplus_backward)
def softplus_backward(grad_output, self, beta, threshold):
    scaled = self * beta
    slope = scaled.sigmoid()
    return call.where(scaled > threshold, grad_output, grad_output * slope)


@_formula(aten.elu_backward)
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    factor = alpha * scale
    if is_result:
        below = grad_output * input_scale * (self_or_result + factor)
    else:
        below = (
            grad_output * input_scale * factor * (self_or_result * input_scale).exp()
        )
    return call.where(self_or_result <= 0, below, grad_output * scale)


@_formula(aten.hardtanh_backward)
def hardtanh_backward(grad_output, self, min_val, max_val):
    outside = (self <= min_val).logical_or(self >= max_val)
    return call.where(outside, 0, grad_output)


@_formula(aten.hardsigmoid_backward)
def hardsigmoid_backward(grad_output, self):
    inside = (self > -3).logical_and(self < 3)
    return call.where(inside, grad_output * (1 / 6), 0)


@_formula(aten.hardswish_backward)
def hardswish_backward(grad_output, self):
    between = call.where(self < 3, grad_output * (self / 3 + 0.5), grad_output)
    return call.where(self <= -3, 0, between)


@_formula(aten.leaky_relu_backward)
def leaky_relu_backward(grad_output, self, negative_slope, self_is_result):
    return call.where(self > 0, grad_output, grad_output * negative_slope)


@_formula(aten.threshold_backward)
def threshold_backward(grad_output, self, threshold):
    return call.where(self <= threshold, 0, grad_output)


@_formula(aten.gelu_backward)
def gelu_backward(grad, self, *, approximate="none"):
    if approximate == "tanh":
        factor, cubic = math.sqrt(2 / math.pi), 0.044715
        bent = (factor * (self + cubic * self * self * self)).tanh()
        slope = factor * (1 + 3 * cubic * self * self)
        return grad * (0.5 * (1 + bent) + 0.5 * self * (1 - bent * bent) * slope)
    below = 0.5 * (1 + (self * math.sqrt(0.5)).erf())
    density = (self * self * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
    return grad * (below + self * density)


@_formula(aten.silu_backward)
def silu_backward(grad_output, self):
    gate = self.sigmoid()
    return grad_output * gate * (1 + self * (1 - gate))


@_formula(aten.mish_backward)
def mish_backward(grad_output, input):
    bent = call.softplus(input).tanh()
    return grad_output * (bent + input * input.sigmoid() * (1 - bent * bent))


# -- sums of products ------------------------------------------------------------------


@register_decomposition(aten.addcmul)
def addcmul(self, tensor1, tensor2, *, value=1):
    return self + value * tensor1 * tensor2


@register_decomposition(aten.addcdiv)
def addcdiv(self, tensor1, tensor2, *, value=1):
    return self + value * (tensor1 / tensor2)


@register_decomposition(aten.lerp)
def lerp(start, end, weight):
    near = abs(weight) < 0.5
    below, above = start + weight * (end - start), end - (end - start) * (1 - weight)
    if isinstance(near, bool):
        return below if near else above
    return call.where(near, below, above)


def _with_addend(product, addend, beta, alpha):
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return product + (addend if beta == 1 else addend * beta)


@_formula(aten.addmm)
def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    return _with_addend(call.mm(mat1, mat2), self, beta, alpha)


@_formula(aten.addmv)
def addmv(self, mat, vec, *, beta=1, alpha=1):
    return _with_addend(call.mv(mat, vec), self, beta, alpha)


@_formula(aten.baddbmm)
def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    return _with_addend(call.bmm(batch1, batch2), self, beta, alpha)


@_formula(aten.addr)
def addr(self, vec1, vec2, *, beta=1, alpha=1):
    return _with_addend(vec1.unsqueeze(1) * vec2, self, beta, alpha)


@register_decomposition(aten.dot)
def dot(self, other):
    return (self * other).sum(0)


@register_decomposition(aten.stack)
def stack(tensors, dim=0):
    place = dim if dim >= 0 else dim + tensors[0].dim() + 1
    return call.cat([one.unsqueeze(place) for one in tensors], place)


# -- elementwise -----------------------------------------------------------------------


@register_decomposition(aten.rsub)
def rsub(self, other, *, alpha=1):
    return other - (self if alpha == 1 else self * alpha)


@_formula(aten.logaddexp)
def logaddexp(self, other):
    larger = self.maximum(other)
    same = (self == other).logical_and(self.abs() == math.inf)
    return call.where(same, self, larger + (-(self - other).abs()).exp().log1p())


@register_decomposition(aten.xlogy)
def xlogy(self, other):
    number = other if isinstance(other, Tensor) else call.scalar_tensor(other)
    first = self if isinstance(self, Tensor) else call.scalar_tensor(self)
    made = call.where(first == 0, 0, self * number.log())
    return call.where(number.isnan(), math.nan, made)


@register_decomposition(aten.frac)
def frac(self):
    return self - self.trunc()


@register_decomposition(aten.masked_fill)
def masked_fill(self, mask, value):
    value = value.to(self.dtype) if isinstance(value, Tensor) else value
    return call.where(mask, value, self)


@_formula(aten.logit)
def logit(self, eps=None):
    self = self if eps is None else self.clamp(eps, 1 - eps)
    return (self / (1 - self)).log()


@_formula(aten.logit_backward)
def logit_backward(grad_output, self, eps=None):
    low, high = (0, 1) if eps is None else (eps, 1 - eps)
    outside = math.nan if eps is None else 0
    inside = (self >= low).logical_and(self <= high)
    return call.where(inside, grad_output / (self * (1 - self)), outside)


@register_decomposition(aten.nan_to_num)
def nan_to_num(self, nan=0.0, posinf=None, neginf=None):
    limits = finfo(self.dtype)
    nan = 0.0 if nan is None else nan
    posinf = limits.max if posinf is None else posinf
    neginf = limits.min if neginf is None else neginf
    made = call.where(self.isnan(), nan, self)
    made = call.where(made == -math.inf, neginf, made)
    return call.where(made == math.inf, posinf, made)


@register_decomposition(aten.tril)
def tril(self, diagonal=0):
    return call.where(_distance(self) <= diagonal, self, 0)


@register_decomposition(aten.triu)
def triu(self, diagonal=0):
    return call.where(_distance(self) >= diagonal, self, 0)


def _distance(matrix):
    """How far right of the diagonal each element is."""
    rows, columns = matrix.shape[-2:]
    across = call.arange(columns, device=matrix.device)
    return across - call.arange(rows, device=matrix.device).unsqueeze(-1)


# -- losses ----------------------------------------------------------------------------


def _reduced(loss, reduction):
    if reduction == Reduction.MEAN.value:
        return loss.mean()
    return loss.sum() if reduction == Reduction.SUM.value else loss


@_formula(aten.mse_loss)
def mse_loss(self, target, reduction=Reduction.MEAN.value):
    return _reduced((self - target).pow(2), reduction)


@_formula(aten.mse_loss_backward)
def mse_loss_backward(grad_output, input, target, reduction):
    scale = 2.0 / input.numel() if reduction == Reduction.MEAN.value else 2.0
    return scale * (input - target) * grad_output


@_formula(aten.smooth_l1_loss)
def smooth_l1_loss(self, target, reduction=Reduction.MEAN.value, beta=1.0):
    loss = (self - target).abs()
    if beta:
        loss = call.where(loss < beta, 0.5 * loss**2 / beta, loss - 0.5 * beta)
    return _reduced(loss, reduction)


@_formula(aten.huber_loss)
def huber_loss(self, target, reduction=Reduction.MEAN.value, delta=1.0):
    loss = (self - target).abs()
    loss = call.where(loss <= delta, 0.5 * loss**2, delta * (loss - 0.5 * delta))
    return _reduced(loss, reduction)


@_formula(aten.binary_cross_entropy)
def binary_cross_entropy(self, target, weight=None, reduction=Reduction.MEAN.value):
    loss = (target - 1) * (-self).log1p().clamp(min=-100)
    loss = loss - target * self.log().clamp(min=-100)
    return _reduced(loss if weight is None else loss * weight, reduction)


@_formula(aten.soft_margin_loss)
def soft_margin_loss(self, target, reduction=Reduction.MEAN.value):
    return _reduced((-self * target).exp().log1p(), reduction)


def _class_weights(weight, classes, dims):
    return weight.reshape([-1 if at == classes else 1 for at in range(dims)])


@_formula(aten.nll_loss_forward)
def nll_loss_forward(self, target, weight, reduction, ignore_index):
    classes = 0 if self.dim() < 2 else 1
    counts = target != ignore_index
    chosen = call.where(counts, target, 0).unsqueeze(classes)
    scaled = (
        self if weight is None else self * _class_weights(weight, classes, self.dim())
    )
    losses = call.where(counts, -scaled.gather(classes, chosen).squeeze(classes), 0)
    if reduction == Reduction.NONE.value and self.dim() > 1:
        return losses, self.new_full((), 0.0)
    if weight is None:
        total = counts.sum().to(self.dtype)
    else:
        each = _class_weights(weight, classes, self.dim()).expand(self.shape)
        each = each.gather(classes, chosen).squeeze(classes)
        total = call.where(counts, each, 0).sum()
    if reduction == Reduction.MEAN.value:
        return losses.sum() / total, total
    return losses.sum(), total


@_formula(aten.nll_loss_backward)
def nll_loss_backward(
    grad_output, self, target, weight, reduction, ignore_index, total_weight
):
    classes = 0 if self.dim() < 2 else 1
    if reduction == Reduction.MEAN.value:
        grad_output = grad_output / total_weight
    target = target.unsqueeze(classes)
    chosen = call.where(target != ignore_index, target, 0)
    each = call.zeros_like(self).scatter(classes, chosen, -1.0)
    if weight is not None:
        each = each * _class_weights(weight, classes, self.dim())
    if grad_output.dim():
        grad_output = grad_output.unsqueeze(classes)
    return each * call.where(target != ignore_index, grad_output, 0)


# -- rows ------------------------------------------------------------------------------


@register_decomposition(aten._softmax)
def _softmax(x, dim, half_to_float):
    wide = x.to(float32) if x.dtype in _HALVES else x
    powers = (wide - wide.amax(dim, keepdim=True)).exp() if x.numel() else wide.exp()
    made = powers / powers.sum(dim, keepdim=True)
    return made if half_to_float else made.to(x.dtype)


@register_decomposition(aten._log_softmax)
def _log_softmax(x, dim, half_to_float):
    wide = x.to(float32) if x.dtype in _HALVES else x
    shifted = wide - wide.amax(dim, keepdim=True) if x.numel() else wide
    made = shifted - shifted.exp().sum(dim, keepdim=True).log()
    return made if half_to_float else made.to(x.dtype)


@_in_single
def _softmax_slope(grad_output, output, dim):
    product = grad_output * output
    return product - output * product.sum(dim, keepdim=True)


@register_decomposition(aten._softmax_backward_data)
def _softmax_backward_data(grad_output, output, dim, input_dtype):
    return _softmax_slope(grad_output, output, dim).to(input_dtype)


@_in_single
def _log_softmax_slope(grad_output, output, dim):
    return grad_output - output.exp() * grad_output.sum(dim, keepdim=True)


@register_decomposition(aten._log_softmax_backward_data)
def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    return _log_softmax_slope(grad_output, output, dim).to(input_dtype)


@_formula(aten.logsumexp)
def logsumexp(self, dim, keepdim=False):
    if not self.numel():
        return self.exp().sum(dim, keepdim).log()
    largest = self.amax(dim, keepdim=True)
    finite = call.where(largest.abs() == math.inf, 0, largest)
    total = (self - finite).exp().sum(dim, keepdim)
    return total.log() + (finite if keepdim else finite.amax(dim))


# -- normalization ---------------------------------------------------------------------


def _kept(statistics, input, weight):
    """Statistics in the type that they are kept in: the operands', if that is one."""
    same = weight is None or weight.dtype is input.dtype
    return statistics.to(input.dtype) if same else statistics


def _inner(input, normalized_shape):
    return list(range(input.dim() - len(normalized_shape), input.dim()))


@register_decomposition(aten.native_layer_norm)
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    wide = input.to(float32) if input.dtype in _HALVES else input
    dims = _inner(input, normalized_shape)
    var, mean = call.var_mean(wide, dims, correction=0, keepdim=True)
    rstd = (var + eps).rsqrt()
    made = (wide - mean) * rstd
    made = made if weight is None else made * weight
    made = made if bias is None else made + bias
    return made.to(input.dtype), _kept(mean, input, weight), _kept(rstd, input, weight)


@_formula(aten.native_layer_norm_backward)
def native_layer_norm_backward(
    grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask
):
    dims = _inner(input, normalized_shape)
    others = list(range(input.dim() - len(normalized_shape)))
    number = math.prod(normalized_shape)
    normal = (input - mean) * rstd
    scaled = grad_out if weight is None else grad_out * weight
    found = [None, None, None]
    if output_mask[0]:
        total = scaled.sum(dims, True)
        along = normal * (scaled * normal).sum(dims, True)
        found[0] = (rstd / number * (number * scaled - total - along)).to(input.dtype)
    if output_mask[1] and weight is not None:
        product = grad_out * normal
        found[1] = (product.sum(others) if others else product).to(weight.dtype)
    if output_mask[2] and bias is not None:
        found[2] = (grad_out.sum(others) if others else grad_out.clone()).to(bias.dtype)
    return tuple(found)


@register_decomposition(aten.native_group_norm)
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    wide = input.to(float32) if input.dtype in _HALVES else input
    rows = wide.reshape(N, group, C // group * HxW)
    var, mean = call.var_mean(rows, [2], correction=0, keepdim=True)
    rstd = (var + eps).rsqrt()
    made = ((rows - mean) * rstd).reshape(input.shape)
    each = [1, C] + [1] * (input.dim() - 2)
    made = made if weight is None else made * weight.reshape(each)
    made = made if bias is None else made + bias.reshape(each)
    mean, rstd = mean.squeeze(2), rstd.squeeze(2)
    return made.to(input.dtype), _kept(mean, input, weight), _kept(rstd, input, weight)


# -- places ----------------------------------------------------------------------------


@register_decomposition(aten.native_dropout_backward)
def native_dropout_backward(grad_output, mask, scale):
    return grad_output * (mask.to(grad_output.dtype) * scale)


@_formula(aten.embedding_dense_backward)
def embedding_dense_backward(
    grad_output, indices, num_weights, padding_idx, scale_grad_by_freq
):
    dims = indices.dim()
    if scale_grad_by_freq:
        ones = call.ones_like(indices)
        counts = indices.new_zeros((num_weights,)).index_put(
            [indices], ones, accumulate=True
        )
        grad_output = grad_output / counts[indices].unsqueeze(-1)
    mask = (indices == padding_idx).unsqueeze(-1)
    kept = call.where(mask, 0, grad_output)
    made = grad_output.new_zeros((num_weights, *grad_output.shape[dims:]))
    return made.index_put([indices], kept, accumulate=True)


@register_decomposition(aten.select_backward)
def select_backward(grad_output, input_sizes, dim, index):
    return call.select_scatter(
        grad_output.new_zeros(input_sizes), grad_output, dim, index
    )


@register_decomposition(aten.slice_backward)
def slice_backward(grad_output, input_sizes, dim, start, end, step):
    zeros = grad_output.new_zeros(input_sizes)
    return call.slice_scatter(zeros, grad_output, dim, start, end, step)


@register_decomposition(aten.diagonal_backward)
def diagonal_backward(grad_output, input_sizes, offset, dim1, dim2):
    zeros = grad_output.new_zeros(input_sizes)
    return call.diagonal_scatter(zeros, grad_output, offset, dim1, dim2)


@register_decomposition(aten.t)
def t(self):
    return self.permute([1, 0]) if self.dim() > 1 else self


# What PyTorch's core set keeps, though there is a formula.
CORE = [
    aten._log_softmax, aten._softmax, aten.addmm, aten.addmv, aten.elu, aten.gelu,
    aten.hardtanh, aten.leaky_relu, aten.native_group_norm, aten.native_layer_norm,
]  # fmt: skip
