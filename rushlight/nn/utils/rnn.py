"""Batches of sequences of different lengths."""

import math
from collections import namedtuple
from collections.abc import Iterable

import rushlight as rl
from rushlight.operators import call

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

_Fields = namedtuple(
    "PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"]
)


def invert_permutation(permutation):
    """The permutation that undoes another; None for None.

    Args:
        permutation: numbers from zero, each once; or None.

    >>> invert_permutation(rl.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    positions = rl.arange(permutation.numel(), device=permutation.device)
    return rl.empty_like(permutation).scatter_(0, permutation, positions)


class PackedSequence(_Fields):
    """Sequences stored time step after time step, the longest sequence first.

    Args:
        data: the elements: all first ones, all second ones, and so on.
        batch_sizes: how many sequences reach each time step.
        sorted_indices: where each sequence came from in the caller's order.
        unsorted_indices: the inverse of ``sorted_indices``.
    """

    __slots__ = ()

    data: rl.Tensor
    batch_sizes: rl.Tensor
    sorted_indices: rl.Tensor | None
    unsorted_indices: rl.Tensor | None

    def __new__(
        cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None
    ):
        if batch_sizes is None:  # the older form: one pair
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence "
                "should never be created manually. They should be instantiated by "
                "functions like pack_sequence and pack_padded_sequences in "
                "nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """The same sequences with their data moved or converted."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        return type(self)(
            data, self.batch_sizes, self.sorted_indices, self.unsorted_indices
        )

    def float(self):
        """The same sequences in float32."""
        return self.to(rl.float32)

    def double(self):
        """The same sequences in float64."""
        return self.to(rl.float64)

    def half(self):
        """The same sequences in float16."""
        return self.to(rl.float16)

    def long(self):
        """The same sequences in int64."""
        return self.to(rl.int64)

    def int(self):
        """The same sequences in int32."""
        return self.to(rl.int32)

    def short(self):
        """The same sequences in int16."""
        return self.to(rl.int16)

    def char(self):
        """The same sequences in int8."""
        return self.to(rl.int8)

    def byte(self):
        """The same sequences in uint8."""
        return self.to(rl.uint8)

    def cpu(self, *args, **kwargs):
        """The same sequences on the CPU."""
        return self.to("cpu", *args, **kwargs)

    def cuda(self, *args, **kwargs):
        """The same sequences on a GPU."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    def pin_memory(self):
        """The same sequences with their data in pinned memory."""
        return type(self)(
            self.data.pin_memory(),
            self.batch_sizes,
            self.sorted_indices,
            self.unsorted_indices,
        )

    def is_pinned(self):
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()

    @property
    def is_cuda(self):
        """Whether the data is on a GPU."""
        return self.data.is_cuda


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Pack a batch of padded sequences.

    Args:
        input: ``(T, N, *)``, or ``(N, T, *)`` with ``batch_first``.
        lengths: each sequence's own length.
        enforce_sorted: whether the sequences are sorted by falling length already.

    Raises:
        RuntimeError: lengths don't match the batch, aren't positive or not sorted.

    >>> pack_padded_sequence(rl.tensor([[1, 3], [2, 0]]), rl.tensor([2, 1])).data
    tensor([1, 3, 2])
    """
    if not isinstance(lengths, rl.Tensor):
        lengths = rl.tensor(lengths, dtype=rl.int64)
    lengths = lengths.to("cpu", rl.int64)
    order = None
    if not enforce_sorted:
        lengths, order = rl.sort(lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    data, counts = call._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, counts, order)


def pad_packed_sequence(
    sequence, batch_first=False, padding_value=0.0, total_length=None
):
    """The padded batch that a packed one was made of, and the lengths.

    Args:
        sequence: the packed batch.
        batch_first: whether the batch is the first dimension.
        padding_value: what fills up the shorter ones.
        total_length: the length to fill up to; that of the longest by default.

    >>> pad_packed_sequence(pack_sequence([rl.tensor([1, 2]), rl.tensor([3])]))
    (tensor([[1, 3],
            [2, 0]]), tensor([2, 1]))
    """
    longest = sequence.batch_sizes.numel()
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest "
            f"sequence in input, but got total_length={total_length} and max "
            f"sequence length being {longest}"
        )
    padded, lengths = call._pad_packed_sequence(
        sequence.data,
        sequence.batch_sizes,
        batch_first,
        padding_value,
        longest if total_length is None else total_length,
    )
    order = sequence.unsorted_indices
    if order is not None:
        padded = padded.index_select(0 if batch_first else 1, order)
        lengths = lengths[order]
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stack sequences of different lengths, filling up the shorter ones.

    Args:
        sequences: tensors ``(length, ...)``.
        batch_first: whether the batch is the first dimension.
        padding_value: what fills up the shorter ones.
        padding_side: ``"right"`` or ``"left"``.

    >>> pad_sequence([rl.tensor([1, 2]), rl.tensor([3])], True).tolist()
    [[1, 2], [3, 0]]
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    return call.pad_sequence(list(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences, each with its own length, of a padded batch.

    Args:
        padded_sequences: the padded batch.
        lengths: how long each sequence is.
        batch_first: whether the batch is the first dimension.

    >>> unpad_sequence(rl.tensor([[1, 3], [2, 0]]), rl.tensor([2, 1]))
    [tensor([1, 2]), tensor([3])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = [max(0, math.ceil(length)) for length in lengths.tolist()]
    pairs = zip(rows.unbind(0), counts, strict=True)
    return [
        row[:count].clone(memory_format=rl.contiguous_format) for row, count in pairs
    ]


def pack_sequence(sequences, enforce_sorted=True):
    """Pack a list of sequences.

    Args:
        sequences: tensors of shape ``(L, ...)``.
        enforce_sorted: whether they must come with the longest first.

    >>> pack_sequence([rl.tensor([1, 2]), rl.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = rl.tensor([each.size(0) for each in sequences], dtype=rl.int64)
    return pack_padded_sequence(
        pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted
    )


def unpack_sequence(packed_sequences):
    """The list of sequences that a packed batch was made of.

    Args:
        packed_sequences: a ``PackedSequence``.

    >>> unpack_sequence(pack_sequence([rl.tensor([1, 2]), rl.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
