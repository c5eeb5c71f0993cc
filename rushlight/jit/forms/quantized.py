"""What translated programs run for modules of integers; read as text, never imported."""

import rushlight as torch
from rushlight import Tensor
from rushlight.nn import functional as F

HOME = "rushlight.ao.nn.quantized"


class _ConvNd:
    def _padded(self, input: Tensor) -> Tensor:
        if self.padding_mode == "zeros":
            return input
        sides: list[int] = []
        for size in self.padding:
            sides = [size, size] + sides
        return F.pad(input, sides, mode=self.padding_mode)


class ConvNd:
    def forward(self, input: Tensor) -> Tensor:
        if len(input.shape) != len(self.kernel_size) + 2:
            raise ValueError("Input shape must be `(samples, C, ...)`!")
        return torch.ops.quantized.convNd(
            self._padded(input), self._packed_params, self.scale, self.zero_point
        )


class ConvReLUNd:
    def forward(self, input: Tensor) -> Tensor:
        if len(input.shape) != len(self.kernel_size) + 2:
            raise ValueError("Input shape must be `(samples, C, ...)`!")
        return torch.ops.quantized.convNd_relu(
            self._padded(input), self._packed_params, self.scale, self.zero_point
        )


class ConvTransposeNd:
    def forward(self, input: Tensor) -> Tensor:
        if len(input.shape) != len(self.kernel_size) + 2:
            raise ValueError("Input shape must be `(samples, C, ...)`!")
        return torch.ops.quantized.conv_transposeNd(
            input, self._packed_params, self.scale, self.zero_point
        )


class BatchNormNd:
    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.batch_normNd(
            input, self.weight, self.bias, self.running_mean, self.running_var,
            self.eps, self.scale, self.zero_point,
        )  # fmt: skip


class BNReLUNd:
    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.batch_normNd_relu(
            input, self.weight, self.bias, self.running_mean, self.running_var,
            self.eps, self.scale, self.zero_point,
        )  # fmt: skip


class Hardswish:
    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.hardswish(
            input, float(self.scale), int(self.zero_point)
        )


class LeakyReLU:
    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.leaky_relu(
            input, self.negative_slope, self.inplace, float(self.scale),
            int(self.zero_point),
        )  # fmt: skip
