"""Convolutions of quantized images: products of their windows, which are read in place.

Images lie with channels innermost, in which order a window is few long pieces. A transposed
convolution is one of an image with steps between its elements.
"""

from itertools import chain
from math import prod

from rushlight.ao._operators import windows
from rushlight.ao._operators.linear import check_bytes
from rushlight.ao._operators.packed import (
    PackedParams,
    Scaled,
    check_weight,
    scales_of,
)
from rushlight.core.dtypes import float32, int16, int32, uint8
from rushlight.operators import call as ops
from rushlight.operators.extensions import CUSTOM, MAKERS
from rushlight.operators.functions import tensor
from rushlight.operators.loop_calls import scalar_name
from rushlight.operators.quantized import affine_kernels
from rushlight.operators.quantized.quantized import (
    dynamic_parameters,
    inverse_of,
    like,
    made,
    parts,
)

MOST_PLANS = 64  # sizes of images that a convolution keeps what it knows of


class ConvPackedParams(PackedParams):
    """The weight of a convolution over two or three dimensions, and its settings.

    Args:
        weight: qint8, output channels first; of a transposed one, input channels.
        bias: float32, or None.
        stride, padding, dilation, output_padding: a number for each dimension.
        groups: of channels.
        transpose: whether it is a transposed convolution.
    """

    state_type = "Tuple[str, List[Tensor], List[Optional[Tensor]]]"

    def __init__(
        self, weight, bias, stride, padding, dilation, groups, output_padding=None,
        transpose=False,
    ):  # fmt: skip
        count = weight.ndim - 2
        self.kind = f"Conv{count}dPackedParamsBase"
        self.weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        self.stride, self.padding, self.dilation = map(
            lambda values: _several(values, count), (stride, padding, dilation)
        )
        self.output_padding = _several(output_padding or 0, count)
        self.groups, self.transpose = groups, bool(transpose)
        outputs = weight.shape[0]
        if transpose:
            outputs = weight.shape[1] * groups
        check_weight(weight, bias, outputs, f"quantized::conv{count}d_prepack")
        self.kernel = tuple(weight.shape[2:])
        self.plans = {}
        self.channels_second = [0, count + 1, *range(1, count + 1)]
        self.channels, self.outputs = self._channels(), outputs
        self._pack()

    def _channels(self):
        return self.weight.shape[0 if self.transpose else 1] * (
            1 if self.transpose else self.groups
        )

    def _pack(self):
        levels, _, _, axis = parts(self.weight)
        if self.transpose:
            if axis is not None:
                raise RuntimeError(
                    "Per Channel Quantization is currently disabled for transposed conv"
                )
            levels = _forward(levels, self.groups)
        scales, points = scales_of(self.weight, self.outputs)
        order = [0, *range(2, levels.ndim), 1]
        rows = ops.permute(levels, order).reshape([self.outputs, -1])
        each, groups = self.outputs // self.groups, self.groups
        if windows.is_depthwise(self.channels, groups, each):
            rows = rows.to(int32) - points.unsqueeze(1)
            points, groups = ops.zeros_like(points), 1
        runs = prod(windows.taps_of(self.kernel, self.dilation, self.groups))
        self.scaled = Scaled(rows, scales, points, self.bias, groups, runs)

    def settings(self):
        """What it is made of."""
        return (
            self.weight, self.bias, self.stride, self.padding, self.dilation,
            self.groups, self.output_padding, self.transpose,
        )  # fmt: skip

    def stored(self):
        """A version; the settings in one tensor, and the weight; the bias."""
        lists = self.stride, self.padding, self.dilation, self.output_padding
        settings = [len(self.kernel), *chain(*lists), self.groups, int(self.transpose)]
        return "2", [tensor(settings, dtype=int16), self.weight], [self.bias]


def _of_state(state):
    version, (settings, weight), (bias,) = state
    if version != "2":
        raise ValueError(f"version {version}")
    count, *rest = settings.tolist()
    lists = [rest[at : at + count] for at in range(0, 4 * count, count)]
    stride, padding, dilation, output_padding = lists
    groups, transpose = rest[4 * count :]
    return ConvPackedParams(
        weight, bias, stride, padding, dilation, groups, output_padding, transpose
    )


for _count in (2, 3):
    MAKERS[f"{CUSTOM}quantized.Conv{_count}dPackedParamsBase"] = _of_state


def _several(values, count):
    values = [values] if isinstance(values, int) else list(values)
    return tuple(values * count if len(values) == 1 else values)


def _forward(levels, groups):
    """The weight of the convolution that a transposed one is: flipped, outputs first."""
    inputs, each, *kernel = levels.shape
    spread = levels.reshape([groups, inputs // groups, each, *kernel])
    flipped = ops.transpose(spread, 1, 2).reshape(
        [groups * each, inputs // groups, *kernel]
    )
    return ops.flip(flipped, list(range(2, flipped.ndim)))


# ---- windows


def _innermost(x):
    """Integers with channels innermost, in memory too."""
    return ops.permute(x, [0, *range(2, x.ndim), 1]).contiguous()


def _spread(x, point, stride):
    """An image with steps between its elements, which are the zero point."""
    if all(step == 1 for step in stride):
        return x
    sizes = [(size - 1) * step + 1 for size, step in zip(x.shape[1:-1], stride)]
    room = ops.full([x.shape[0], *sizes, x.shape[-1]], point, dtype=uint8)
    inside = room
    for d, step in enumerate(stride, 1):
        inside = ops.slice(inside, d, None, None, step)
    inside.copy_(x)
    return room


def _three(values, fill):
    """Numbers for three dimensions, of which the first may be missing."""
    return (*[fill] * (3 - len(values)), *values)


class _Plan:
    """Where windows of images of some sizes lie, channels innermost.

    Args:
        packed: the convolution.
        sizes: of the image.
    """

    def __init__(self, packed, sizes):
        before = after = list(packed.padding)
        stride = packed.stride
        if packed.transpose:
            reach = [d * (k - 1) for d, k in zip(packed.dilation, packed.kernel)]
            before = [r - p for r, p in zip(reach, packed.padding)]
            after = [b + more for b, more in zip(before, packed.output_padding)]
            stride = [1] * len(reach)
        images, *spatial, channels = sizes
        inner, before, after = _three(spatial, 1), _three(before, 0), _three(after, 0)
        padded = [b + size + a for b, size, a in zip(before, inner, after)]
        kernel, dilation = _three(packed.kernel, 1), _three(packed.dilation, 1)
        if any(size < d * (k - 1) + 1 for size, k, d in zip(padded, kernel, dilation)):
            raise RuntimeError(
                "Calculated padded input size per channel: "
                f"{padded[3 - len(spatial) :]}. Kernel size: {list(packed.kernel)}. "
                "Kernel size can't be greater than actual input size"
            )
        settings = kernel, _three(stride, 1), dilation, packed.groups
        outputs = packed.outputs // packed.groups
        self.around = inner, before, after
        self.windows = windows.windows_of(
            (images, *padded, channels), *settings, outputs
        )
        grid = self.windows.grid[3 - len(spatial) :]
        self.shape = [images, *grid, packed.outputs]


def rows_of(levels, packed, x_point):
    """Where the windows of an image of bytes lie, and the shape of what they give.

    Args:
        levels: uint8, channels second.
        packed: the convolution.
        x_point: what is around the image.
    """
    lying = _innermost(levels)
    if packed.transpose:
        lying = _spread(lying, x_point, packed.stride)
    sizes = tuple(lying.shape)
    plan = packed.plans.get(sizes)
    if plan is None:
        if len(packed.plans) >= MOST_PLANS:
            packed.plans.clear()
        plan = packed.plans[sizes] = _Plan(packed, sizes)
    found = plan.windows.suited(lying, x_point)
    return windows.room(lying, found, plan.around, x_point), found, plan.shape


def _levels(x, packed, scale, point, relu):
    """The integers of a convolution of a quantized image."""
    levels, x_scale, x_point, _ = parts(x)
    *rows, shape = rows_of(levels, packed, x_point)
    out = packed.scaled.requantized(*rows, x_scale, x_point, scale, point, relu)
    return ops.permute(out.view(shape), packed.channels_second)


def check(x, packed, name):
    """Refuses an image that is none of bytes, or does not go with a weight."""
    count = len(packed.kernel)
    if x.ndim != count + 2:
        raise RuntimeError(
            f"quantized::{name}(): Expected activation tensor to have {count + 2} "
            f"dimensions, got {x.ndim}"
        )
    check_bytes(x)
    if x.shape[1] != packed.channels:
        raise RuntimeError(
            f"quantized::{name}: expected an input of {packed.channels} channels, got "
            f"{x.shape[1]}\n  input: {list(x.shape)}\n  weight: "
            f"{list(packed.weight.shape)}, {packed.groups} groups"
        )


def convolution(name, relu=False):
    """The convolution of quantized images, in a scale that is given."""

    def apply(x, packed, scale, point):
        check(x, packed, name)
        return made(_levels(x, packed, scale, point, relu), float(scale), int(point))

    return apply


def line_convolution(name, relu=False):
    """The same over one dimension, as one of a row of an image."""
    inner = convolution(name, relu)

    def apply(x, packed, scale, point):
        if x.ndim != 3:
            raise RuntimeError(
                f"quantized::{name}(): Expected activation tensor to have 3 dimensions, "
                f"got {x.ndim}"
            )
        return _flat(inner(_raised(x), packed, scale, point))

    return apply


def _raised(x):
    return like(x, parts(x)[0].unsqueeze(2))


def _flat(x):
    return like(x, parts(x)[0].squeeze(2))


def dynamic(name, lines=False):
    """The convolution of numbers, quantized by the scale that they ask for.

    As PyTorch has it, results are quantized by the scale of the input.
    """
    inner = (line_convolution if lines else convolution)(name)

    def apply(x, packed, reduce_range=False):
        if x.dtype is not float32:
            raise RuntimeError(
                f"expected scalar type Float but found {scalar_name(x.dtype)}"
            )
        scale, point = dynamic_parameters(x, 0, 127 if reduce_range else 255)
        x = x.detach().contiguous()
        levels = affine_kernels.quantize(x, uint8, inverse_of(scale), point)
        return ops.dequantize(inner(made(levels, scale, point), packed, scale, point))

    return apply


# ---- weights


def packer(count, transpose=False):
    """What packs weights of convolutions over a number of dimensions."""

    def forward(weight, bias, stride, padding, dilation, groups):
        return _pack(weight, bias, (stride, padding, dilation, None), groups, False)

    def backward(weight, bias, stride, padding, output_padding, dilation, groups):
        settings = stride, padding, dilation, output_padding
        return _pack(weight, bias, settings, groups, True)

    def _pack(weight, bias, settings, groups, transpose):
        if weight.ndim != count + 2:
            raise RuntimeError(
                f"Weights are expected to have {count + 2} dimensions\n"
                f"  weight: {list(weight.shape)}"
            )
        stride, padding, dilation, more = settings
        if count == 1:
            axis = parts(weight)[3]
            if axis not in (None, 0):
                raise RuntimeError("weights are quantized along dimension 0")
            weight = like(weight, parts(weight)[0].unsqueeze(2))
            stride, dilation = [1, *stride], [1, *dilation]
            padding, more = [0, *padding], more and [0, *more]
        return ConvPackedParams(
            weight, bias, stride, padding, dilation, groups, more, transpose
        )

    return backward if transpose else forward


def unpack(packed):
    """The weight and the bias that were packed."""
    return packed.unpack()


def unpack_line(packed):
    """The same of a convolution over one dimension."""
    return _flat(packed.weight), packed.bias


def with_settings(function):
    """A form that is given settings, which the packed weight has already."""

    def apply(x, packed, stride, padding, dilation, groups, scale, point):
        return function(x, packed, scale, point)

    return apply


def sizes(packed):
    """The sizes of a weight and of its bias, and the settings."""
    bias = None if packed.bias is None else list(packed.bias.shape)
    lists = packed.stride, packed.padding, packed.dilation
    return (list(packed.weight.shape), bias, *map(list, lists), packed.groups)


def setting(name):
    """What reads a setting of a packed weight."""

    def read(packed):
        value = getattr(packed, name)
        return list(value) if isinstance(value, tuple) else int(value)

    return read
