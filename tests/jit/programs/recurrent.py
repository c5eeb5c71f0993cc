"""Recurrent networks, packed sequences, and functions of several signatures."""

from typing import List, Optional, Tuple, Union  # noqa: UP035

import torch
from torch import Tensor

from tests.jit.programs.kept import prepared

nn, rnn = torch.nn, torch.nn.utils.rnn
PROGRAMS, program, values = prepared(torch)


@program(values(3, 5, 3), torch.tensor([2, 5, 3]))
class PackedHere(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, lengths: Tensor):
        packed = rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        output, (h, c) = self.lstm(packed)
        padded, counts = rnn.pad_packed_sequence(
            output, batch_first=True, padding_value=-1.0, total_length=6
        )
        return padded, counts, h, c


@program(values(5, 3, 3), [5, 4, 2])
class PackedInOrder(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 4, 2)

    def forward(self, x: Tensor, lengths: List[int]):  # noqa: UP006
        output, h = self.gru(rnn.pack_padded_sequence(x, lengths))
        return output.data, output.batch_sizes, h


@program(rnn.pack_sequence([values(4, 3), values(2, 3)]))
class PackedOperand(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(3, 4, nonlinearity="relu")

    def forward(self, packed: rnn.PackedSequence) -> Tuple[rnn.PackedSequence, Tensor]:  # noqa: UP006
        return self.rnn(packed)


@program(values(4, 2, 3), (values(2, 2, 2), values(2, 2, 4)))
class StatesGiven(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, proj_size=2)

    def forward(self, x: Tensor, state: Optional[Tuple[Tensor, Tensor]] = None):  # noqa: UP006, UP045
        if state is None:
            output, last = self.lstm(x)
        else:
            output, last = self.lstm(x, state)
        return output, last


@program([values(2, 3), values(4, 3)])
def padded(sequences: List[Tensor]):  # noqa: UP006
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    return rnn.pad_sequence(sequences, batch_first=True), packed.data


@torch.jit._overload
def doubled(x: int) -> int:
    pass


@torch.jit._overload
def doubled(x: Tensor) -> Tensor:  # noqa: F811
    pass


def doubled(x):  # noqa: F811
    return x + x


@program(values(2), 3)
def overloaded_function(x: Tensor, n: int):
    return doubled(x), doubled(n)


@program(values(2), 3)
class OverloadedMethod(nn.Module):
    @torch.jit._overload_method
    def shift(self, x: int, y: Optional[int]) -> int:  # noqa: UP045
        pass

    @torch.jit._overload_method
    def shift(self, x: Tensor, y: Optional[int]) -> Tensor:  # noqa: F811, UP045
        pass

    def shift(self, x: Union[int, Tensor], y: Optional[int]):  # noqa: F811, UP007, UP045
        if y is None:
            y = 10
        return x + y

    def forward(self, x: Tensor, n: int):
        return self.shift(x, None), self.shift(n, None), self.shift(n, 1)
