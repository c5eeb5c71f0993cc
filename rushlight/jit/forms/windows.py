"""What translated programs run for convolutions, pooling, padding and what moves windows.

Read as text, never imported.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor
from rushlight.jit import annotate
from rushlight.jit.annotations import (
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
)
from rushlight.nn import functional as F


def pad(
    input: Tensor, pad: list[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    return torch.ops.aten.pad(input, pad, mode, value)


def max_pool1d(
    input: Tensor,
    kernel_size: BroadcastingList1[int],
    stride: BroadcastingList1[int] | None = None,
    padding: BroadcastingList1[int] = 0,
    dilation: BroadcastingList1[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = annotate(list[int], [])
    return torch.ops.aten.max_pool1d(
        input, kernel_size, stride, padding, dilation, ceil_mode
    )


def adaptive_avg_pool1d(input: Tensor, output_size: BroadcastingList1[int]) -> Tensor:
    return torch.ops.aten.adaptive_avg_pool1d(input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: BroadcastingList1[int]) -> Tensor:
    return torch.ops.aten.adaptive_max_pool1d(input, output_size)[0]


def max_pool2d(
    input: Tensor,
    kernel_size: BroadcastingList2[int],
    stride: BroadcastingList2[int] | None = None,
    padding: BroadcastingList2[int] = 0,
    dilation: BroadcastingList2[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = annotate(list[int], [])
    return torch.ops.aten.max_pool2d(
        input, kernel_size, stride, padding, dilation, ceil_mode
    )


def adaptive_avg_pool2d(input: Tensor, output_size: BroadcastingList2[int]) -> Tensor:
    return torch.ops.aten.adaptive_avg_pool2d(input, output_size)


def adaptive_max_pool2d(input: Tensor, output_size: BroadcastingList2[int]) -> Tensor:
    return torch.ops.aten.adaptive_max_pool2d(input, output_size)[0]


def max_pool3d(
    input: Tensor,
    kernel_size: BroadcastingList3[int],
    stride: BroadcastingList3[int] | None = None,
    padding: BroadcastingList3[int] = 0,
    dilation: BroadcastingList3[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = annotate(list[int], [])
    return torch.ops.aten.max_pool3d(
        input, kernel_size, stride, padding, dilation, ceil_mode
    )


def adaptive_avg_pool3d(input: Tensor, output_size: BroadcastingList3[int]) -> Tensor:
    return torch.ops.aten.adaptive_avg_pool3d(input, output_size)


def adaptive_max_pool3d(input: Tensor, output_size: BroadcastingList3[int]) -> Tensor:
    return torch.ops.aten.adaptive_max_pool3d(input, output_size)[0]


def unfold(
    input: Tensor,
    kernel_size: BroadcastingList2[int],
    dilation: BroadcastingList2[int] = 1,
    padding: BroadcastingList2[int] = 0,
    stride: BroadcastingList2[int] = 1,
) -> Tensor:
    return torch.ops.aten.im2col(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor,
    output_size: BroadcastingList2[int],
    kernel_size: BroadcastingList2[int],
    dilation: BroadcastingList2[int] = 1,
    padding: BroadcastingList2[int] = 0,
    stride: BroadcastingList2[int] = 1,
) -> Tensor:
    return torch.ops.aten.col2im(
        input, output_size, kernel_size, dilation, padding, stride
    )


def avg_pool2d(
    input: Tensor,
    kernel_size: BroadcastingList2[int],
    stride: BroadcastingList2[int] | None = None,
    padding: BroadcastingList2[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    if stride is None:
        stride = annotate(list[int], [])
    return torch.ops.aten.avg_pool2d(
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


class PixelShuffle:
    def forward(self, input: Tensor) -> Tensor:
        return torch.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle:
    def forward(self, input: Tensor) -> Tensor:
        return torch.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle:
    def forward(self, input: Tensor) -> Tensor:
        return torch.channel_shuffle(input, self.groups)


class Conv1d:
    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(
        self, input: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(
                input, self._reversed_padding_repeated_twice, mode=self.padding_mode
            )
            return torch.conv1d(
                padded, weight, bias, self.stride, [0], self.dilation, self.groups
            )
        return torch.conv1d(
            input, weight, bias, self.stride, self.padding, self.dilation, self.groups
        )


class ConvTranspose1d:
    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        output_padding = annotate(list[int], [self.output_padding[0]])
        if output_size is not None:
            output_padding = annotate(list[int], [])
            stride = [self.stride[0]]
            padding = [self.padding[0]]
            dilation = [self.dilation[0]]
            skip = len(output_size) - 1
            for d in range(1):
                least = (
                    (input.size(d + input.dim() - 1) - 1) * stride[d]
                    - 2 * padding[d]
                    + dilation[d] * (self.weight.size(d + 2) - 1)
                    + 1
                )
                output_padding.append(output_size[d + skip] - least)
        return torch.conv_transpose1d(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )


class MaxPool1d:
    def forward(self, input: Tensor):
        return F.max_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
        )


class AvgPool1d:
    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.aten.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class AdaptiveAvgPool1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveMaxPool1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_max_pool1d(input, self.output_size)


class ReflectionPad1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "reflect")


class ReplicationPad1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "replicate")


class CircularPad1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "circular")


class ConstantPad1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)


class ZeroPad1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", 0.0)


class Conv2d:
    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(
        self, input: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(
                input, self._reversed_padding_repeated_twice, mode=self.padding_mode
            )
            return torch.conv2d(
                padded, weight, bias, self.stride, [0, 0], self.dilation, self.groups
            )
        return torch.conv2d(
            input, weight, bias, self.stride, self.padding, self.dilation, self.groups
        )


class ConvTranspose2d:
    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        output_padding = annotate(
            list[int], [self.output_padding[0], self.output_padding[1]]
        )
        if output_size is not None:
            output_padding = annotate(list[int], [])
            stride = [self.stride[0], self.stride[1]]
            padding = [self.padding[0], self.padding[1]]
            dilation = [self.dilation[0], self.dilation[1]]
            skip = len(output_size) - 2
            for d in range(2):
                least = (
                    (input.size(d + input.dim() - 2) - 1) * stride[d]
                    - 2 * padding[d]
                    + dilation[d] * (self.weight.size(d + 2) - 1)
                    + 1
                )
                output_padding.append(output_size[d + skip] - least)
        return torch.conv_transpose2d(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )


class MaxPool2d:
    def forward(self, input: Tensor):
        return F.max_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
        )


class AvgPool2d:
    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.aten.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AdaptiveAvgPool2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveMaxPool2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_max_pool2d(input, self.output_size)


class ReflectionPad2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "reflect")


class ReplicationPad2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "replicate")


class CircularPad2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "circular")


class ConstantPad2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)


class ZeroPad2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", 0.0)


class Conv3d:
    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(
        self, input: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(
                input, self._reversed_padding_repeated_twice, mode=self.padding_mode
            )
            return torch.conv3d(
                padded, weight, bias, self.stride, [0, 0, 0], self.dilation, self.groups
            )
        return torch.conv3d(
            input, weight, bias, self.stride, self.padding, self.dilation, self.groups
        )


class ConvTranspose3d:
    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        output_padding = annotate(
            list[int],
            [self.output_padding[0], self.output_padding[1], self.output_padding[2]],
        )
        if output_size is not None:
            output_padding = annotate(list[int], [])
            stride = [self.stride[0], self.stride[1], self.stride[2]]
            padding = [self.padding[0], self.padding[1], self.padding[2]]
            dilation = [self.dilation[0], self.dilation[1], self.dilation[2]]
            skip = len(output_size) - 3
            for d in range(3):
                least = (
                    (input.size(d + input.dim() - 3) - 1) * stride[d]
                    - 2 * padding[d]
                    + dilation[d] * (self.weight.size(d + 2) - 1)
                    + 1
                )
                output_padding.append(output_size[d + skip] - least)
        return torch.conv_transpose3d(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )


class MaxPool3d:
    def forward(self, input: Tensor):
        return F.max_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
        )


class AvgPool3d:
    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.aten.avg_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AdaptiveAvgPool3d:
    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool3d:
    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_max_pool3d(input, self.output_size)


class ReflectionPad3d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "reflect")


class ReplicationPad3d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "replicate")


class CircularPad3d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "circular")


class ConstantPad3d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)


class ZeroPad3d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", 0.0)


class Unfold:
    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(
            input, self.kernel_size, self.dilation, self.padding, self.stride
        )


class Fold:
    def forward(self, input: Tensor) -> Tensor:
        return F.fold(
            input,
            self.output_size,
            self.kernel_size,
            self.dilation,
            self.padding,
            self.stride,
        )
