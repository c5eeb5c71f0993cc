"""Instance normalisation."""

import warnings

from rushlight.core.docstrings import describe_arguments
from rushlight.nn import functional as F
from rushlight.nn.modules.batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """Instance normalisation of any number of dimensions.

    Args:
        num_features: the number of channels.
        eps: what is added to the variance.
        momentum: how much a new batch counts in the running statistics.
        affine: whether there are a weight and a bias for each channel.
        track_running_stats: whether running statistics are kept, and used in
            evaluation.
        device: where the parameters lie.
        dtype: their data type.
        bias: whether there is a bias beside the weight.
    """

    _dims = 0

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=False,
        track_running_stats=False,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        options = {"device": device, "dtype": dtype, "bias": bias}
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, **options
        )

    def _check_input_dim(self, input):
        if input.dim() not in (self._dims + 1, self._dims + 2):
            raise ValueError(
                f"expected {self._dims + 1}D or {self._dims + 2}D input (got "
                f"{input.dim()}D input)"
            )

    def forward(self, input):
        self._check_input_dim(input)
        channel_dim = input.dim() - self._dims - 1
        if input.size(channel_dim) != self.num_features:
            message = (
                f"input's size at dim={channel_dim} does not match num_features "
                f"({self.num_features})"
            )
            if self.affine:
                raise ValueError(f"expected {message}, got: {input.size(channel_dim)}.")
            warnings.warn(
                f"{message}. You can silence this warning by not passing in "
                "num_features, which is not used because affine=False",
                stacklevel=2,
            )
        batched = input.dim() == self._dims + 2
        result = F.instance_norm(
            input if batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result if batched else result.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample of ``(N, C, L)`` or ``(C, L)``."""

    _dims = 1


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each sample of ``(N, C, H, W)`` or ``(C, H, W)``."""

    _dims = 2


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each sample of ``(N, C, D, H, W)``."""

    _dims = 3


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An ``InstanceNorm1d`` whose ``num_features`` are the first input's."""

    _dims = 1
    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An ``InstanceNorm2d`` whose ``num_features`` are the first input's."""

    _dims = 2
    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An ``InstanceNorm3d`` whose ``num_features`` are the first input's."""

    _dims = 3
    cls_to_become = InstanceNorm3d


describe_arguments(globals())
