"""What translated programs run for convolutions, pooling, padding and what moves windows.

Read as text, never imported.
"""

import rushlight as torch
from rushlight import Tensor
from rushlight.jit import annotate
from rushlight.jit.annotations import BroadcastingList2
from rushlight.nn import functional as F

# Names in `Nd` stand for each rank that has no form of its own.
N = 2
BroadcastingListN = BroadcastingList2


def max_poolNd(
    input: Tensor,
    kernel_size: BroadcastingListN[int],
    stride: BroadcastingListN[int] | None = None,
    padding: BroadcastingListN[int] = 0,
    dilation: BroadcastingListN[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = annotate(list[int], [])
    return torch.ops.aten.max_poolNd(
        input, kernel_size, stride, padding, dilation, ceil_mode
    )


def max_poolNd_with_indices(
    input: Tensor,
    kernel_size: BroadcastingListN[int],
    stride: BroadcastingListN[int] | None = None,
    padding: BroadcastingListN[int] = 0,
    dilation: BroadcastingListN[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    if stride is None:
        stride = annotate(list[int], [])
    return torch.ops.aten.max_poolNd_with_indices(
        input, kernel_size, stride, padding, dilation, ceil_mode
    )


def adaptive_avg_poolNd(input: Tensor, output_size: BroadcastingListN[int]) -> Tensor:
    return torch.ops.aten.adaptive_avg_poolNd(input, output_size)


def adaptive_max_poolNd(
    input: Tensor, output_size: BroadcastingListN[int], return_indices: bool = False
) -> Tensor:
    return torch.ops.aten.adaptive_max_poolNd(input, output_size)[0]


def adaptive_max_poolNd_with_indices(
    input: Tensor, output_size: BroadcastingListN[int], return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    return torch.ops.aten.adaptive_max_poolNd(input, output_size)


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


def avg_poolNd(
    input: Tensor,
    kernel_size: BroadcastingListN[int],
    stride: BroadcastingListN[int] | None = None,
    padding: BroadcastingListN[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    if stride is None:
        stride = annotate(list[int], [])
    return torch.ops.aten.avg_poolNd(
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
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


class ConvNd:
    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(
        self, input: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(
                input, self._reversed_padding_repeated_twice, mode=self.padding_mode
            )
            return torch.convNd(
                padded, weight, bias, self.stride, [0], self.dilation, self.groups
            )
        return torch.convNd(
            input, weight, bias, self.stride, self.padding, self.dilation, self.groups
        )


def _output_padding(
    input: Tensor,
    weight: Tensor,
    output_size: list[int] | None,
    default: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
) -> list[int]:
    if output_size is None:
        return default
    found = annotate(list[int], [])
    rank = len(stride)
    skip = len(output_size) - rank
    for d in range(rank):
        least = (
            (input.size(d + input.dim() - rank) - 1) * stride[d]
            - 2 * padding[d]
            + dilation[d] * (weight.size(d + 2) - 1)
            + 1
        )
        found.append(output_size[d + skip] - least)
    return found


class ConvTransposeNd:
    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        output_padding = _output_padding(
            input,
            self.weight,
            output_size,
            self.output_padding,
            self.stride,
            self.padding,
            self.dilation,
        )
        return torch.conv_transposeNd(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )


class MaxPoolNd:
    def forward(self, input: Tensor):
        return F.max_poolNd(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


class AvgPoolNd:
    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.aten.avg_poolNd(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )
