"""What translated programs run for marks of where values become quantized, and for sums
whose results an observer sees.

Read as text, never imported.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor


class _Stub:
    def forward(self, x):
        return x


class QuantWrapper:
    def forward(self, X):
        return self.dequant(self.module(self.quant(X)))


class FloatFunctional:
    def forward(self, x):
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the "
            "underlying operation"
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(torch.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return torch.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(torch.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return torch.mul(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        return self.activation_post_process(torch.cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(torch.relu(torch.add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(torch.matmul(x, y))
