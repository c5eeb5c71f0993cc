"""What translated programs run for recurrent networks; read as text, never imported."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor


class RNNBase:
    def _run(
        self, input: Tensor, state: list[Tensor], samples: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        if self.mode == "LSTM":
            return torch.lstm(
                input,
                state,
                self._flat_weights,
                self.bias,
                self.num_layers,
                self.dropout,
                self.training,
                self.bidirectional,
                self.batch_first,
            )
        if self.mode == "GRU":
            output, last = torch.gru(
                input,
                state[0],
                self._flat_weights,
                self.bias,
                self.num_layers,
                self.dropout,
                self.training,
                self.bidirectional,
                self.batch_first,
            )
            return output, last, last
        return self._run_plain(input, state[0])

    def _run_plain(self, input: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.mode == "RNN_TANH":
            output, last = torch.rnn_tanh(
                input,
                state,
                self._flat_weights,
                self.bias,
                self.num_layers,
                self.dropout,
                self.training,
                self.bidirectional,
                self.batch_first,
            )
            return output, last, last
        output, last = torch.rnn_relu(
            input,
            state,
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first,
        )
        return output, last, last

    def _first(self, input: Tensor, samples: int, width: int) -> Tensor:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return torch.zeros(
            [layers, samples, width], dtype=input.dtype, device=input.device
        )

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        batched = input.dim() == 3
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
        samples = input.size(0 if self.batch_first else 1)
        if hx is None:
            state = self._first(input, samples, self.hidden_size)
        else:
            state = hx if batched else hx.unsqueeze(1)
        output, last, _ = self._run(input, [state], samples)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            last = last.squeeze(1)
        return output, last


class LSTM:
    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        batched = input.dim() == 3
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
        samples = input.size(0 if self.batch_first else 1)
        if hx is None:
            width = self.proj_size if self.proj_size > 0 else self.hidden_size
            h = self._first(input, samples, width)
            c = self._first(input, samples, self.hidden_size)
        else:
            h, c = hx
            if not batched:
                h, c = h.unsqueeze(1), c.unsqueeze(1)
        output, h_n, c_n = self._run(input, [h, c], samples)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            h_n, c_n = h_n.squeeze(1), c_n.squeeze(1)
        return output, (h_n, c_n)


class LSTMCell:
    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            zeros = torch.zeros(
                [x.size(0), self.hidden_size], dtype=x.dtype, device=x.device
            )
            state = (zeros, zeros)
        else:
            h, c = hx
            state = (h, c) if batched else (h.unsqueeze(0), c.unsqueeze(0))
        made = torch.lstm_cell(
            x,
            [state[0], state[1]],
            self.weight_ih,
            self.weight_hh,
            self.bias_ih,
            self.bias_hh,
        )
        if not batched:
            return made[0].squeeze(0), made[1].squeeze(0)
        return made


class GRUCell:
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            state = torch.zeros(
                [x.size(0), self.hidden_size], dtype=x.dtype, device=x.device
            )
        else:
            state = hx if batched else hx.unsqueeze(0)
        made = torch.gru_cell(
            x, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        return made if batched else made.squeeze(0)


class RNNCell:
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            state = torch.zeros(
                [x.size(0), self.hidden_size], dtype=x.dtype, device=x.device
            )
        else:
            state = hx if batched else hx.unsqueeze(0)
        if self.nonlinearity == "tanh":
            made = torch.rnn_tanh_cell(
                x, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
            )
        else:
            made = torch.rnn_relu_cell(
                x, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
            )
        return made if batched else made.squeeze(0)
