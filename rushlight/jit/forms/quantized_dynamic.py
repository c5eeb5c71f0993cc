"""What translated programs run for layers with weights of integers.

Read as text, never imported.
"""

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


class RNNBase:
    def _zeros(self, input: Tensor, samples: int) -> Tensor:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return torch.zeros(
            [layers, samples, self.hidden_size], dtype=input.dtype, device=input.device
        )

    def _check(self, input: Tensor, state: Tensor, samples: int) -> None:
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.size(-1)}"
            )
        layers = self.num_layers * (2 if self.bidirectional else 1)
        if list(state.shape) != [layers, samples, self.hidden_size]:
            raise RuntimeError(
                f"Expected hidden size {(layers, samples, self.hidden_size)}, got "
                f"{list(state.shape)}"
            )


class LSTM:
    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        samples = input.size(0 if self.batch_first else 1)
        if hx is None:
            zeros = self._zeros(input, samples)
            hx = (zeros, zeros)
        self._check(input, hx[0], samples)
        self._check(input, hx[1], samples)
        params = [each.param for each in self._all_weight_values]
        output, state, cell = torch.ops.aten.quantized_lstm(
            input, [hx[0], hx[1]], params, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first, dtype=self.dtype,
            use_dynamic=True,
        )  # fmt: skip
        return output, (state, cell)


class GRU:
    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        samples = input.size(0 if self.batch_first else 1)
        if hx is None:
            hx = self._zeros(input, samples)
        self._check(input, hx, samples)
        params = [each.param for each in self._all_weight_values]
        return torch.ops.aten.quantized_gru(
            input, hx, params, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip


class RNNCellBase:
    def _check(self, input: Tensor, state: Tensor) -> None:
        if input.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.size(1)}, expected "
                f"{self.input_size}"
            )
        if input.size(0) != state.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden batch size "
                f"{state.size(0)}"
            )

    def _zeros(self, input: Tensor) -> Tensor:
        return torch.zeros(
            [input.size(0), self.hidden_size], dtype=input.dtype, device=input.device
        )


class LSTMCell:
    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        if hx is None:
            zeros = self._zeros(input)
            hx = (zeros, zeros)
        self._check(input, hx[0])
        return torch.ops.quantized.quantized_lstm_cell_dynamic(
            input, list(hx), self._packed_weight_ih, self._packed_weight_hh,
            self.bias_ih, self.bias_hh,
        )  # fmt: skip


class GRUCell:
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        state = self._zeros(input) if hx is None else hx
        self._check(input, state)
        return torch.ops.quantized.quantized_gru_cell_dynamic(
            input, state, self._packed_weight_ih, self._packed_weight_hh,
            self.bias_ih, self.bias_hh,
        )  # fmt: skip


class RNNCell:
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        state = self._zeros(input) if hx is None else hx
        self._check(input, state)
        if self.nonlinearity == "tanh":
            return torch.ops.quantized.quantized_rnn_tanh_cell_dynamic(
                input, state, self._packed_weight_ih, self._packed_weight_hh,
                self.bias_ih, self.bias_hh,
            )  # fmt: skip
        return torch.ops.quantized.quantized_rnn_relu_cell_dynamic(
            input, state, self._packed_weight_ih, self._packed_weight_hh,
            self.bias_ih, self.bias_hh,
        )  # fmt: skip
