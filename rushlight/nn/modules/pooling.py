"""Pooling as modules; what they compute is described in ``nn.functional``."""

from rushlight.core.docstrings import describe_arguments
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _pair, _single, _triple

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
]


class _MaxPoolNd(Module):
    """What the maximum poolings keep.

    Args:
        kernel_size: size of the window, one number or one for each dimension.
        stride: step of the window; the window's size where it is left out.
        padding: how far windows reach over the edges, at most half the window.
        dilation: step between the elements of a window.
        return_indices: also return where the largest were.
        ceil_mode: whether a last, partly covered window counts.
    """

    __constants__ = [
        "kernel_size",
        "stride",
        "padding",
        "dilation",
        "return_indices",
        "ceil_mode",
    ]

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        return_indices=False,
        ceil_mode=False,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _given(self):
        """Arguments of the function, behind the input."""
        window = self.kernel_size, self.stride, self.padding, self.dilation
        return *window, self.ceil_mode, self.return_indices

    def extra_repr(self):
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Largest value of each window along ``(N, C, L)``; see ``MaxPool2d``."""

    def forward(self, input):
        return F.max_pool1d(input, *self._given())


class MaxPool2d(_MaxPoolNd):
    """Largest value of each window over ``(N, C, H, W)``."""

    def forward(self, input):
        return F.max_pool2d(input, *self._given())


class MaxPool3d(_MaxPoolNd):
    """Largest value of each window over ``(N, C, D, H, W)``; see ``MaxPool2d``."""

    def forward(self, input):
        return F.max_pool3d(input, *self._given())


class _MaxUnpoolNd(Module):
    """What the inverses of maximum pooling keep.

    Args:
        kernel_size: size of the window, one number or one for each dimension.
        stride: step of the window; the window's size where it is left out.
        padding: how far windows reach over the edges, at most half the window.
    """

    _expand = None

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        expand = type(self)._expand
        self.kernel_size = expand(kernel_size)
        self.stride = expand(stride if stride is not None else kernel_size)
        self.padding = expand(padding)

    def extra_repr(self):
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}"
        )


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts values back where ``MaxPool1d`` found them."""

    _expand = staticmethod(_single)

    def forward(self, input, indices, output_size: list[int] | None = None):
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts values back where ``MaxPool2d`` found them."""

    _expand = staticmethod(_pair)

    def forward(self, input, indices, output_size: list[int] | None = None):
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts values back where ``MaxPool3d`` found them."""

    _expand = staticmethod(_triple)

    def forward(self, input, indices, output_size: list[int] | None = None):
        return F.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class _AvgPoolNd(Module):
    """What the mean poolings print."""

    __constants__ = [
        "kernel_size",
        "stride",
        "padding",
        "ceil_mode",
        "count_include_pad",
    ]

    def _given(self):
        """Arguments of the function that all have, behind the input."""
        window = self.kernel_size, self.stride, self.padding
        return *window, self.ceil_mode, self.count_include_pad

    def extra_repr(self):
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}"
        )


class AvgPool1d(_AvgPoolNd):
    """Mean of each window along ``(N, C, L)``.

    Args:
        kernel_size: size of the window, one number or one for each dimension.
        stride: step of the window; the window's size where it is left out.
        padding: how far windows reach over the edges, at most half the window.
        ceil_mode: whether a last, partly covered window counts.
        count_include_pad: whether zeros of the padding count in the divisor.
    """

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
    ):
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input):
        return F.avg_pool1d(input, *self._given())


class AvgPool2d(_AvgPoolNd):
    """Mean of each window over ``(N, C, H, W)``.

    Args:
        kernel_size: size of the window, one number or two.
        stride: step of the window; its size where it is left out.
        padding: zeros added at each edge.
        ceil_mode: whether a last, partly covered window counts.
        count_include_pad: whether the added zeros count in the mean.
        divisor_override: divide by this number instead of the window's size.
    """

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input):
        return F.avg_pool2d(input, *self._given(), self.divisor_override)


class AvgPool3d(AvgPool2d):
    """Mean of each window over ``(N, C, D, H, W)``; arguments as in ``AvgPool2d``."""

    def forward(self, input):
        return F.avg_pool3d(input, *self._given(), self.divisor_override)


class _LPPoolNd(Module):
    """What the norm poolings keep.

    Args:
        norm_type: the order of the norm.
        kernel_size: size of the window, one number or one for each dimension.
        stride: step of the window; the window's size where it is left out.
        ceil_mode: whether a last, partly covered window counts.
    """

    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self):
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """``norm_type``-norm of each window along ``(N, C, L)``."""

    def forward(self, input):
        return F.lp_pool1d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool2d(_LPPoolNd):
    """``norm_type``-norm of each window over ``(N, C, H, W)``."""

    def forward(self, input):
        return F.lp_pool2d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool3d(_LPPoolNd):
    """``norm_type``-norm of each window over ``(N, C, D, H, W)``."""

    def forward(self, input):
        return F.lp_pool3d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class _AdaptiveAvgPoolNd(Module):
    """What the adaptive mean poolings keep."""

    __constants__ = ["output_size"]

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Mean over as many windows as ``output_size`` says, along ``(N, C, L)``."""

    def forward(self, input):
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Mean over as many windows as ``output_size`` says, over ``(N, C, H, W)``.

    >>> import rushlight as rl
    >>> AdaptiveAvgPool2d((1, 1))(rl.ones(2, 3, 8, 9)).shape
    rushlight.Size([2, 3, 1, 1])
    """

    def forward(self, input):
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Mean over as many windows as ``output_size`` says, over ``(N, C, D, H, W)``."""

    def forward(self, input):
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(Module):
    """What the adaptive maximum poolings keep."""

    __constants__ = ["output_size", "return_indices"]

    def __init__(self, output_size, return_indices=False):
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maximum over as many windows as ``output_size`` says, along ``(N, C, L)``."""

    def forward(self, input):
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maximum over as many windows as ``output_size`` says, over ``(N, C, H, W)``."""

    def forward(self, input):
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maximum over as many windows as ``output_size`` says, in three dimensions."""

    def forward(self, input):
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _FractionalMaxPoolNd(Module):
    """Maxima over windows at random places.

    Args:
        kernel_size: size of the window, one number or one for each dimension.
        output_size: how many windows, or
        output_ratio: how many for each element of the input, between 0 and 1.
        return_indices: also return where the largest were.
    """

    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _dims = 2

    def __init__(
        self,
        kernel_size,
        output_size=None,
        output_ratio=None,
        return_indices=False,
        _random_samples=None,
    ):
        super().__init__()
        self._check_kernel(kernel_size)
        self.kernel_size = _each(kernel_size, self._dims)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = (
            None if output_size is None else _each(output_size, self._dims)
        )
        self.output_ratio = (
            None if output_ratio is None else _each(output_ratio, self._dims)
        )
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError(
                "only one of output_size and output_ratio may be specified"
            )
        if self.output_ratio is not None and not all(
            0 < r < 1 for r in self.output_ratio
        ):
            raise ValueError(
                f"output_ratio must be between 0 and 1 (got {output_ratio})"
            )

    def _check_kernel(self, kernel_size):
        """Refuse a window; for images the call does so."""


def _each(value, dims):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Maximum over windows at random places, over ``(N, C, H, W)``."""

    def forward(self, input):
        return F.fractional_max_pool2d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maximum over windows at random places, in three dimensions."""

    _dims = 3

    def _check_kernel(self, kernel_size):
        sizes = (kernel_size,) if isinstance(kernel_size, int) else kernel_size
        listed = isinstance(sizes, (tuple, list))
        if listed and not all(size > 0 for size in sizes):
            raise ValueError(
                f"kernel_size must be greater than 0, but got {kernel_size}"
            )

    def forward(self, input):
        return F.fractional_max_pool3d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


describe_arguments(globals())
