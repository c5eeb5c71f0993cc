"""What translated programs run for layers with weights of integers.

Read as text, never imported.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor

HOME = "rushlight.ao.nn.quantized.dynamic"


class Linear:
    def forward(self, x: Tensor) -> Tensor:
        packed = self._packed_params._packed_params
        if self._packed_params.dtype == torch.qint8:
            reduced = self.version is not None and self.version >= 4
            found = torch.ops.quantized.linear_dynamic(x, packed, reduced)
        else:
            found = torch.ops.quantized.linear_dynamic_fp16(x, packed)
        return found.to(x.dtype)


class LinearReLU:
    def forward(self, x: Tensor) -> Tensor:
        packed = self._packed_params._packed_params
        if self._packed_params.dtype == torch.qint8:
            reduced = self.version is not None and self.version >= 4
            found = torch.ops.quantized.linear_relu_dynamic(x, packed, reduced)
        else:
            found = torch.ops.quantized.linear_relu_dynamic_fp16(x, packed)
        return found.to(x.dtype)
