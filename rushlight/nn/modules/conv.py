"""Convolutions and transposed convolutions over one, two or three dimensions."""

import math

import rushlight as rl
from rushlight.core.docstrings import describe_arguments
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _pair, _reverse_repeat_tuple, _single, _triple
from rushlight.nn.parameter import Parameter, UninitializedParameter
from rushlight.operators import call

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


class _ConvNd(Module):
    """What all convolutions keep."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        bias,
        padding_mode,
        device=None,
        dtype=None,
    ):
        super().__init__()
        _check_arguments(
            in_channels, out_channels, stride, padding, groups, padding_mode
        )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _explicit_padding(
            kernel_size, dilation, padding
        )
        channels = (
            (in_channels, out_channels // groups)
            if transposed
            else (out_channels, in_channels // groups)
        )
        options = {"device": device, "dtype": dtype}
        self.weight = Parameter(rl.empty((*channels, *kernel_size), **options))
        self.register_parameter(
            "bias", Parameter(rl.empty(out_channels, **options)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the parameters anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self):
        parts = [
            f"{self.in_channels}, {self.out_channels}, "
            f"kernel_size={self.kernel_size}, stride={self.stride}"
        ]
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.dilation):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")

    def _padded(self, input):
        return F.pad(
            input, self._reversed_padding_repeated_twice, mode=self.padding_mode
        )


def _check_arguments(in_channels, out_channels, stride, padding, groups, padding_mode):
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of "
                "{'valid', 'same'}"
            )
        if padding == "same" and any(step != 1 for step in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {_PADDING_MODES}, but got "
            f"padding_mode='{padding_mode}'"
        )


def _explicit_padding(kernel_size, dilation, padding):
    """What ``F.pad`` is given: last dimension first, before and after each."""
    if not isinstance(padding, str):
        return list(_reverse_repeat_tuple(padding, 2))
    amounts = []
    for size, step in zip(reversed(kernel_size), reversed(dilation)):
        total = step * (size - 1) if padding == "same" else 0
        amounts += [total // 2, total - total // 2]
    return amounts


class _Convolution(_ConvNd):
    """The forward convolutions: they differ in the number of dimensions.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the window, one number or one for each dimension.
        stride: step of the window.
        padding: elements added at each edge, or ``"same"`` or ``"valid"``.
        dilation: step between the elements of a window.
        groups: how many groups of channels are kept apart.
        bias: whether there is a ``bias``.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
    """

    _expand = None
    _operator = ""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        expand = type(self)._expand
        kernel_size = expand(kernel_size)
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            expand(stride),
            padding if isinstance(padding, str) else expand(padding),
            expand(dilation),
            False,
            expand(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input, weight, bias):
        return self._convolved(getattr(call, self._operator), input, weight, bias)

    def _convolved(self, convolve, input, weight, bias):
        """The convolution by an operator; other borders than zeros are made before it."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = self._padded(input), (0,) * len(self.kernel_size)
        given = self.stride, padding, self.dilation, self.groups
        return convolve(input, weight, bias, *given)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Convolution):
    """Slides a window along ``(N, C, L)`` inputs; arguments as in ``Conv2d``."""

    _expand = staticmethod(_single)
    _operator = "conv1d"


class Conv2d(_Convolution):
    """Slides a window over ``(N, C, H, W)`` inputs, mixing the channels under it.

    >>> Conv2d(1, 6, 5, padding=2)
    Conv2d(1, 6, kernel_size=(5, 5), stride=(1, 1), padding=(2, 2))
    """

    _expand = staticmethod(_pair)
    _operator = "conv2d"

    def _conv_forward(self, input, weight, bias):
        return self._convolved(call.conv2d, input, weight, bias)


class Conv3d(_Convolution):
    """Slides a window over ``(N, C, D, H, W)`` inputs; arguments as in ``Conv2d``."""

    _expand = staticmethod(_triple)
    _operator = "conv3d"


class _ConvTransposeNd(_ConvNd):
    """The transposed convolutions: they differ in the number of dimensions.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size, stride, padding, dilation, groups, bias: as in ``Conv2d``.
        output_padding: elements added at one side of the output.
    """

    _expand = None
    _operator = ""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}'
            )
        expand = type(self)._expand
        super().__init__(
            in_channels,
            out_channels,
            expand(kernel_size),
            expand(stride),
            expand(padding),
            expand(dilation),
            True,
            expand(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input, output_size=None):
        output_padding = self.output_padding
        if output_size is not None:
            output_padding = self._padding_to_reach(input, output_size)
        return getattr(call, self._operator)(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )

    def _padding_to_reach(self, input, output_size):
        """The output padding that makes the output just as large as asked."""
        count = len(self.kernel_size)
        wanted = list(output_size)
        if len(wanted) == input.dim():
            wanted = wanted[-count:]
        if len(wanted) != count:
            raise ValueError(
                f"ConvTranspose{count}D: for {input.dim()}D input, output_size must "
                f"have {count} or {count + 2} elements (got {len(output_size)})"
            )
        smallest = [
            (size - 1) * step - 2 * pad + gap * (window - 1) + 1
            for size, step, pad, gap, window in zip(
                input.shape[-count:],
                self.stride,
                self.padding,
                self.dilation,
                self.kernel_size,
            )
        ]
        largest = [low + step - 1 for low, step in zip(smallest, self.stride)]
        if not all(
            low <= size <= high for low, size, high in zip(smallest, wanted, largest)
        ):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range "
                f"from {smallest} to {largest} (for an input of "
                f"{input.shape[-count:]})"
            )
        return tuple(size - low for size, low in zip(wanted, smallest))


class ConvTranspose1d(_ConvTransposeNd):
    """The gradient of ``Conv1d`` as a layer; arguments as in ``ConvTranspose2d``."""

    _expand = staticmethod(_single)
    _operator = "conv_transpose1d"


class ConvTranspose2d(_ConvTransposeNd):
    """The gradient of ``Conv2d`` with respect to its input, as a layer."""

    _expand = staticmethod(_pair)
    _operator = "conv_transpose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """The gradient of ``Conv3d`` as a layer; arguments as in ``ConvTranspose2d``."""

    _expand = staticmethod(_triple)
    _operator = "conv_transpose3d"


class _LazyConvMixin(LazyModuleMixin):
    """What the convolutions share that learn their channels from the first input."""

    def _make_lazy(self, out_channels, bias, device, dtype):
        """Put parameters without shapes in place of the empty ones."""
        options = {"device": device, "dtype": dtype}
        self.weight = UninitializedParameter(**options)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(**options)

    def reset_parameters(self):
        """Draw the parameters anew, once they have shapes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        """Take ``in_channels`` from an input.

        Raises:
            ValueError: the groups do not divide the channels.
            RuntimeError: the input has a wrong number of dimensions.
        """
        if not self.has_uninitialized_params():
            return
        self.in_channels = channels = self._channels_of(input)
        if channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        sizes = (
            (channels, self.out_channels // self.groups)
            if self.transposed
            else (self.out_channels, channels // self.groups)
        )
        self.weight.materialize((*sizes, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _channels_of(self, input):
        single = len(self.kernel_size) + 1
        if input.dim() not in (single, single + 1):
            raise RuntimeError(
                f"Expected {single}D (unbatched) or {single + 1}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return input.shape[input.dim() - single]


class _LazyConvolution(_LazyConvMixin):
    """The forward convolutions that learn their channels.

    Args:
        out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as
            in ``Conv1d``.
    """

    def __init__(
        self,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode
        )
        self._make_lazy(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvMixin):
    """The transposed convolutions that learn their channels.

    Args:
        out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
            padding_mode: as in ``ConvTranspose1d``.
    """

    def __init__(
        self,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
        )
        self._make_lazy(out_channels, bias, device, dtype)


def _lazy(kind, sizes):
    """The class of a convolution whose channels are the first input's."""
    name, dims = f"Lazy{kind.__name__}", len(sizes)
    base = (
        _LazyConvTranspose if issubclass(kind, _ConvTransposeNd) else _LazyConvolution
    )
    text = f"""A ``{kind.__name__}`` whose ``in_channels`` are the first input's.

    >>> layer = {name}(6, 3)
    >>> layer(rl.ones(1, 2{", 5" * dims})).shape
    rushlight.Size([1, 6, {", ".join(map(str, sizes))}])
    """
    attributes = {"cls_to_become": kind, "__doc__": text, "__module__": __name__}
    return type(name, (base, kind), attributes)


LazyConv1d = _lazy(Conv1d, (3,))
LazyConv2d = _lazy(Conv2d, (3, 3))
LazyConv3d = _lazy(Conv3d, (3, 3, 3))
LazyConvTranspose1d = _lazy(ConvTranspose1d, (7,))
LazyConvTranspose2d = _lazy(ConvTranspose2d, (7, 7))
LazyConvTranspose3d = _lazy(ConvTranspose3d, (7, 7, 7))


describe_arguments(globals())
