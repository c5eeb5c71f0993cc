"""What translated programs run for activations and dropout; read as text, never imported."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor
from rushlight.nn import functional as F


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.relu_(input)
    return torch.relu(input)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.selu_(input)
    return torch.selu(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.silu_(input)
    return torch.ops.aten.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.mish_(input)
    return torch.ops.aten.mish(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.hardswish_(input)
    return torch.ops.aten.hardswish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.hardsigmoid_(input)
    return torch.ops.aten.hardsigmoid(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.hardtanh_(input, 0.0, 6.0)
    return torch.ops.aten.hardtanh(input, 0.0, 6.0)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.elu_(input, alpha)
    return torch.ops.aten.elu(input, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.celu_(input, alpha)
    return torch.celu(input, alpha)


def leaky_relu(
    input: Tensor, negative_slope: float = 0.01, inplace: bool = False
) -> Tensor:
    if inplace:
        return torch.ops.aten.leaky_relu_(input, negative_slope)
    return torch.ops.aten.leaky_relu(input, negative_slope)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    if inplace:
        return torch.ops.aten.hardtanh_(input, min_val, max_val)
    return torch.ops.aten.hardtanh(input, min_val, max_val)


def threshold(
    input: Tensor, threshold: float, value: float, inplace: bool = False
) -> Tensor:
    if inplace:
        return torch.threshold_(input, threshold, value)
    return torch.threshold(input, threshold, value)


def rrelu(
    input: Tensor,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    if inplace:
        return torch.rrelu_(input, lower, upper, training)
    return torch.rrelu(input, lower, upper, training)


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if inplace:
        return torch.dropout_(input, p, training)
    return torch.dropout(input, p, training)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    if inplace:
        return torch.alpha_dropout_(input, p, training)
    return torch.alpha_dropout(input, p, training)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    if inplace:
        return torch.feature_alpha_dropout_(input, p, training)
    return torch.feature_alpha_dropout(input, p, training)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if inplace:
        return torch.feature_dropout_(input, p, training)
    return torch.feature_dropout(input, p, training)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if inplace:
        return torch.feature_dropout_(input, p, training)
    return torch.feature_dropout(input, p, training)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if inplace:
        return torch.feature_dropout_(input, p, training)
    return torch.feature_dropout(input, p, training)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    return torch.ops.aten.gelu(input, approximate=approximate)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    return torch.ops.aten.glu(input, dim)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return torch.ops.aten.softplus(input, beta, threshold)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    return torch.ops.aten.softshrink(input, lambd)


def logsigmoid(input: Tensor) -> Tensor:
    return torch.ops.aten.log_sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    return input.sigmoid()


def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()


def softmax(
    input: Tensor, dim: int, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    return torch.ops.aten.softmax(input, dim, dtype)


def log_softmax(
    input: Tensor, dim: int, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    return torch.ops.aten.log_softmax(input, dim, dtype)


def softmin(
    input: Tensor, dim: int, _stacklevel: int = 3, dtype: int | None = None
) -> Tensor:
    return torch.ops.aten.softmax(-input, dim, dtype)


class CrossMapLRN2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class Softmax:
    def forward(self, input: Tensor) -> Tensor:
        return torch.softmax(input, self.dim)


class Softmin:
    def forward(self, input: Tensor) -> Tensor:
        return torch.softmax(-input, self.dim)


class LogSoftmax:
    def forward(self, input: Tensor) -> Tensor:
        return torch.log_softmax(input, self.dim)


class Softmax2d:
    def forward(self, input: Tensor) -> Tensor:
        return torch.softmax(input, -3)


class PReLU:
    def forward(self, input: Tensor) -> Tensor:
        return torch.prelu(input, self.weight)


class GELU:
    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)


class Softplus:
    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class Softshrink:
    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class Hardshrink:
    def forward(self, input: Tensor) -> Tensor:
        return torch.hardshrink(input, self.lambd)


class GLU:
    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class Softsign:
    def forward(self, input: Tensor) -> Tensor:
        return input / (input.abs() + 1)


class Tanhshrink:
    def forward(self, input: Tensor) -> Tensor:
        return input - input.tanh()


class Sigmoid:
    def forward(self, input: Tensor) -> Tensor:
        return torch.sigmoid(input)


class Tanh:
    def forward(self, input: Tensor) -> Tensor:
        return torch.tanh(input)


class LogSigmoid:
    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class ReLU:
    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)


class ReLU6:
    def forward(self, input: Tensor) -> Tensor:
        return F.relu6(input, inplace=self.inplace)


class SELU:
    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, inplace=self.inplace)


class SiLU:
    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=self.inplace)


class Mish:
    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=self.inplace)


class Hardswish:
    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, inplace=self.inplace)


class Hardsigmoid:
    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, inplace=self.inplace)


class ELU:
    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, inplace=self.inplace)


class CELU:
    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, inplace=self.inplace)


class LeakyReLU:
    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, inplace=self.inplace)


class Hardtanh:
    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, inplace=self.inplace)


class Threshold:
    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, inplace=self.inplace)


class RReLU:
    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(
            input, self.lower, self.upper, self.training, inplace=self.inplace
        )


class Dropout:
    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d:
    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d:
    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout:
    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout:
    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
