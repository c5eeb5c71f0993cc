"""Normalisation within one sample."""

import numbers

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """Divides each channel by the activity of its neighbours.

    Args:
        size: number of neighbouring channels.
        alpha: factor of their mean square.
        beta: exponent of the divisor.
        k: added before the exponent.
    """

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """``LocalResponseNorm`` of images by the sum of an older framework.

    Args:
        size: number of neighbouring channels.
        alpha: factor of their mean square.
        beta: exponent of the divisor.
        k: added before the exponent.

    The first channel, once among the neighbours, stays among them: networks that were
    trained with PyTorch's layer of this name count on it.
    """

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        if input.dim() != 4:
            raise ValueError(
                f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead."
            )
        channel = rl.arange(input.size(1), device=input.device)
        distance = channel - channel.unsqueeze(1)  # of column from row
        reach = int((self.size - 1) / 2 + 1)
        last = (channel + reach).clamp(max=input.size(1)).unsqueeze(1)
        near = (channel < last) & ((distance > -reach) | (channel == 0))
        sums = rl.tensordot(near.to(input.dtype), input.square(), ([1], [1]))
        scale = sums.transpose(0, 1) * (self.alpha / self.size) + self.k
        return input * scale.pow(-self.beta)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _shape_of(normalized_shape):
    if isinstance(normalized_shape, numbers.Integral):
        return (normalized_shape,)
    return tuple(normalized_shape)


class _Affine(Module):
    """A normalisation whose results are scaled and shifted, if wanted."""

    def _make_affine(self, shape, scales, shifts, device, dtype):
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        if scales:
            self.weight = Parameter(rl.empty(shape, device=device, dtype=dtype))
            if shifts:
                self.bias = Parameter(rl.empty(shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Set scale and shift to one and zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """Normalises over the last dimensions, then scales and shifts.

    Args:
        normalized_shape: sizes of those dimensions, or the size of the last.
        eps: added to the variance.
        elementwise_affine: whether there is a ``weight``.
        bias: whether there is a ``bias`` as well.

    >>> LayerNorm(2)(rl.tensor([1.0, 3.0])).tolist()
    [-0.9999949932098389, 0.9999949932098389]
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape,
        eps=1e-5,
        elementwise_affine=True,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape = _shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make_affine(
            self.normalized_shape, elementwise_affine, bias, device, dtype
        )

    def forward(self, input):
        return F.layer_norm(
            input, self.normalized_shape, self.weight, self.bias, self.eps
        )

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(_Affine):
    """Normalises each sample over groups of its channels.

    Args:
        num_groups: number of groups.
        num_channels: number of channels, a multiple of the groups.
        eps: added to the variance.
        affine: whether scale and shift of each channel are learned.
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups,
        num_channels,
        eps=1e-5,
        affine=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups "
                f"({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_affine(num_channels, affine, bias, device, dtype)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, "
            f"affine={self.affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root of the mean square over the last dimensions.

    Args:
        normalized_shape: sizes of those dimensions, or the size of the last.
        eps: added to the mean square; the dtype's smallest step where left out.
        elementwise_affine: whether there is a ``weight``.
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape,
        eps=None,
        elementwise_affine=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape = _shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(
                rl.empty(self.normalized_shape, device=device, dtype=dtype)
            )
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Set the scale to one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}"
        )
