"""Batch norms of finished models multiplied into the layers before them."""

import copy

import rushlight as rl
from rushlight.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _fused(weight, bias, mean, var, eps, gain, shift, shape):
    """The weight and bias of one layer that does both steps."""
    bias = rl.zeros_like(mean) if bias is None else bias
    gain = rl.ones_like(mean) if gain is None else gain
    shift = rl.zeros_like(mean) if shift is None else shift
    factor = gain * rl.rsqrt(var + eps)
    fused_weight = (weight * factor.reshape(shape)).to(dtype=weight.dtype)
    fused_bias = ((bias - mean) * factor + shift).to(dtype=weight.dtype)
    return (
        Parameter(fused_weight, weight.requires_grad),
        Parameter(fused_bias, bias.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False
):
    """The weight and bias of a convolution that norms its result as well.

    Args:
        conv_w: the weight of the convolution.
        conv_b: its bias, or None.
        bn_rm: the running mean.
        bn_rv: the running variance.
        bn_eps: what is added to the variance.
        bn_w: the weight of the batch norm, or None.
        bn_b: its bias, or None.
        transpose: whether the convolution is a transposed one.

    Returns:
        The weight and the bias.

    >>> one = rl.ones(1)
    >>> norm = one, one, 0.0, one * 2, one
    >>> weight, bias = fuse_conv_bn_weights(rl.ones(1, 1, 1), None, *norm)
    >>> float(weight), float(bias)
    (2.0, -1.0)
    """
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """The weight and bias of a linear layer that norms its result as well.

    Args:
        linear_w: the weight of the layer.
        linear_b: its bias, or None.
        bn_rm: the running mean.
        bn_rv: the running variance.
        bn_eps: what is added to the variance.
        bn_w: the weight of the batch norm, or None.
        bn_b: its bias, or None.

    Returns:
        The weight and the bias.

    >>> one = rl.ones(1)
    >>> norm = one, one, 0.0, one * 2, one
    >>> weight, bias = fuse_linear_bn_weights(rl.ones(1, 1), None, *norm)
    >>> float(weight), float(bias)
    (2.0, -1.0)
    """
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1))


def _check_eval(layer, bn):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")


def _fused_copy(layer, bn, fuse, *options):
    fused = copy.deepcopy(layer)
    statistics = bn.running_mean, bn.running_var, bn.eps
    fused.weight, fused.bias = fuse(
        fused.weight, fused.bias, *statistics, bn.weight, bn.bias, *options
    )
    return fused


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of a convolution that norms its result as the batch norm would.

    Args:
        conv: the convolution, in evaluation mode.
        bn: the batch norm, in evaluation mode.
        transpose: whether the convolution is a transposed one.

    Raises:
        AssertionError: one of the two is in training.

    >>> import rushlight as rl
    >>> conv, bn = rl.nn.Conv2d(1, 2, 3).eval(), rl.nn.BatchNorm2d(2).eval()
    >>> x = rl.ones(1, 1, 3, 3)
    >>> rl.allclose(fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)))
    True
    """
    _check_eval(conv, bn)
    return _fused_copy(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_linear_bn_eval(linear, bn):
    """A copy of a linear layer that norms its result as the batch norm would.

    Args:
        linear: the layer, in evaluation.
        bn: the batch norm, in evaluation.

    Raises:
        AssertionError: one of the two is in training, or their widths differ.

    >>> layer, norm = rl.nn.Linear(2, 3).eval(), rl.nn.BatchNorm1d(3).eval()
    >>> fused = fuse_linear_bn_eval(layer, norm)
    >>> bool(rl.allclose(fused(rl.ones(1, 2)), norm(layer(rl.ones(1, 2)))))
    True
    """
    _check_eval(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    return _fused_copy(linear, bn, fuse_linear_bn_weights)
