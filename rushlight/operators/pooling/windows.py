"""Pooling without the positions."""

from rushlight.core.state import is_grad_enabled
from rushlight.operators import call as ops
from rushlight.operators.pooling.pooling import layout_of
from rushlight.operators.shape.formats import laid_out, lines_channels_last


def max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The values alone.

    Raises:
        NotImplementedError: the input isn't floating.
    """
    result = ops.max_pool1d_with_indices(
        self, kernel_size, stride, padding, dilation, ceil_mode
    )[0]
    if not self.is_floating_point():
        name = self.dtype.name.capitalize()
        raise NotImplementedError(f"\"max_pool1d_impl\" not implemented for '{name}'")
    if not lines_channels_last(self) or self.requires_grad and is_grad_enabled():
        return result
    # PyTorch's kernel without positions writes rows, whatever the input's layout
    return result.reshape(-1).view(result.shape)


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
    """Two dimensions, the first of size one.

    Raises:
        RuntimeError: the output has another number of sizes than one.
    """
    if len(output_size) != 1:
        raise RuntimeError(
            "adaptive_max_pool1d() argument 'output_size' should contain one int (got "
            f"{len(output_size)})"
        )
    if self.ndim not in (2, 3):
        raise RuntimeError(
            f"adaptive_max_pool1d(): Expected 2D or 3D tensor, but got "
            f"{list(self.shape)}"
        )
    for dim in range(1, self.ndim):
        if self.shape[dim] == 0:
            raise RuntimeError(
                "adaptive_max_pool1d(): Expected input to have non-zero size for "
                f"non-batch dimensions, but input has sizes {list(self.shape)} with "
                f"dimension {dim} being empty"
            )
    values, indices = ops.adaptive_max_pool2d(self.unsqueeze(-2), [1, *output_size])
    return values.squeeze(-2), indices.squeeze(-2)


def adaptive_avg_pool1d(self, output_size):
    """The mean where there is one window."""
    return _adaptive_avg_pool(self, output_size, 1, ops._adaptive_avg_pool1d)


def adaptive_avg_pool2d(self, output_size):
    """The mean where there is one window."""
    return _adaptive_avg_pool(self, output_size, 2, ops._adaptive_avg_pool2d)


def adaptive_avg_pool3d(self, output_size):
    """The mean where there is one window."""
    return _adaptive_avg_pool(self, output_size, 3, ops._adaptive_avg_pool3d)


def _adaptive_avg_pool(self, output_size, axes, pool):
    several = list(output_size) != [1] * axes or self.is_quantized
    if several or (axes == 1 and self.ndim not in (2, 3)):
        return pool(self, output_size)
    mean = self.mean(list(range(-axes, 0)), True)
    return laid_out(mean, layout_of(self, axes))
