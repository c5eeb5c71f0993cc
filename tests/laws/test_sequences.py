"""Sequences of different lengths, padded and packed at random, beside PyTorch's."""

import math
import random
import warnings

import pytest

pytest.importorskip("torch", reason="the oracle is not installed")

import torch

import rushlight as rl

DTYPES = ["float32"] * 6 + ["float64", "int64", "bool", "float16", "complex64"]


def shown(result):
    """What a result is, in a nest."""
    if isinstance(result, (torch.Tensor, rl.Tensor)):
        plain = result.detach()
        return (
            str(result.dtype).rpartition(".")[2],
            tuple(result.shape),
            tuple(result.stride()) if result.numel() else (),
            result.requires_grad,
            repr(plain.tolist()),
        )
    if isinstance(result, (list, tuple)):
        return [shown(item) for item in result]
    return repr(result)


def outcome(call):
    """A call's result as data, or the kind of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return shown(call())
        except Exception as error:
            return type(error).__name__


class Draw:
    """Arguments that both libraries are given."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.count = draw.choice([0, 1, 2, 3, 4])
        rest = draw.choice([(), (2,), (2, 3)])
        self.dtypes = [draw.choice(DTYPES) for _ in range(self.count)]
        self.lengths = [draw.choice([0, 1, 2, 3, 4, 5]) for _ in range(self.count)]
        odd = [(), (2,), (2, 3), (1,)]
        self.rests = [
            rest if draw.random() < 0.93 else draw.choice(odd)
            for _ in range(self.count)
        ]
        self.first = draw.random() < 0.5
        self.value = draw.choice([0.0, -1.5, 3, 7.0])
        self.side = draw.choice(["right", "left", "right", "middle"])
        self.sorted = draw.random() < 0.5
        self.grad = draw.random() < 0.4
        self.total = draw.choice([None, None, 4, 7, 2])
        self.form = draw.choice(["list", "int64", "int32", "float32", "negative"])

    def sequences(self, module):
        made = []
        for dtype, length, rest in zip(self.dtypes, self.lengths, self.rests):
            numbers = module.arange(1, 1 + length * math.prod(rest))
            tensor = numbers.reshape(length, *rest).to(getattr(module, dtype))
            made.append(
                tensor.requires_grad_()
                if self.grad and dtype.startswith("float")
                else tensor
            )
        return made

    def batch(self, module):
        sizes = (self.count, 5, 2) if self.first else (5, self.count, 2)
        return module.arange(1.0, 1 + math.prod(sizes)).reshape(sizes)

    def sizes(self, module):
        if self.form == "list":
            return list(self.lengths)
        if self.form == "negative":
            return [length - 1 for length in self.lengths]
        return module.tensor(self.lengths, dtype=getattr(module, self.form))


def padded(module, given):
    sequences = given.sequences(module)
    result = module.nn.utils.rnn.pad_sequence(
        sequences, given.first, given.value, given.side
    )
    wanted = [each for each in sequences if each.requires_grad]
    if not result.requires_grad:
        return result
    gradients = module.autograd.grad((result * result).sum(), wanted)
    return [result, *[gradient.tolist() for gradient in gradients]]


def packed(module, given):
    return module.nn.utils.rnn.pack_padded_sequence(
        given.batch(module), given.sizes(module), given.first, given.sorted
    )


def there_and_back(module, given):
    return module.nn.utils.rnn.pad_packed_sequence(
        packed(module, given), not given.first, given.value, given.total
    )


def unpadded(module, given):
    sizes = given.sizes(module)
    sizes = module.tensor(sizes) if isinstance(sizes, list) else sizes
    return module.nn.utils.rnn.unpad_sequence(given.batch(module), sizes, given.first)


def of_sequences(module, given):
    given.grad = False  # complex numbers with gradients are packed only here
    sequences = given.sequences(module)
    return module.nn.utils.rnn.pack_sequence(sequences, given.sorted)


@pytest.mark.parametrize(
    "function", [padded, packed, there_and_back, unpadded, of_sequences]
)
def test_random_sequences_are_padded_and_packed_as_on_pytorch(function):
    for seed in range(300):
        given = Draw(seed)
        expected = outcome(lambda given=given: function(torch, given))
        found = outcome(lambda given=given: function(rl, given))
        assert found == expected, vars(given)


def test_what_was_a_padded_batch_is_no_view_of_it():
    batch = rl.zeros(3, 2)
    for row in rl.nn.utils.rnn.unpad_sequence(batch, rl.tensor([3, 2])):
        row.add_(1)
    assert batch.sum() == 0
