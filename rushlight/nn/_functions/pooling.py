"""Pooling: the operators with PyTorch's defaults, and what is built upon them."""

from __future__ import annotations

import rushlight as rl
from rushlight.ops import call


def max_pool1d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=False,
):
    """Largest value of each window along the last dimension."""
    stride = () if stride is None else stride
    pool = call.max_pool1d_with_indices if return_indices else call.max_pool1d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=False,
):
    """Largest value of each window over the last two dimensions.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: size of the window, one number or two.
        stride: step of the window; the window's size where it is left out.
        padding: how far windows reach over the edges, at most half the window.
        dilation: step between the elements of a window.
        ceil_mode: whether a last, partly covered window counts.
        return_indices: also return where in each plane the largest were.
    """
    stride = () if stride is None else stride
    pool = call.max_pool2d_with_indices if return_indices else call.max_pool2d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=False,
):
    """Largest value of each window over the last three dimensions."""
    stride = () if stride is None else stride
    pool = call.max_pool3d_with_indices if return_indices else call.max_pool3d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d_with_indices(
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=True,
):
    """``max_pool1d`` together with the places of the largest values."""
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=True,
):
    """``max_pool2d`` together with the places of the largest values."""
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input,
    kernel_size,
    stride=None,
    padding=0,
    dilation=1,
    ceil_mode=False,
    return_indices=True,
):
    """``max_pool3d`` together with the places of the largest values."""
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def _spread(value, count):
    """One number for each of ``count`` dimensions."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


def avg_pool1d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
):
    """Mean of each window along the last dimension."""
    stride = () if stride is None else stride
    return call.avg_pool1d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad
    )


def avg_pool2d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
):
    """Mean of each window over the last two dimensions."""
    stride = () if stride is None else stride
    return call.avg_pool2d(
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


def avg_pool3d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
):
    """Mean of each window over the last three dimensions."""
    stride = () if stride is None else stride
    return call.avg_pool3d(
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


def _filled_size(output_size, input, count):
    """The output size with None replaced by the input's own size."""
    if isinstance(output_size, int):
        return (output_size,) * count
    if input.dim() <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    sizes = input.shape[-len(output_size) :]
    return tuple(
        own if wanted is None else wanted for wanted, own in zip(output_size, sizes)
    )


def adaptive_avg_pool1d(input, output_size):
    """Mean over windows that divide the last dimension evenly."""
    return call.adaptive_avg_pool1d(input, _spread(output_size, 1))


def adaptive_avg_pool2d(input, output_size):
    """Mean over windows that divide the last two dimensions evenly."""
    return call.adaptive_avg_pool2d(input, _filled_size(output_size, input, 2))


def adaptive_avg_pool3d(input, output_size):
    """Mean over windows that divide the last three dimensions evenly."""
    return call.adaptive_avg_pool3d(input, _filled_size(output_size, input, 3))


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Largest value of windows that divide the last dimension evenly."""
    values, indices = call.adaptive_max_pool1d(input, _spread(output_size, 1))
    return (values, indices) if return_indices else values


def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Largest value of windows that divide the last two dimensions evenly."""
    values, indices = call.adaptive_max_pool2d(
        input, _filled_size(output_size, input, 2)
    )
    return (values, indices) if return_indices else values


def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Largest value of windows that divide the last three dimensions evenly."""
    values, indices = call.adaptive_max_pool3d(
        input, _filled_size(output_size, input, 3)
    )
    return (values, indices) if return_indices else values


def adaptive_max_pool1d_with_indices(input, output_size):
    """``adaptive_max_pool1d`` together with the places of the largest values."""
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input, output_size):
    """``adaptive_max_pool2d`` together with the places of the largest values."""
    return adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input, output_size):
    """``adaptive_max_pool3d`` together with the places of the largest values."""
    return adaptive_max_pool3d(input, output_size, True)


def _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, count, pool):
    kernel = _spread(kernel_size, count)
    stride = _spread(kernel if stride is None else stride, count)
    cells = 1
    for size in kernel:
        cells *= size
    mean = pool(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * cells).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """``norm_type``-norm of each window along the last dimension."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1, avg_pool1d)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """``norm_type``-norm of each window over the last two dimensions."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2, avg_pool2d)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """``norm_type``-norm of each window over the last three dimensions."""
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3, avg_pool3d)


def _max_unpool(input, indices, kernel_size, stride, padding, output_size, count):
    if input.shape != indices.shape:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(input.shape)}) but got indices tensor with shape: "
            f"{list(indices.shape)}"
        )
    kernel = _spread(kernel_size, count)
    stride = kernel if stride is None else _spread(stride, count)
    padding = _spread(padding, count)
    default = tuple(
        (size - 1) * step - 2 * pad + window
        for size, step, pad, window in zip(
            input.shape[-count:], stride, padding, kernel
        )
    )
    sizes = default if output_size is None else tuple(output_size)[-count:]
    for wanted, usual, step in zip(sizes, default, stride):
        if not usual - step < wanted < usual + step:
            raise ValueError(
                f"invalid output_size {sizes} (each size must be less than one stride "
                f"away from {default})"
            )
    lead = input.shape[:-count]
    cells = 1
    for size in sizes:
        cells *= size
    plane = rl.zeros(*lead, cells, dtype=input.dtype)
    places = indices.reshape(*lead, -1)
    return plane.scatter(-1, places, input.reshape(*lead, -1)).view(*lead, *sizes)


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put values back where ``max_pool1d`` found them, zeros elsewhere."""
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 1)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put values back where ``max_pool2d`` found them, zeros elsewhere."""
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 2)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put values back where ``max_pool3d`` found them, zeros elsewhere."""
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 3)
