"""What translated programs run for recurrent networks; read as text, never imported."""

import rushlight as torch
from rushlight import Tensor
from rushlight.nn.utils.rnn import PackedSequence


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    if permutation is None:
        return None
    positions = torch.arange(0, permutation.numel(), device=permutation.device)
    return torch.empty_like(permutation).scatter_(0, permutation, positions)


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | list[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    if isinstance(lengths, Tensor):
        counts = lengths.to(torch.int64)
    else:
        counts = torch.as_tensor(lengths, dtype=torch.int64, device=torch.device("cpu"))
    order: Tensor | None = None
    if not enforce_sorted:
        counts, indices = torch.sort(counts, descending=True)
        indices = indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, indices)
        order = indices
    data, batch_sizes = torch._pack_padded_sequence(input, counts, batch_first)
    return PackedSequence(
        data, batch_sizes, order, torch.nn.utils.rnn.invert_permutation(order)
    )


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    longest = sequence.batch_sizes.size(0)
    length = longest
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest "
                f"sequence in input, but got total_length={total_length} and max "
                f"sequence length being {longest}"
            )
        length = total_length
    padded, lengths = torch._pad_packed_sequence(
        sequence.data, sequence.batch_sizes, batch_first, padding_value, length
    )
    order = sequence.unsorted_indices
    if order is not None:
        padded = padded.index_select(0 if batch_first else 1, order)
        lengths = lengths[order.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: list[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    return torch.ops.aten.pad_sequence(
        sequences, batch_first, padding_value, padding_side
    )


def pack_sequence(
    sequences: list[Tensor], enforce_sorted: bool = True
) -> PackedSequence:
    lengths = torch.as_tensor([each.size(0) for each in sequences])
    return torch.nn.utils.rnn.pack_padded_sequence(
        torch.nn.utils.rnn.pad_sequence(sequences),
        lengths,
        enforce_sorted=enforce_sorted,
    )


class RNNBase:
    def _run(
        self, input: Tensor, state: list[Tensor], samples: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        if self.mode == "LSTM":
            return torch.lstm(
                input, state, self._flat_weights, self.bias, self.num_layers,
                self.dropout, self.training, self.bidirectional, self.batch_first,
            )  # fmt: skip
        if self.mode == "GRU":
            output, last = torch.gru(
                input, state[0], self._flat_weights, self.bias, self.num_layers,
                self.dropout, self.training, self.bidirectional, self.batch_first,
            )  # fmt: skip
            return output, last, last
        return self._run_plain(input, state[0])

    def _run_plain(self, input: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.mode == "RNN_TANH":
            output, last = torch.rnn_tanh(
                input, state, self._flat_weights, self.bias, self.num_layers,
                self.dropout, self.training, self.bidirectional, self.batch_first,
            )  # fmt: skip
            return output, last, last
        output, last = torch.rnn_relu(
            input, state, self._flat_weights, self.bias, self.num_layers,
            self.dropout, self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
        return output, last, last

    def _first(self, input: Tensor, samples: int, width: int) -> Tensor:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return torch.zeros(
            [layers, samples, width], dtype=input.dtype, device=input.device
        )

    def _run_packed(
        self, input: PackedSequence, state: list[Tensor]
    ) -> tuple[PackedSequence, Tensor, Tensor]:
        order = input.sorted_indices
        if order is not None:
            state = [each.index_select(1, order) for each in state]
        if self.mode == "LSTM":
            output, last, cells = torch.lstm(
                input.data, input.batch_sizes, state, self._flat_weights,
                self.bias, self.num_layers,
                self.dropout, self.training, self.bidirectional,
            )  # fmt: skip
        else:
            output, last = self._run_packed_plain(
                input.data, input.batch_sizes, state[0]
            )
            cells = last
        back = input.unsorted_indices
        if back is not None:
            last = last.index_select(1, back)
            cells = cells.index_select(1, back)
        packed = PackedSequence(
            output, input.batch_sizes, input.sorted_indices, input.unsorted_indices
        )
        return packed, last, cells

    def _run_packed_plain(
        self, data: Tensor, batch_sizes: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        if self.mode == "GRU":
            return torch.gru(
                data, batch_sizes, state, self._flat_weights, self.bias, self.num_layers,
                self.dropout, self.training, self.bidirectional,
            )  # fmt: skip
        if self.mode == "RNN_TANH":
            return torch.rnn_tanh(
                data, batch_sizes, state, self._flat_weights, self.bias, self.num_layers,
                self.dropout, self.training, self.bidirectional,
            )  # fmt: skip
        return torch.rnn_relu(
            data, batch_sizes, state, self._flat_weights, self.bias, self.num_layers,
            self.dropout, self.training, self.bidirectional,
        )  # fmt: skip

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

    def forward__1(
        self, input: PackedSequence, hx: Tensor | None = None
    ) -> tuple[PackedSequence, Tensor]:
        samples = int(input.batch_sizes[0])
        if hx is None:
            hx = self._first(input.data, samples, self.hidden_size)
        output, last, _ = self._run_packed(input, [hx])
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

    def forward__1(
        self, input: PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[PackedSequence, tuple[Tensor, Tensor]]:
        samples = int(input.batch_sizes[0])
        if hx is None:
            width = self.proj_size if self.proj_size > 0 else self.hidden_size
            h = self._first(input.data, samples, width)
            c = self._first(input.data, samples, self.hidden_size)
        else:
            h, c = hx
        output, h_n, c_n = self._run_packed(input, [h, c])
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
