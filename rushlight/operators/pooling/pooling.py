"""Pooling: windows of one, two or three dimensions over the last axes of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import NamedTuple

from rushlight.core.dtypes import bool_, float32, float64, int64
from rushlight.core.layout import channels_last, channels_last_3d
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.kernels.window import pixel_pooling, pooling_kernels
from rushlight.kernels.window.pooling_kernels import (
    avg_pool_gathers,
    find_outside,
    max_pool_gather,
    max_pool_scatter,
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
from rushlight.operators.pooling.geometry import axes_of, spread, windows
from rushlight.operators.shape.formats import (
    format_of,
    laid_out,
    lines_channels_last,
)
from rushlight.operators.type_groups import FLOATS

max_pools, avg_pools, avg_pool_scatters = (
    getattr(pooling_kernels, name) | getattr(pixel_pooling, name)
    for name in ("max_pools", "avg_pools", "avg_pool_scatters")
)


def _by_planes(out, kernels, kind, operands, ints, planes, work, constants):
    """Runs a kernel of windows with an item a plane; ``constants`` are compiled in."""
    types = {"T": name_of(out.dtype), **constants}
    run(kernels[kind], [out, *operands], ints, planes, work, **types)


def _by_elements(out, kernels, kind, operands, ints, planes, work, constants):
    """The same with an item an element of the result, for devices of many threads."""
    kernel, types = kernels["even" if kind == "even" else "single"], {}
    types["T"] = name_of(out.dtype)
    run(kernel.collapsed, [out, *operands], ints, out.numel(), **types)


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
        channels: those of a pixel, as the kernel's last integer; nothing for planes.
    """

    dense: Callable
    make: Callable
    kind: str
    items: int
    channels: list

    def cost(self, work):
        """Elements read for one item, of those of one plane."""
        return work * prod(self.channels)

    @classmethod
    def of(cls, x, layout, kind, planes, rows=1):
        """The traversal of an input; ``rows``: items of an image in pixels."""
        if layout not in (channels_last, channels_last_3d) or not _has_pixels(x):
            return cls(ops.contiguous, partial(fresh, x), kind, planes, [])

        def make(shape, *dtype):
            images, channels, *sizes = shape
            return ops.movedim(fresh(x, [images, *sizes, channels], *dtype), -1, 1)

        kind = "even_pixels" if kind == "even" else "pixels"
        dense = partial(ops.contiguous, memory_format=layout)
        return cls(dense, make, kind, x.shape[0] * rows, [x.shape[1]])


_has_pixels = KernelTable(
    cpu=lambda x: x.numel() > 0, cuda=lambda x: False, meta=lambda x: False
)


def _kept_sums(x, layout):
    """The layout in which means are summed where they go: of types that sums have."""
    return layout if x.dtype in (float32, float64) else None


def _averages_layout(x, axes):
    """The layout of means, which are rows for volumes."""
    return None if axes == 3 else layout_of(x, axes)


def scattered(operator, grad, x, indices, planes, size, osize, layout, win=None):
    """Adds each output's gradient to the place in its plane that ``indices`` names.

    Args:
        win: the `Windows` that the places came from, where they did.

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
    way, flag = Traversal.of(x, layout, "", planes), fault_flag(x)
    grad_input = way.make(x.shape)
    tensors = [grad_input, way.dense(grad), way.dense(indices)]
    sizes = way.items, size, osize, *way.channels
    _bring_back(grad, tensors, flag, sizes, win)
    refuse_fault(flag, operator, _outside, operator, size, indices)
    return laid_out(grad_input, layout)


def _outside(place, operator, size, indices):
    """The error for a place that is none of a plane's."""
    return RuntimeError(
        f"{operator}: found an invalid max index: {place} (a plane has {size}"
        f" elements)\n  indices: {brief(indices)}"
    )


def _bring_back_by_planes(grad, tensors, flag, sizes, win):
    """Clears planes, and adds each output's gradient."""
    items, *ints = sizes
    size, osize, *channels = ints
    types = {"T": name_of(grad.dtype)}
    work = (size + 2 * osize) * prod(channels)
    kernel = pixel_pooling.max_pool_scatter if channels else max_pool_scatter
    run(kernel, [*tensors, flag], ints, items, work, **types)


def _bring_back_by_elements(grad, tensors, flag, sizes, win):
    """Gathers the gradients of windows, where they are known."""
    if win is None:
        _bring_back_by_planes(grad, tensors, flag, sizes, win)
        return
    grad_input, _, indices = tensors
    run(find_outside, [indices, flag], [sizes[1]], indices.numel())
    types = {"T": name_of(grad.dtype)}
    run(max_pool_gather.collapsed, tensors, win.axes, grad_input.numel(), **types)


_bring_back = KernelTable(cpu=_bring_back_by_planes, cuda=_bring_back_by_elements)


def _max_pool(axes, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    operator = f"max_pool{axes}d"
    win = windows(operator, x, axes, kernel, stride, padding, dilation, ceil_mode)
    if x.dtype is bool_:
        _floating(operator, x)
    layout = layout_of(x, axes)
    return [laid_out(each, layout) for each in _largest(win, x, layout, 1)]


def max_pool_values(x, kernel, stride, padding, dilation, ceil_mode):
    """The values of max pooling over as many dimensions as the window has.

    What programs run where nobody looks at the places, after the same checks.
    """
    axes = len(kernel)
    operator = f"max_pool{axes}d"
    win = windows(operator, x, axes, kernel, stride, padding, dilation, ceil_mode)
    layout = layout_of(x, axes)
    return laid_out(_largest(win, x, layout, 0)[0], layout)


def _largest(win, x, layout, placed):
    """The largest of each window, and where ``placed`` their indices."""
    way = Traversal.of(x, layout, win.kind, win.planes, prod(win.out[:2]))
    out = way.make(win.out_shape)
    index = way.make(win.out_shape, int64) if placed else out
    run_windows(
        out,
        max_pools,
        way.kind,
        [index, way.dense(x)],
        [*win.axes, placed, *way.channels],
        way.items,
        way.cost(win.work),
        {**win.constants, "placed": placed},
    )
    return out, index


def _max_pool_backward(
    axes, grad, x, kernel, stride, padding, dilation, ceil_mode, index
):
    operator = f"max_pool{axes}d_backward"
    win = windows(operator, x, axes, kernel, stride, padding, dilation, ceil_mode)
    _check_grad(operator, grad, win.out_shape)
    return scattered(
        operator,
        grad,
        x,
        index,
        win.planes,
        prod(win.sizes),
        prod(win.out),
        layout_of(x, axes),
        win,
    )


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
    rows = prod(win.out[:2])
    way = Traversal.of(x, _kept_sums(x, layout), kind, win.planes, rows)
    out, ints = way.make(win.out_shape), [*win.axes, *rule, *way.channels]
    constants, work = win.with_divisor(divisor), way.cost(win.work)
    operands = [way.dense(x)]
    run_windows(out, avg_pools, way.kind, operands, ints, way.items, work, constants)
    return laid_out(out, layout)


def _avg_pool_backward(
    axes, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor=None
):
    operator = f"avg_pool{axes}d_backward"
    win = windows(operator, x, axes, kernel, stride, padding, 1, ceil_mode)
    rule = _averaging(win, x, count_include_pad, divisor)
    _check_grad(operator, grad, win.out_shape)
    constants, layout = win.with_divisor(divisor), _averages_layout(x, axes)
    kind = (
        "tiles" if win.inside and win.stride == win.kernel and constants else win.kind
    )
    way = Traversal.of(x, layout, kind, win.planes)
    grad_input = way.make(x.shape, grad.dtype)
    ints = [*win.axes, *rule, *way.channels]
    work = way.cost(2 * (win.work if kind == win.kind else prod(win.sizes)))
    _share(grad_input, way.kind, [way.dense(grad)], ints, way.items, work, constants)
    return laid_out(grad_input, layout)


def _share_by_planes(grad_input, *rest):
    """Shares gradients among elements, a plane at a time."""
    _by_planes(grad_input, avg_pool_scatters, *rest)


def _share_by_elements(grad_input, *rest):
    """Gathers for each element the shares of the windows over it."""
    _by_elements(grad_input, avg_pool_gathers, *rest)


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
    """Checks an adaptive call; returns the output's shape, planes and padded sizes."""
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
    return lead + out, prod(lead), ones + sizes, ones + out


def _adaptive_avg_pool(axes, x, output_size):
    operator = f"adaptive_avg_pool{axes}d"
    shape, planes, sizes, out_sizes = _adaptive(operator, x, axes, output_size)
    if prod(shape):
        _floating(operator, x)
    if prod(out_sizes) == 1:
        mean = x.mean([d - axes for d in range(axes)], keepdim=True)
        return laid_out(mean, layout_of(x, axes))
    layout = _averages_layout(x, axes)
    rows = prod(out_sizes[:2])
    way = Traversal.of(x, _kept_sums(x, layout), "even", planes, rows)
    out, work = way.make(shape), way.cost(prod(sizes))
    if prod(out_sizes):
        ints, operands = [*axes_of(sizes, out_sizes), 0, 0], [way.dense(x)]
        ints += way.channels
        run_windows(out, avg_pools, way.kind, operands, ints, way.items, work, {})
    return laid_out(out, layout)


def _adaptive_avg_pool_backward(axes, grad, x):
    operator = f"adaptive_avg_pool{axes}d"
    out = list(grad.shape[-axes:])
    shape, planes, sizes, out_sizes = _adaptive(operator, x, axes, out)
    _check_grad(operator, grad, shape)
    require(f"{operator}_backward", grad.dtype, FLOATS, grad)
    layout = None if prod(out_sizes) == 1 else _averages_layout(x, axes)
    way = Traversal.of(x, layout, "even", planes)
    grad_input = way.make(x.shape, grad.dtype)
    ints = [*axes_of(sizes, out_sizes), 0, 0, *way.channels]
    work = way.cost(2 * prod(sizes))
    _share(grad_input, way.kind, [way.dense(grad)], ints, way.items, work, {})
    return laid_out(grad_input, layout)


def _adaptive_max_pool(axes, x, output_size):
    operator = f"adaptive_max_pool{axes}d"
    shape, planes, sizes, out_sizes = _adaptive(operator, x, axes, output_size)
    _floating(operator, x)
    layout = layout_of(x, axes) if axes == 2 else None
    way = Traversal.of(x, layout, "even", planes, prod(out_sizes[:2]))
    out, index = way.make(shape), way.make(shape, int64)
    if prod(out_sizes):
        ints = [*axes_of(sizes, out_sizes), 1, *way.channels]
        work, operands = way.cost(prod(sizes)), [index, way.dense(x)]
        kept = {"placed": 1}
        run_windows(out, max_pools, way.kind, operands, ints, way.items, work, kept)
    return laid_out(out, layout), laid_out(index, layout)


def _adaptive_max_pool_backward(axes, grad, x, indices):
    operator = f"adaptive_max_pool{axes}d"
    _adaptive(operator, x, axes, list(grad.shape[-axes:]))
    _check_grad(operator, grad, indices.shape)
    _check_grad(operator, grad, [*x.shape[:-axes], *grad.shape[-axes:]])
    size, osize = prod(x.shape[-axes:]), prod(grad.shape[-axes:])
    layout = layout_of(x, axes) if axes == 2 else None
    planes = prod(x.shape[:-axes])
    return scattered(operator, grad, x, indices, planes, size, osize, layout)


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
