"""Sequences of different lengths: padded to one tensor, and packed by time steps."""

from rushlight.operators import call as ops
from rushlight.operators.functions import tensor


def pad_sequence(sequences, batch_first, padding_value, padding_side):
    """One tensor of the first one's type, with every sequence at its start or end.

    Raises:
        RuntimeError: there are none, or one does not go with the first.
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    first, longest = sequences[0], max(each.size(0) for each in sequences)
    rest = first.shape[1:]
    rows = []
    for each in sequences:
        missing = longest - each.size(0)
        each = each.to(first.dtype).expand(each.size(0), *rest)
        if missing:
            fill = first.new_full((missing, *rest), padding_value)
            each = ops.cat([each, fill] if padding_side == "right" else [fill, each])
        rows.append(each)
    return ops.stack(rows, 0 if batch_first else 1)


def pack_padded(input, lengths, batch_first):
    """The elements time step after time step, and how many sequences reach each.

    Raises:
        RuntimeError: there are no elements; lengths do not match the batch, are not
            positive or not sorted.
    """
    if lengths.dim() != 1:
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{lengths.dim()}D {lengths.device.type} tensor"
        )
    samples = input.size(0 if batch_first else 1)
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.numel() != samples:
        raise RuntimeError(
            "Expected `len(lengths)` to be equal to batch_size, but got "
            f"{lengths.numel()} (batch_size={samples})"
        )
    sizes = lengths.tolist()
    if sizes[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in "
            "'lengths' that is <= 0"
        )
    if any(a < b for a, b in zip(sizes, sizes[1:])):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` "
            "is True. You can pass `enforce_sorted=False` to pack_padded_sequence "
            "and/or pack_sequence to sidestep this requirement if you do not need ONNX "
            "exportability."
        )
    steps = input.transpose(0, 1) if batch_first else input
    counts = _at_least(sizes, sizes[0])
    data = ops.cat([steps[time, :count] for time, count in enumerate(counts)])
    return data, tensor(counts, dtype=lengths.dtype)


def pad_packed(data, batch_sizes, batch_first, padding_value, total_length):
    """Every sequence at its start in a tensor of its own row, and the lengths."""
    counts = batch_sizes.tolist()
    samples, rest = counts[0], data.shape[1:]
    steps = []
    for part in data.split(counts):
        missing = samples - part.size(0)
        if missing:
            part = ops.cat([part, data.new_full((missing, *rest), padding_value)])
        steps.append(part)
    for _ in range(total_length - len(counts)):
        steps.append(data.new_full((samples, *rest), padding_value))
    padded = ops.stack(steps)
    lengths = tensor(_at_least(counts, samples), dtype=batch_sizes.dtype)
    return padded.transpose(0, 1) if batch_first else padded, lengths


def _at_least(falling, steps):
    """How many of falling numbers are greater than 0, 1, 2 and so on."""
    found, left = [], len(falling)
    for step in range(steps):
        while left and falling[left - 1] <= step:
            left -= 1
        found.append(left)
    return found
