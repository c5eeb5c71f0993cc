"""Convolutions on the host whose images' channels lie innermost: nothing is copied to planes.

Every function gives None where no kernel takes the operands as they lie. Gradients of weights
are summed so from operands of any layout, where transformed squares save more than copies cost.
"""

import math

from rushlight.core.layout import channels_last
from rushlight.core.roles import host
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.kernels.conv import pixel_geometry
from rushlight.operators import call as ops
from rushlight.operators.convolution import conv_few_positions as few_positions
from rushlight.operators.convolution import conv_winograd as minimal
from rushlight.operators.convolution.conv_weight_layouts import (
    computed,
    transpose_blocks,
    transpose_weight,
)
from rushlight.operators.convolution.conv_winograd import host_kernel, is_finite
from rushlight.operators.shared import recorded_ahead

launch, fresh = host.launch.launch, host.matmul.fresh


def forward(input, weight, bias, plan, transposed, layout):
    """The output of a convolution that `convolution.planned` has checked."""
    if layout is not channels_last or transposed or plan.empty:
        return None
    return _forward(input, weight, bias, plan)


def _forward_on_host(input, weight, bias, plan):
    geometry = tuple(input.shape), tuple(weight.shape), plan.shape[2:], *plan.settings
    biased = bias is not None
    transform = minimal.plan(plan.dtype, geometry, biased, channels_last=True)
    found = pixel_geometry.forward_plan(*geometry, biased, host.pool.get_num_threads())
    if transform is None and found is None:
        return None
    x, w = (dense(operand.to(plan.dtype)) for operand in (input, weight))
    if biased:
        bias = bias.to(plan.dtype).contiguous()
    if few_positions.are_few(plan.shape, w, plan.settings[-1], transform):
        out = few_positions.forward(x, w, bias, plan.shape[2:], *plan.settings[:3])
        return out.to(input.dtype)
    out, filters = empty(x, plan.shape), transpose_weight(w, plan.settings[-1])
    if transform is not None:
        transform.run(out, x, filters, bias)
    else:
        launch(host_kernel("pixels", plan.dtype), (out, filters, x, bias), *found)
    return out.to(input.dtype)


def input_gradient(grad, input, weight, transposed, layout, geometry):
    """The gradient of the input."""
    if layout is not channels_last or transposed or 0 in (grad.numel(), weight.numel()):
        return None
    return _input_gradient(grad, input, weight, geometry)


def _input_gradient_on_host(grad, input, weight, geometry):
    dtype, shape = computed(grad.dtype), tuple(input.shape)
    grad, weight = grad.to(dtype), weight.to(dtype)
    transform = minimal.gradient_plan(grad, shape, weight, *geometry, True)
    shapes = shape, tuple(weight.shape), tuple(grad.shape[2:])
    found = pixel_geometry.input_plan(*shapes, *geometry, host.pool.get_num_threads())
    if transform is None and found is None:
        return None
    if few_positions.are_few(grad.shape, weight, geometry[-1], transform):
        operands = dense(grad), shape, dense(weight), *geometry[:3]
        return few_positions.input_gradient(*operands).to(input.dtype)
    # Zeros around the gradient are multiplied: by an infinite weight they are NaN, which is
    # looked for where there are fewer elements.
    padded = weight.shape[2:] != (1, 1)
    small = weight.numel() <= math.prod(shape) or recorded_ahead()
    if padded and small and not is_finite(weight):
        return None
    out, grad, weight = empty(grad, shape), dense(grad), dense(weight)
    if transform is not None:
        transform.run(out, grad, weight, None)
    else:
        _run_phases(out, grad, weight, geometry[-1], *found)
    if padded and not small and not is_finite(out) and not is_finite(weight):
        return None
    return out.to(input.dtype)


def _run_phases(out, grad, weight, groups, gaps, phases):
    """The gradient of an input, of positions that see the same taps at a time."""
    if gaps:
        out.zero_()
    taps = weight.unflatten(0, (groups, -1)).permute(0, 3, 4, 1, 2)
    for slices, *plan in phases:
        seen = taps[(slice(None), *slices)]
        if seen.shape[1:3] != (1, 1):
            seen = seen.flip(1, 2)
        operands = out, seen.contiguous(), grad, None
        launch(host_kernel("pixels", grad.dtype), operands, *plan)


def weight_gradient(grad, input, weight, transposed, layout, geometry):
    """The gradient of the weight, of operands of any layout."""
    empty = 0 in (grad.numel(), input.numel(), weight.numel())
    if transposed or grad.ndim != 4 or empty:
        return None
    return _weight_gradient(grad, input, weight, layout, geometry)


def _weight_gradient_on_host(grad, input, weight, layout, geometry):
    dtype, shape = computed(grad.dtype), tuple(weight.shape)
    grad, input = grad.to(dtype), input.to(dtype)
    last = layout is channels_last
    shapes = tuple(input.shape), shape, tuple(grad.shape[2:])
    squares = pixel_geometry.winograd_weight_plan(*shapes, *geometry)
    if last and few_positions.are_few(grad.shape, weight, geometry[-1], squares):
        operands = dense(grad), dense(input), weight, *geometry[:3]
        return few_positions.weight_gradient(*operands).to(weight.dtype)
    result = minimal.weight_gradient(grad, input, shape, last, dense, *geometry)
    if result is None and last:
        result = _weight_sums(dense(grad), dense(input), shape, *geometry)
    return None if result is None else result.to(weight.dtype)


def _weight_sums(grad, input, shape, *geometry):
    """The gradient of the weight summed over patches; None where planes are better."""
    found = pixel_geometry.weight_plan(
        *(tuple(input.shape), shape, tuple(grad.shape[2:]), *geometry),
        host.pool.get_num_threads(),
    )
    if found is None:
        return None
    ints, chunks, parts = found
    groups, depth = geometry[-1], math.prod(shape[1:])
    rows = shape[0] // groups
    sums = fresh(grad, (parts, groups, depth, rows))
    launch(
        host_kernel("pixel_weights", grad.dtype), (sums, grad, input), ints, chunks, 1
    )
    out = fresh(grad, shape) if shape[2:] == (1, 1) else empty(grad, shape)
    size = depth * rows
    transpose_blocks(
        out, sums, (depth, rows, rows, depth, parts, groups * size, size, size), groups
    )
    return out


def dense(tensor):
    """A tensor without gaps, channels last."""
    if tensor.is_contiguous(memory_format=channels_last):
        return tensor
    return tensor.contiguous(memory_format=channels_last)


def empty(like, shape):
    """An uninitialised tensor of a shape, channels last."""
    images, channels, *sizes = shape
    return fresh(like, (images, *sizes, channels)).permute(0, 3, 1, 2)


def _nowhere(*_):
    """Elsewhere than on the host: no kernel."""


_forward = KernelTable(cpu=_forward_on_host, cuda=_nowhere, meta=_nowhere)
_input_gradient = KernelTable(cpu=_input_gradient_on_host, cuda=_nowhere, meta=_nowhere)
_weight_gradient = KernelTable(
    cpu=_weight_gradient_on_host, cuda=_nowhere, meta=_nowhere
)
