"""Convolutions by transformed filters: 3 x 3 taps as a quarter of the products, and more."""

import functools

from rushlight.core.roles import host
from rushlight.kernels.conv.conv_geometry import PARALLEL_WORK, winograd_plan
from rushlight.kernels.conv.pixel_geometry import winograd_weight_plan
from rushlight.operators import call as ops
from rushlight.operators.convolution.conv_weight_layouts import transpose_blocks

launch, fresh = host.launch.launch, host.matmul.fresh
TRANSFORMED = "float32", "float64"
POINTS = 16  # that a filter is transformed to


class Minimal:
    """A planned convolution by transformed filters, see `kernels.conv.winograd`.

    Args:
        plan: integers, chunks and grain, of `winograd_plan`.
        flipped: whether the weight's first two dimensions are exchanged.
        channels_last: whether images' channels are innermost, and the kernel is of
            `winograd_pixels`.
    """

    def __init__(self, dtype, ints, chunks, grain, flipped, channels_last=False):
        self.dtype, self.ints, self.chunks, self.grain = dtype, ints, chunks, grain
        across, down = ints[:2]
        row, channel, *rest = ints[-5:]
        self.kinds = "winograd_filters", "winograd"
        if channels_last or flipped:  # filters are the other way round
            across, down, row, channel = down, across, channel, row
        if channels_last:
            self.kinds = "pixel_filters", "winograd_pixels"
        self.filters = POINTS, down, across
        self.filter_ints = (across, down, row, channel, *rest)
        self.filter_grain = max(1, PARALLEL_WORK // (2 * POINTS * across))

    def run(self, out, input, weight, bias, kernel=None, others=()):
        """Writes the output for operands laid out as planned, or what is behind it.

        Args:
            kernel: with something traced behind the sums, whose operands ``others`` are.
        """
        filters = fresh(weight, self.filters)
        transform, multiply = self.kinds
        launch(
            host_kernel(transform, self.dtype),
            (filters, weight),
            *(self.filter_ints, self.filters[1], self.filter_grain),
        )
        launch(
            kernel or host_kernel(multiply, self.dtype),
            (out, filters, input, bias, weight, *others),
            *(self.ints, self.chunks, self.grain),
        )
        return out


def is_finite(tensor):
    """Whether the sum of elements is a number; so is each of them then."""
    if not tensor.is_floating_point():
        return True
    return bool(ops.isfinite(ops.sum(tensor)))


def plan(dtype, geometry, biased, flipped=False, channels_last=False):
    """A `Minimal` of a geometry, as `winograd_plan` takes it; None where there is none."""
    if dtype.name not in TRANSFORMED:
        return None
    lanes = None if channels_last else _lanes(dtype)
    threads = host.pool.get_num_threads()
    found = winograd_plan(geometry, biased, flipped, lanes, threads)
    return None if found is None else Minimal(dtype, *found, flipped, channels_last)


def gradient_plan(
    grad, shape, weight, stride, padding, dilation, groups, channels_last=False
):
    """The input's gradient as a `Minimal` of the output's; None where it is none."""
    exchanged = weight.shape[1], weight.shape[0], *weight.shape[2:]
    around = tuple(k - 1 - p for k, p in zip(weight.shape[2:], padding, strict=True))
    if min(around) < 0:
        return None
    geometry = tuple(grad.shape), exchanged, tuple(shape[2:]), stride, around
    geometry += dilation, groups
    return plan(grad.dtype, geometry, False, True, channels_last)


def weight_gradient(grad, input, shape, last, dense, *settings):
    """The weight's gradient by transformed squares; None where it is not summed so.

    What is not finite may be finite in sums over taps, which must be had then.

    Args:
        last: whether channels are innermost in the result.
        dense: from an operand to one without gaps, channels last.
    """
    if grad.dtype.name not in TRANSFORMED:
        return None
    found = winograd_weight_plan(
        tuple(input.shape), shape, tuple(grad.shape[2:]), *settings
    )
    if found is None:
        return None
    ints, chunks, parts = found
    rows, channels = shape[:2]
    depth = 9 * channels
    steps = (channels, 1) if last else (1, 9)
    sums = fresh(grad, (parts, depth, rows))
    kernel = host_kernel("winograd_weights", grad.dtype)
    launch(kernel, (sums, dense(grad), dense(input)), (*ints, *steps), chunks, 1)
    out = fresh(grad, (rows, 3, 3, channels) if last else shape)
    transpose_blocks(
        out, sums, (depth, rows, rows, depth, parts, depth * rows, 0, 0), 1
    )
    if not is_finite(out):
        return None
    return out.permute(0, 3, 1, 2) if last else out


@functools.cache
def _lanes(dtype):
    from rushlight.codegen.target import current

    return current().lanes(dtype.itemsize)


@functools.cache
def host_kernel(kind, dtype):
    """A convolution's kernel, whose compiler is imported with the first."""
    from rushlight.kernels.conv.conv_kernel_registry import convolution_kernel

    return convolution_kernel(kind, dtype.name)
