"""Input gradients of depthwise convolutions, as convolutions with their turned filters."""

from __future__ import annotations

import math

from rushlight.kernels.conv.conv_geometry import MOST_TAPS
from rushlight.operators import call as ops


def dilate_gradient(grad, shape, weight, stride, padding, dilation):
    """The output's gradient with zeros between its elements, as far apart as steps are."""
    sizes = [
        size + 2 * p - d * (taps - 1)
        for size, p, d, taps in zip(
            shape[2:], padding, dilation, weight.shape[2:], strict=True
        )
    ]
    wide = ops.new_zeros(grad, (*grad.shape[:2], *sizes))
    wide[..., :: stride[0], :: stride[1]].copy_(grad)
    return wide


def turned_padding(weight, stride, padding, dilation, groups):
    """The padding with which planes' own filters, turned, lead back to their input.

    None where there is none, or channels are shared.
    """
    if weight.ndim != 4 or tuple(stride) not in ((1, 1), (2, 2)) or dilation[0] != 1:
        return None
    taps = weight.shape[2:]
    if weight.shape[:2] != (groups, 1) or not 1 < math.prod(taps) <= MOST_TAPS:
        return None
    reach = [(t - 1) * d - p for t, d, p in zip(taps, dilation, padding, strict=True)]
    return tuple(reach) if min(reach) >= 0 else None
