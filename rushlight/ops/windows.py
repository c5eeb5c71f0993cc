"""Pooling without the positions."""

from rushlight.ops import call as ops


def max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The values alone."""
    return ops.max_pool1d_with_indices(
        self, kernel_size, stride, padding, dilation, ceil_mode
    )[0]


def max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The values alone."""
    return ops.max_pool2d_with_indices(
        self, kernel_size, stride, padding, dilation, ceil_mode
    )[0]


def max_pool3d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The values alone."""
    return ops.max_pool3d_with_indices(
        self, kernel_size, stride, padding, dilation, ceil_mode
    )[0]


def adaptive_max_pool1d(self, output_size):
    """Two dimensions, the first of size one."""
    values, indices = ops.adaptive_max_pool2d(self.unsqueeze(-2), [1, *output_size])
    return values.squeeze(-2), indices.squeeze(-2)
