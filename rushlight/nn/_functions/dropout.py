"""Dropout of elements and of whole channels."""

from __future__ import annotations

import math
import warnings

import rushlight as rl
from rushlight.ops import call

# The value that selu tends to for very negative inputs.
_SELU_LIMIT = -1.7580993408473766


def _check_probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input, p=0.5, training=True, inplace=False):
    """Zero each element with probability ``p`` in training; scale up the others."""
    if p < 0.0 or p > 1.0:
        _check_probability(p)
    if not inplace:
        return call.dropout(input, p, training)
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        return input.zero_()
    return input.mul_(rl.empty_like(input).bernoulli_(1 - p).div_(1 - p))


def _channel_noise(input):
    """An empty tensor with one element for each channel of each sample."""
    if input.dim() < 2:
        raise RuntimeError(
            "Feature dropout requires at least 2 dimensions in the input"
        )
    return input.new_empty((*input.shape[:2], *(1,) * (input.dim() - 2)))


def _store(input, result, inplace):
    return input.copy_(result) if inplace else result


def _drop_channels(input, p, training, inplace):
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        return _store(input, input * rl.zeros_like(input), inplace)
    noise = _channel_noise(input).bernoulli_(1 - p).div_(1 - p)
    return input.mul_(noise) if inplace else input * noise


def _drop_to_limit(input, p, training, inplace, channels):
    """Set elements to selu's limit, then restore the mean and the variance."""
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        return _store(input, input * rl.zeros_like(input), inplace)
    keep = _channel_noise(input) if channels else rl.empty_like(input)
    keep.bernoulli_(1 - p)
    scale = 1.0 / math.sqrt((_SELU_LIMIT**2 * p + 1) * (1 - p))
    shift = (keep - 1) * (-_SELU_LIMIT * scale) + -_SELU_LIMIT * scale * p
    result = input * (keep * scale) + shift
    return _store(input, result, inplace)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps the mean and variance of ``selu`` activations."""
    _check_probability(p)
    return _drop_to_limit(input, p, training, inplace, channels=False)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """``alpha_dropout`` of whole channels."""
    _check_probability(p)
    return _drop_to_limit(input, p, training, inplace, channels=True)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of ``(N, C, L)`` or ``(C, L)`` inputs."""
    _check_probability(p)
    ndim = input.dim()
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note "
            "that dropout1d exists to provide channel-wise dropout on inputs with 1 "
            "spatial dimension, a channel dimension, and an optional batch dimension "
            "(i.e. 2D or 3D inputs)."
        )
    if ndim == 3:
        return _drop_channels(input, p, training, inplace)
    result = _drop_channels(input.unsqueeze(0), p, training, inplace).squeeze(0)
    return input if inplace else result


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of ``(N, C, H, W)`` inputs."""
    _check_probability(p)
    ndim = input.dim()
    if ndim not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {ndim}-D input to dropout2d, which is deprecated "
            "and will result in an error in a future release. To retain the behavior "
            "and silence this warning, please use dropout instead. Note that dropout2d "
            "exists to provide channel-wise dropout on inputs with 2 spatial "
            "dimensions, a channel dimension, and an optional batch dimension (i.e. 3D "
            "or 4D inputs).",
            stacklevel=2,
        )
    if ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that "
            "channel-wise 1D dropout behavior is desired - input is interpreted as "
            "shape (N, C, L), where C is the channel dim. This behavior will change in "
            "a future release to interpret the input as one without a batch dimension, "
            "i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, "
            "please switch to using dropout1d instead.",
            stacklevel=2,
        )
    return _drop_channels(input, p, training, inplace)


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of ``(N, C, D, H, W)`` or ``(C, D, H, W)`` inputs."""
    _check_probability(p)
    ndim = input.dim()
    if ndim not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {ndim}-D input to dropout3d, which is deprecated "
            "and will result in an error in a future release. To retain the behavior "
            "and silence this warning, please use dropout instead. Note that dropout3d "
            "exists to provide channel-wise dropout on inputs with 3 spatial "
            "dimensions, a channel dimension, and an optional batch dimension (i.e. 4D "
            "or 5D inputs).",
            stacklevel=2,
        )
    if ndim != 4:
        return _drop_channels(input, p, training, inplace)
    result = _drop_channels(input.unsqueeze(0), p, training, inplace).squeeze(0)
    return input if inplace else result
