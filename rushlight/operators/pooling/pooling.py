"""Pooling: windows of one, two or three dimensions over the last axes of a tensor."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import NamedTuple

from rushlight.core.dtypes import bool_, float32, float64, int64
from rushlight.core.layout import channels_last, channels_last_3d
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.kernels.window.pooling_kernels import (
    avg_pool_gathers,
    avg_pool_scatters,
    avg_pools,
    find_outside,
    max_pool_gathers,
    max_pool_scatter,
    max_pools,
)
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import (
    brief,
    fault_flag,
    fresh,
    name_of,
    refuse_fault,
    require,
    run,
)
from rushlight.operators.pooling.geometry import EvenWindows, spread, windows
from rushlight.operators.shape.formats import format_of, laid_out, lines_channels_last
from rushlight.operators.type_groups import FLOATS


def _by_planes(out, kernels, kind, operands, ints, planes, work, constants):
    """Runs a kernel of windows with an item a plane; ``constants`` are compiled in."""
    types = {"T": name_of(out.dtype), **constants}
    run(kernels[kind], [out, *operands], ints, planes, work, **types)


def _by_elements(out, kernels, kind, operands, ints, planes, work, constants):
    """The same with an item an element of the result, for devices of many threads."""
    kernel = kernels.get(_KINDS_OF_ELEMENTS.get(kind)) or kernels["single"]
    types = {"T": name_of(out.dtype), **constants}
    for name in (
        "width_count",
        "channels",
    ):  # rows are many threads', and of one channel
        types.pop(name, None)
    run(kernel.collapsed, [out, *operands], ints, out.numel(), **types)


# Kinds of windows where an item is an element: no others have kernels for vectors.
_KINDS_OF_ELEMENTS = {"even": "even", "inside": "whole"}


run_windows = KernelTable(cpu=_by_planes, cuda=_by_elements)


def layout_of(x, axes):
    """The memory format that results of pooling ``x`` are to have; None for rows."""
    if axes == 1:
        return "lines" if lines_channels_last(x) else None
    return format_of(x) if x.ndim == axes + 2 else None


class Traversal(NamedTuple):
    """How a kernel goes over pooled tensors: in planes, or in pixels with adjacent channels.

    Attributes:
        dense: from an operand to one as the kernel reads it.
        make: from a shape, and a dtype, to a result.
        kind: of windows, by which the kernel is found.
        items: how many planes, or images or rows of them, there are.
        channels: those of a pixel, as the kernel's last integer; one for planes.
        constants: what is compiled into kernels that are of both.
    """

    dense: Callable
    make: Callable
    kind: str
    items: int
    channels: int
    constants: dict

    @classmethod
    def of(cls, x, layout, kind, planes, rows=1):
        """The traversal of an input; ``rows``: items of an image in pixels."""
        if layout not in (channels_last, channels_last_3d) or not _has_pixels(x):
            one = {"channels": 1}
            return cls(ops.contiguous, partial(fresh, x), kind, planes, 1, one)

        def make(shape, *dtype):
            images, channels, *sizes = shape
            return ops.movedim(fresh(x, [images, *sizes, channels], *dtype), -1, 1)

        kind = "even_pixels" if kind == "even" else "pixels"
        dense = partial(ops.contiguous, memory_format=layout)
        return cls(dense, make, kind, x.shape[0] * rows, x.shape[1], {})


_has_pixels = KernelTable(
    cpu=lambda x: x.numel() > 0, cuda=lambda x: False, meta=lambda x: False
)


def _kept_sums(x, layout):
    """The layout in which means are summed where they go: of types that sums have."""
    return layout if x.dtype in (float32, float64) else None


def _averages_layout(x, axes):
    """The layout of means, which are rows for volumes."""
    return None if axes == 3 else layout_of(x, axes)


def scattered(operator, grad, x, indices, win, layout):
    """Adds each output's gradient to the place in its plane that ``indices`` names.

    Raises:
        RuntimeError: dtypes or shapes differ, or a place is outside of its plane.
    """
    if grad.dtype is not x.dtype:
        raise RuntimeError(
            f"expected dtype {name_of(x.dtype)} for `gradOutput` but got dtype"
            f" {name_of(grad.dtype)}\n  operator: {operator}"
        )
    if indices.dtype is not int64:
        raise RuntimeError(
            f"{operator}: Expected dtype int64 for indices, but got"
            f" {name_of(indices.dtype)}\n  indices: {brief(indices)}"
        )
    if tuple(indices.shape) != tuple(grad.shape):
        raise RuntimeError(
            f"{operator}: expected indices to have shape {list(grad.shape)}, but got"
            f" {list(indices.shape)}\n  indices: {brief(indices)}"
        )
    way, flag = Traversal.of(x, layout, "", win.planes), fault_flag(x)
    grad_input = way.make(x.shape)
    _bring_back(grad_input, way.dense(grad), way.dense(indices), flag, way, win)
    refuse_fault(flag, operator, _outside, operator, prod(win.sizes), indices)
    return laid_out(grad_input, layout)


def _outside(place, operator, size, indices):
    """The error for a place that is none of a plane's."""
    return RuntimeError(
        f"{operator}: found an invalid max index: {place} (a plane has {size}"
        f" elements)\n  indices: {brief(indices)}"
    )


def _bring_back_by_planes(grad_input, grad, indices, flag, way, win):
    """Clears planes, and adds each output's gradient."""
    ints = [prod(win.sizes), prod(win.out), way.channels]
    work = (ints[0] + 2 * ints[1]) * way.channels
    types = {"T": name_of(grad.dtype), **way.constants}
    tensors = [grad_input, grad, indices, flag]
    run(max_pool_scatter, tensors, ints, way.items, work, **types)


def _bring_back_by_elements(grad_input, grad, indices, flag, way, win):
    """Gathers the gradients of windows."""
    run(find_outside, [indices, flag], [prod(win.sizes)], indices.numel())
    operands, ints = [grad, indices], [*win.axes, 0, 0]
    given = operands, ints, 0, 0, win.with_divisor(0)
    _by_elements(grad_input, max_pool_gathers, win.kind, *given)


_bring_back = KernelTable(cpu=_bring_back_by_planes, cuda=_bring_back_by_elements)


def _max_pool(axes, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    operator = f"max_pool{axes}d"
    win = windows(operator, x, axes, kernel, stride, padding, dilation, ceil_mode)
    if x.dtype is bool_:
        _floating(operator, x)
    layout = layout_of(x, axes)
    return [laid_out(each, layout) for each in _reduced(max_pools, win, x, layout, 1)]


def max_pool_values(x, kernel, stride, padding, dilation, ceil_mode):
    """The values of max pooling over as many dimensions as the window has.

    What programs run where nobody looks at the places, after the same checks.
    """
    axes = len(kernel)
    operator = f"max_pool{axes}d"
    win = windows(operator, x, axes, kernel, stride, padding, dilation, ceil_mode)
    layout = layout_of(x, axes)
    return laid_out(_reduced(max_pools, win, x, layout)[0], layout)


def _reduced(kernels, win, x, layout, placed=0, padded=0, divisor=0, kind=None):
    """What windows come to, and where ``placed`` the places that it came from.

    Args:
        kernels: of a `WindowReduction`.
        win: the `Windows`, or `EvenWindows`.
        layout: that the results are to have; None for rows.
        padded, divisor: what a mean divides by.
        kind: of windows, by which the kernel is found; ``win.kind`` unless given.
    """
    way = Traversal.of(x, layout, kind or win.kind, win.planes, prod(win.out[:2]))
    out = way.make(win.out_shape)
    index = way.make(win.out_shape, int64) if placed else out
    if prod(win.out):
        ints = [*win.axes, placed, padded, divisor, way.channels]
        work, operands = win.work * way.channels, [index, way.dense(x)]
        constants = {**win.with_divisor(divisor), "placed": placed}
        run_windows(out, kernels, way.kind, operands, ints, way.items, work, constants)
    return out, index


def _max_pool_backward(
    axes, grad, x, kernel, stride, padding, dilation, ceil_mode, index
):
    operator = f"max_pool{axes}d_backward"
    win = windows(operator, x, axes, kernel, stride, padding, dilation, ceil_mode)
    _check_grad(operator, grad, win.out_shape)
    return scattered(operator, grad, x, index, win, layout_of(x, axes))


def _check_grad(operator, grad, shape):
    if list(grad.shape) != list(shape):
        raise RuntimeError(
            f"{operator}: expected grad_output to have shape {list(shape)}, but got"
            f" {list(grad.shape)}\n  grad_output: {brief(grad)}"
        )


def _check_divisor(operator, divisor):
    if divisor == 0:
        raise RuntimeError(f"{operator}: divisor must be not zero")


def _averaging(win, x, count_include_pad, divisor):
    """The integers that say what an average divides by."""
    _check_divisor(win.operator, divisor)
    if x.dtype is not int64:
        _floating(win.operator, x)
    return [int(bool(count_include_pad)), divisor or 0]


def _floating(operator, x):
    if not x.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"{operator}\" not implemented for '{x.dtype.name.capitalize()}'\n"
            f"  self: {brief(x)}"
        )


def _avg_pool(
    axes,
    x,
    kernel,
    stride=(),
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor=None,
):
    if axes == 2 and x.ndim < 3:
        x.size(-3)  # images have three dimensions at least
    win = windows(f"avg_pool{axes}d", x, axes, kernel, stride, padding, 1, ceil_mode)
    if axes == 3 and x.ndim > 3:
        cube = spread(kernel, 3, "kernel_size", "avg_pool3d")
        if any(n < k for n, k in zip(x.shape[-3:], cube)):
            raise RuntimeError(
                f"input image {list(x.shape[-3:])} smaller than kernel size {cube}\n"
                f"  operator: avg_pool3d\n  self: {brief(x)}"
            )
    rule = _averaging(win, x, count_include_pad, divisor)
    layout = _averages_layout(x, axes)
    # integers are divided with a fraction cut off, which vectors don't do
    kind = win.kind if x.dtype.is_floating_point else "single"
    sums = _kept_sums(x, layout)
    return laid_out(_reduced(avg_pools, win, x, sums, 0, *rule, kind)[0], layout)


def _avg_pool_backward(
    axes, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor=None
):
    operator = f"avg_pool{axes}d_backward"
    win = windows(operator, x, axes, kernel, stride, padding, 1, ceil_mode)
    rule = _averaging(win, x, count_include_pad, divisor)
    _check_grad(operator, grad, win.out_shape)
    tiled = win.inside and win.stride == win.kernel and win.constants
    kind = "tiles" if tiled else win.kind
    return _given_back(win, grad, x, _averages_layout(x, axes), rule, kind)


def _given_back(win, grad, x, layout, rule=(0, 0), kind="even"):
    """What windows give back to the elements that their means are of."""
    way = Traversal.of(x, layout, kind, win.planes)
    grad_input = way.make(x.shape, grad.dtype)
    ints = [*win.axes, *rule, way.channels]
    work = 2 * way.channels * (prod(win.sizes) if kind == "tiles" else win.work)
    constants = win.with_divisor(rule[1]) | way.constants
    _share(grad_input, way.kind, way.dense(grad), ints, way.items, work, constants)
    return laid_out(grad_input, layout)


def _share_by_planes(grad_input, kind, grad, *rest):
    """Shares gradients among elements, a plane at a time."""
    _by_planes(grad_input, avg_pool_scatters, kind, [grad], *rest)


def _share_by_elements(grad_input, kind, grad, *rest):
    """Gathers for each element the shares of the windows over it."""
    _by_elements(grad_input, avg_pool_gathers, kind, [grad, grad], *rest)


_share = KernelTable(cpu=_share_by_planes, cuda=_share_by_elements)


_NEED_CHANNELS = ("adaptive_max_pool2d", "adaptive_max_pool3d", "adaptive_avg_pool3d")
_WRONG_COUNTS = {
    "adaptive_avg_pool1d": (
        "adaptive_avg_pool1d() argument 'output_size' should contain one int (got {})"
    ),
    "adaptive_avg_pool2d": "adaptive_avg_pool2d: output_size must be 2",
    "adaptive_avg_pool3d": "adaptive_avg_pool3d: output_size must be 3",
    "adaptive_max_pool2d": (
        "adaptive_max_pool2d(): internal error: output_size.size() must be 2"
    ),
    "adaptive_max_pool3d": (
        "adaptive_max_pool3d(): internal error: output_size.size() must be 3"
    ),
}


def _adaptive(operator, x, axes, output_size):
    """Checks an adaptive call; returns its `EvenWindows`."""
    if x.dim() not in (axes + 1, axes + 2):
        raise RuntimeError(
            f"{operator}: Expected {axes + 1}D or {axes + 2}D tensor, but got"
            f" {list(x.shape)}\n  self: {brief(x)}"
        )
    sizes = list(x.shape[-axes:])
    out = [output_size] * axes if isinstance(output_size, int) else list(output_size)
    if len(out) != axes:
        raise RuntimeError(_WRONG_COUNTS[operator].format(len(out)))
    out = [n if o is None else o for n, o in zip(sizes, out)]
    if min(out) < 0 and "max" in operator:
        shape = [*x.shape[: x.ndim - axes], *out]
        raise RuntimeError(
            "Trying to create tensor with negative dimension"
            f" {min(out)}: {shape}\n  operator: {operator}"
        )
    if min(out) < 0:
        raise RuntimeError(
            f"{operator}: elements of output_size must be greater than or equal to 0"
            f" but received {tuple(out)}"
        )
    # Means over lines and images take no channels; the others don't.
    first = 1 if operator in _NEED_CHANNELS else x.ndim - axes
    for dim in range(first, x.ndim):
        if x.shape[dim] == 0:
            raise RuntimeError(
                f"{operator}(): Expected input to have non-zero size for non-batch"
                f" dimensions, but input has sizes {list(x.shape)} with dimension"
                f" {dim} being empty\n  self: {brief(x)}"
            )
    lead, ones = list(x.shape[:-axes]), [1] * (3 - axes)
    return EvenWindows(lead + out, prod(lead), *_joined(ones + sizes, ones + out))


def _joined(sizes, out):
    """Sizes and windows of three axes; two that have one window are one long axis."""
    while out[1:] == [1, 1] and sizes[:2] != [1, 1]:
        depth, height, width = sizes
        sizes, out = [1, depth, height * width], [1, out[0], 1]
    return sizes, out


def _adaptive_avg_pool(axes, x, output_size):
    win = _adaptive(f"adaptive_avg_pool{axes}d", x, axes, output_size)
    if prod(win.out_shape):
        _floating(f"adaptive_avg_pool{axes}d", x)
    if prod(win.out) == 1:
        mean = x.mean([d - axes for d in range(axes)], keepdim=True)
        return laid_out(mean, layout_of(x, axes))
    layout = _averages_layout(x, axes)
    return laid_out(_reduced(avg_pools, win, x, _kept_sums(x, layout))[0], layout)


def _adaptive_avg_pool_backward(axes, grad, x):
    operator = f"adaptive_avg_pool{axes}d"
    win = _adaptive(operator, x, axes, list(grad.shape[-axes:]))
    _check_grad(operator, grad, win.out_shape)
    require(f"{operator}_backward", grad.dtype, FLOATS, grad)
    layout = None if prod(win.out) == 1 else _averages_layout(x, axes)
    return _given_back(win, grad, x, layout)


def _adaptive_max_pool(axes, x, output_size):
    operator = f"adaptive_max_pool{axes}d"
    win = _adaptive(operator, x, axes, output_size)
    _floating(operator, x)
    layout = layout_of(x, axes) if axes == 2 else None
    return tuple(
        laid_out(each, layout) for each in _reduced(max_pools, win, x, layout, 1)
    )


def _adaptive_max_pool_backward(axes, grad, x, indices):
    operator = f"adaptive_max_pool{axes}d"
    win = _adaptive(operator, x, axes, list(grad.shape[-axes:]))
    _check_grad(operator, grad, indices.shape)
    _check_grad(operator, grad, win.out_shape)
    layout = layout_of(x, axes) if axes == 2 else None
    return scattered(operator, grad, x, indices, win, layout)


# One function serves all ranks; each is an operator.
max_pool1d_with_indices = partial(_max_pool, 1)
max_pool2d_with_indices = partial(_max_pool, 2)
max_pool3d_with_indices = partial(_max_pool, 3)
max_pool1d_with_indices_backward = partial(_max_pool_backward, 1)
max_pool2d_with_indices_backward = partial(_max_pool_backward, 2)
max_pool3d_with_indices_backward = partial(_max_pool_backward, 3)
avg_pool1d = partial(_avg_pool, 1)
avg_pool2d = partial(_avg_pool, 2)
avg_pool3d = partial(_avg_pool, 3)
avg_pool1d_backward = partial(_avg_pool_backward, 1)
avg_pool2d_backward = partial(_avg_pool_backward, 2)
avg_pool3d_backward = partial(_avg_pool_backward, 3)
adaptive_avg_pool1d = partial(_adaptive_avg_pool, 1)
adaptive_avg_pool2d = partial(_adaptive_avg_pool, 2)
adaptive_avg_pool3d = partial(_adaptive_avg_pool, 3)
adaptive_avg_pool1d_backward = partial(_adaptive_avg_pool_backward, 1)
adaptive_avg_pool2d_backward = partial(_adaptive_avg_pool_backward, 2)
adaptive_avg_pool3d_backward = partial(_adaptive_avg_pool_backward, 3)
adaptive_max_pool2d = partial(_adaptive_max_pool, 2)
adaptive_max_pool3d = partial(_adaptive_max_pool, 3)
adaptive_max_pool2d_backward = partial(_adaptive_max_pool_backward, 2)
adaptive_max_pool3d_backward = partial(_adaptive_max_pool_backward, 3)
