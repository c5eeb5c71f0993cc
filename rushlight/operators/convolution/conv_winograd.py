"""Convolutions by transformed filters: 3 x 3 taps as a quarter of the products, and more."""

from __future__ import annotations

import functools

from rushlight.core.roles import host
from rushlight.kernels.conv.conv_geometry import PARALLEL_WORK, winograd_plan

launch, fresh = host.launch.launch, host.matmul.fresh
TRANSFORMED = "float32", "float64"
POINTS = 16  # that a filter is transformed to


class Minimal:
    """A planned convolution by transformed filters, see `kernels.conv.winograd`.

    Args:
        plan: integers, chunks and grain, of `winograd_plan`.
    """

    def __init__(self, dtype, ints, chunks, grain):
        self.dtype, self.ints, self.chunks, self.grain = dtype, ints, chunks, grain
        self.channels, self.rows = ints[:2]
        self.filter_ints = *ints[:2], *ints[-5:]
        self.filter_grain = max(1, PARALLEL_WORK // (2 * POINTS * self.channels))

    def run(self, out, input, weight, bias, kernel=None, others=()):
        """Writes the output for row-major operands, or what is behind it.

        Args:
            kernel: with something traced behind the sums, whose operands ``others`` are.
        """
        filters = fresh(weight, (POINTS, self.rows, self.channels))
        launch(
            _kernel("winograd_filters", self.dtype),
            (filters, weight),
            *(self.filter_ints, self.rows, self.filter_grain),
        )
        launch(
            kernel or _kernel("winograd", self.dtype),
            (out, filters, input, bias, weight, *others),
            *(self.ints, self.chunks, self.grain),
        )
        return out


def plan(dtype, *geometry, flipped=False):
    """A `Minimal` of a geometry, as `winograd_plan` takes it; None where there is none."""
    if dtype.name not in TRANSFORMED:
        return None
    found = winograd_plan(*geometry, flipped, _lanes(dtype))
    return None if found is None else Minimal(dtype, *found)


def gradient_plan(grad, shape, weight, stride, padding, dilation, groups):
    """The input's gradient as a `Minimal` of the output's; None where it is none."""
    exchanged = weight.shape[1], weight.shape[0], *weight.shape[2:]
    around = tuple(k - 1 - p for k, p in zip(weight.shape[2:], padding, strict=True))
    if min(around) < 0:
        return None
    geometry = tuple(grad.shape), exchanged, tuple(shape[2:]), stride, around
    return plan(grad.dtype, *geometry, dilation, groups, False, flipped=True)


@functools.cache
def _lanes(dtype):
    from rushlight.codegen.target import current

    return current().lanes(dtype.itemsize)


@functools.cache
def _kernel(kind, dtype):
    from rushlight.kernels.conv.conv_kernel_registry import convolution_kernel

    return convolution_kernel(kind, dtype.name)
