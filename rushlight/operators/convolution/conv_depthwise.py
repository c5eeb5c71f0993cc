"""Depthwise convolutions on devices, and input gradients by filters turned round."""

import functools
import math

from rushlight.core.roles import host
from rushlight.kernels.conv.conv_geometry import MOST_TAPS, Geometry
from rushlight.operators import call as ops


def forward_on_device(input, weight, bias, shape, stride, padding, dilation, groups):
    """The output, of a shape that is known; each thread has an element."""
    sizes = tuple(input.shape), tuple(weight.shape), tuple(shape[2:])
    settings = stride, padding, dilation, groups
    name = input.dtype.name
    program = _program(
        sizes, tuple(map(tuple, settings[:3])), groups, name, bias is not None
    )
    out = host.matmul.fresh(input, shape)
    operands = [out, weight, input] + ([] if bias is None else [bias])
    program(*(t.reshape(a.shape) for t, a in zip(operands, program.program.arguments)))
    return out


@functools.lru_cache(maxsize=512)
def _program(sizes, settings, groups, dtype, biased):
    from rushlight.kernels.conv.depthwise_schedule import for_device
    from rushlight.tensor_expressions.build import build

    g = Geometry(*sizes, *settings, groups)
    schedule, arguments = for_device(g, g.images, dtype, biased)
    return build(schedule, arguments, "cuda", "depthwise")


def dilate_gradient(grad, shape, weight, stride, padding, dilation):
    """The output's gradient with zeros between its elements, as far apart as steps are."""
    sizes = _dilated_sizes(shape, weight, padding, dilation)
    wide = ops.new_zeros(grad, (*grad.shape[:2], *sizes))
    wide[..., :: stride[0], :: stride[1]].copy_(grad)
    return wide


def _dilated_sizes(shape, weight, padding, dilation):
    """Sizes of the output's gradient with zeros between its elements."""
    axes = zip(shape[2:], padding, dilation, weight.shape[2:], strict=True)
    return [size + 2 * p - d * (taps - 1) for size, p, d, taps in axes]


def transposed_padding(shape, weight, stride, padding, dilation, groups):
    """The padding with which planes' own filters, turned, lead back to their input.

    None where there is none, channels are shared, or no kernel has such planes.

    Args:
        shape: the input's.
    """
    if weight.ndim != 4 or tuple(stride) not in ((1, 1), (2, 2)):
        return None
    taps = weight.shape[2:]
    if weight.shape[:2] != (groups, 1) or math.prod(taps) == 1:
        return None
    reach = [(t - 1) * d - p for t, d, p in zip(taps, dilation, padding, strict=True)]
    if min(reach) < 0:
        return None
    if dilation[0] != 1 or math.prod(taps) > MOST_TAPS:
        sizes = *shape[:2], *_dilated_sizes(shape, weight, padding, dilation)
        settings = (1, 1), reach, dilation, groups
        g = Geometry(sizes, tuple(weight.shape), shape[2:], *settings)
        if not g.is_scheduled or not g.has_wide_bands:
            return None
    return tuple(reach)
