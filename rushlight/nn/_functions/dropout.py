"""Dropout of elements and of whole channels."""

import warnings

from rushlight.core.docstrings import describe_arguments
from rushlight.operators import call


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input, p=0.5, training=True, inplace=False):
    """Zero each element with probability ``p`` in training; scale up the others.

    Args:
        input: the elements.

    >>> _ = rl.manual_seed(0)
    >>> dropout(rl.ones(6))
    tensor([0., 0., 2., 0., 0., 0.])
    """
    if p < 0.0 or p > 1.0:
        _check_probability(p)
    if inplace:
        return call.dropout_(input, p, training)
    return call.dropout(input, p, training)


def _drop_channels(input, p: float, training: bool, inplace: bool):
    if inplace:
        return call.feature_dropout_(input, p, training)
    return call.feature_dropout(input, p, training)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps the mean and variance of ``selu`` activations.

    Args:
        input: the elements.

    >>> _ = rl.manual_seed(0)
    >>> alpha_dropout(rl.ones(4), training=True)
    tensor([-0.7792, -0.7792,  1.6656, -0.7792])
    """
    _check_probability(p)
    if inplace:
        return call.alpha_dropout_(input, p, training)
    return call.alpha_dropout(input, p, training)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """``alpha_dropout`` of whole channels.

    Args:
        input: a batch of shape ``(N, C, ...)``.

    >>> _ = rl.manual_seed(0)
    >>> feature_alpha_dropout(rl.ones(1, 3, 2), training=True)
    tensor([[[-0.7792, -0.7792],
             [-0.7792, -0.7792],
             [ 1.6656,  1.6656]]])
    """
    _check_probability(p)
    if inplace:
        return call.feature_alpha_dropout_(input, p, training)
    return call.feature_alpha_dropout(input, p, training)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of ``(N, C, L)`` or ``(C, L)`` inputs.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``.

    >>> _ = rl.manual_seed(0)
    >>> dropout1d(rl.ones(1, 4, 2))
    tensor([[[0., 0.],
             [0., 0.],
             [2., 2.],
             [0., 0.]]])
    """
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
    if inplace:
        return _drop_channels(input.unsqueeze_(0), p, training, True).squeeze_(0)
    return _drop_channels(input.unsqueeze(0), p, training, False).squeeze(0)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of ``(N, C, H, W)`` inputs.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.

    >>> _ = rl.manual_seed(0)
    >>> dropout2d(rl.ones(1, 4, 1, 2)).flatten()
    tensor([0., 0., 0., 0., 2., 2., 0., 0.])
    """
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
    """Zero whole channels of ``(N, C, D, H, W)`` or ``(C, D, H, W)`` inputs.

    Args:
        input: ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> _ = rl.manual_seed(0)
    >>> dropout3d(rl.ones(1, 4, 1, 1, 2)).flatten()
    tensor([0., 0., 0., 0., 2., 2., 0., 0.])
    """
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
    if ndim == 5:
        return _drop_channels(input, p, training, inplace)
    if inplace:
        return _drop_channels(input.unsqueeze_(0), p, training, True).squeeze_(0)
    return _drop_channels(input.unsqueeze(0), p, training, False).squeeze(0)


describe_arguments(
    globals(),
    p="the probability that something is dropped, from 0 to 1.",
    training="whether anything is dropped; otherwise the input comes back.",
    inplace="whether the input itself is written to.",
)
