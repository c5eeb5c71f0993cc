"""Calls of modules at sizes that were not met are made again without their Python.

Forty programs whose Python hangs on sizes run at lengths in random order, with gradients
and without, beside copies that are not compiled.
"""

import copy
import random

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._inductor import config
from rushlight.nn import functional as F

WIDTH = 4
LENGTHS = (5, 3, 8, 2, 9, 12, 7, 1, 16)
SCALES = {3: 2.0, 5: 0.5}


@pytest.fixture(autouse=True)
def sizes_wait(planned_at_the_first_calls, monkeypatch):
    """Other sizes wait, as they do for users."""
    monkeypatch.setattr(config, "other_size_calls", 64)


class Own(nn.Module):
    """Layers and tables that the programs read."""

    scales = {3: 2.0}

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.places = nn.Embedding(64, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("mask", rl.ones(64, 64).tril() > 0)
        self.cut, self.window = 8, 4

    def add_places(self, x):
        """With places."""
        return x + self.places(rl.arange(x.shape[1]))


def branch_above(self, x):
    if x.shape[1] > 8:
        return self.first(x)
    return self.second(x)


def branch_chain(self, x):
    length = x.size(1)
    if length % 2:
        return self.first(x) * 2
    elif length % 4 == 0:
        return self.second(x)
    return x + 1


def loop_over_length(self, x):
    total = self.first(x)[:, 0]
    for at in range(x.shape[1]):
        total = total + x[:, at]
    return total


def iterates(self, x):
    total = x[:, 0] * 0
    for row in x.unbind(1):
        total = total + row
    return self.first(total)


def least_of(self, x):
    return self.first(x[:, : min(x.shape[1], 6)])


def most_of(self, x):
    return F.pad(self.first(x), (0, 0, 0, max(8 - x.shape[1], 0)))


def halves(self, x):
    return self.first(x[:, : (x.shape[1] + 1) // 2])


def rest_of(self, x):
    return F.pad(self.first(x), (0, 0, 0, -x.shape[1] % self.window))


def windows(self, x):
    batch, length, width = x.shape
    x = F.pad(x, (0, 0, 0, -length % self.window))
    x = x.view(batch, -1, self.window, width)
    return self.first(x).flatten(1, 2)[:, :length]


def slices(self, x):
    return self.first(x[:, 1:]).sum(1) + x[:, :-1].sum(1) + x[:, -1] + x[:, ::2].sum(1)


def with_indices(self, x):
    return self.norm(self.add_places(x))


def masked(self, x):
    length = x.shape[1]
    scores = self.first(x) @ x.transpose(1, 2)
    return scores.masked_fill(~self.mask[:length, :length], -1e9).softmax(-1) @ x


def made_mask(self, x):
    length = x.shape[1]
    mask = rl.ones(length, length, dtype=rl.bool).tril()
    return F.scaled_dot_product_attention(x, self.first(x), x, attn_mask=mask)


def heads(self, x):
    batch, length, width = x.shape
    q, k, v = self.qkv(x).split(WIDTH, 2)
    q, k, v = (
        one.view(batch, length, 2, width // 2).transpose(1, 2) for one in (q, k, v)
    )
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return self.first(y.transpose(1, 2).reshape(batch, length, width))


def length_of(self, x):
    return self.first(x) * len(x) + len(x[0])


def by_table(self, x):
    return self.first(x) * SCALES.get(x.shape[1], 1.0)


def by_own_table(self, x):
    if x.shape[1] in self.scales:
        return self.first(x) * self.scales[x.shape[1]]
    return self.second(x)


def divided(self, x):
    return self.first(x).sum(1) / x.shape[1]


def scaled(self, x):
    return self.first(x) * (x.shape[1] ** -0.5) + x.size(-1) ** 0.5


def times_count(self, x):
    return self.first(x) * x.numel() - x.shape.numel()


def list_of_length(self, x):
    return self.first(x) + rl.tensor([0.5] * x.shape[1])[:, None]


def full_of(self, x):
    return rl.cat([rl.full((x.shape[0], 1, WIDTH), 0.5), self.first(x)], 1)


def zeros_like_it(self, x):
    return (
        rl.zeros(x.shape[0], x.shape[1], WIDTH)
        + self.first(x)
        + rl.empty_like(x).fill_(2)
    )


def chunks(self, x):
    parts = self.first(x).chunk(3, 1)
    return parts[0] * len(parts)


def splits(self, x):
    return rl.stack([part.sum(1) for part in self.first(x).split(4, 1)]).sum(0)


def compares_shapes(self, x):
    y = self.first(x)
    if y.shape == x.shape and x.shape[:2] != (2, 5):
        y = y + x
    return y


def contiguous(self, x):
    y = self.first(x).transpose(0, 1)
    return y.contiguous().view(-1, WIDTH) if not y.is_contiguous() else y.reshape(-1, 4)


def writes_contiguous(self, x):
    y = self.first(x).transpose(0, 1).detach()
    z = y.contiguous()
    z.add_(1)
    return y.sum(0) + self.second(x)[:, 0]


def with_strides(self, x):
    y = self.first(x)
    return rl.as_strided(y, (y.shape[0], y.shape[1]), (y.stride(0), y.stride(1)))


def last_word(self, x):
    return self.first(x)[:, x.shape[1] - 1] + x.select(1, x.shape[1] // 2)


def attends(self, x):
    return self.attention(x, x, x, need_weights=False)[0]


def recurs(self, x):
    return self.rnn(x)[0]


def convolves(self, x):
    return self.conv(x.transpose(1, 2)).transpose(1, 2)


def reversed_words(self, x):
    places = rl.arange(x.shape[1] - 1, -1, -1)
    return self.first(x)[:, places]


def repeated(self, x):
    return self.first(x).repeat(1, 2, 1)[:, : x.shape[1] + 1].expand(-1, -1, -1)


def errs(self, x):
    if x.shape[1] > 64:
        raise ValueError(f"{x.shape[1]} is too long")
    return self.first(x)


def int_of(self, x):
    return self.first(x[:, : int(x.shape[1] * 0.5) + 1])


def bit_of(self, x):
    return self.first(x) * (x.shape[1] & 1) + (x.shape[1] << 1)


def divides(self, x):
    whole, rest = divmod(x.shape[1], 3)
    return self.first(x) * whole + rest


def squeezes(self, x):
    y = self.first(x).squeeze(1)
    return y.sum(1) if y.dim() == 3 else y


def mean_of_rest(self, x):
    kept = []
    for at in range(0, x.shape[1], 3):
        kept.append(x[:, at : at + 3].mean(1))
    return self.first(rl.stack(kept, 1))


def asks_type(self, x):
    return self.first(x) * (3 if isinstance(x.shape[1], int) else 4)


def of_truth(self, x):
    return self.first(x) if x.shape[1] - 5 else self.second(x)


def drops(self, x):
    return self.drop(self.first(x)) + x.shape[1]


PROGRAMS = [
    value
    for value in list(globals().values())
    if getattr(value, "__code__", None)
    and value.__code__.co_varnames[:2] == ("self", "x")
]
# Whose Python does the same at all lengths, but for the numbers.
OPEN = [
    branch_above, halves, rest_of, windows, slices, with_indices, masked, made_mask, heads,
    times_count, full_of, zeros_like_it, compares_shapes, attends, convolves,
    last_word, reversed_words, repeated, errs, divides, drops, recurs,
]  # fmt: skip


def pair_of(forward):
    """A compiled module, and a copy that is not."""
    rl.manual_seed(0)
    module = type("Program", (Own,), {"forward": forward})()
    return rl.compile(copy.deepcopy(module)), module


def of_lengths(count, seed=0):
    """Lengths in random order; those that come are met a few times."""
    draw = random.Random(seed)
    return [draw.choice(LENGTHS) for _ in range(count)]


def result_of(module, x, seed):
    """What a call gives, or the words of its error."""
    rl.manual_seed(seed)
    try:
        return module(x)
    except (ValueError, RuntimeError, AssertionError) as fault:
        return f"{type(fault).__name__}: {fault}"


def same(one, other):
    """Whether two results are alike."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    looks = [
        (tuple(t.shape), t.stride(), t.dtype, t.requires_grad) for t in (one, other)
    ]
    return looks[0] == looks[1] and rl.allclose(one, other, 1e-5, 1e-6)


@pytest.mark.parametrize("forward", PROGRAMS)
def test_inference_at_any_length_is_the_uncompiled_one(forward):
    compiled, module = pair_of(forward)
    with rl.no_grad():
        for at, length in enumerate(of_lengths(60)):
            x = rl.randn(2 if at % 7 else 3, length, WIDTH)
            assert same(result_of(compiled, x, at), result_of(module, x, at)), (
                at,
                length,
            )


@pytest.mark.parametrize("forward", PROGRAMS)
def test_training_at_any_length_is_the_uncompiled_one(forward):
    compiled, module = pair_of(forward)
    for at, length in enumerate(of_lengths(40, 1)):
        x = rl.randn(2, length, WIDTH)
        results = [result_of(one, x, at) for one in (compiled, module)]
        assert same(*results), (at, length)
        if isinstance(results[0], str) or not results[0].requires_grad:
            continue
        for one, result in zip((compiled, module), results, strict=True):
            one.zero_grad()
            result.square().mean().backward()
        for one, other in zip(compiled.parameters(), module.parameters(), strict=True):
            assert (one.grad is None) == (other.grad is None)
            assert one.grad is None or rl.allclose(one.grad, other.grad, 1e-4, 1e-6)


def times_taken(compiled):
    """How often calls were made again at other sizes."""
    courses = compiled._runner.operator_traces.items()
    own = [entry for key, entry in courses if key[0] == id(compiled._orig_mod)]
    return sum([course.times for entry in own for _, course in entry.live])


@pytest.mark.parametrize("forward", OPEN)
@pytest.mark.parametrize("learns", [False, True])
def test_a_third_length_runs_without_python(forward, learns):
    compiled, _ = pair_of(forward)
    with rl.set_grad_enabled(learns):
        for length in (4, 4, 5, 5, 5, 6, 6, 7, 7, 9, 9, 11, 11):
            compiled(rl.randn(2, length, WIDTH))
        before = times_taken(compiled)
        for length in (13, 15, 17, 21):
            compiled(rl.randn(2, length, WIDTH))
    assert times_taken(compiled) >= before + 4
