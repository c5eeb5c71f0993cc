"""Quotients of halves that are rounded down are PyTorch's bit for bit, and remainders."""

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

WAYS = {
    "div": lambda lib, x, y: lib.div(x, y, rounding_mode="floor"),
    "div_": lambda lib, x, y: x.clone().div_(y, rounding_mode="floor"),
    "//": lambda lib, x, y: x // y,
    "// number": lambda lib, x, y: x // 3.3,
    "number //": lambda lib, x, y: 3.3 // x,
    "// one of them": lambda lib, x, y: x // y[5],
    "// a vector of one": lambda lib, x, y: x // y[5:6],
    "// one of float32": lambda lib, x, y: x // lib.tensor(3.3),
    "one of them //": lambda lib, x, y: y[5] // x,
    "trunc": lambda lib, x, y: lib.div(x, y, rounding_mode="trunc"),
    "%": lambda lib, x, y: x % y,
    "fmod": lambda lib, x, y: lib.fmod(x, y),
}


def pairs(kind):
    """2^16 pairs: all numbers of the type, and such whose quotients are moderate."""
    torch.manual_seed(0)
    dtype = getattr(torch, kind)
    bits = torch.arange(-(2**15), 2**15).to(torch.int16)
    a, b = (bits[torch.randperm(2**16)].view(dtype) for _ in range(2))
    yield a, b
    near = torch.randn(2**16) * 20, torch.randn(2**16) * 3
    yield tuple(x.to(dtype) for x in near)
    yield tuple(x.round().to(dtype) for x in near)


def ours(tensor):
    """The same elements in our tensor."""
    bits = rushlight.from_numpy(tensor.view(torch.int16).numpy().copy())
    return bits.view(getattr(rushlight, str(tensor.dtype).rpartition(".")[2]))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_quotients_rounded_down_are_pytorch_s_bit_for_bit(kind):
    for x, y in pairs(kind):
        for way, call in WAYS.items():
            expected, found = call(torch, x, y), call(rushlight, ours(x), ours(y))
            same = (
                expected.view(torch.int16).numpy()
                == found.view(rushlight.int16).numpy()
            )
            told = ~torch.isnan(expected).numpy()
            if way in ("%", "fmod"):
                same |= ~told  # PyTorch's vectors lose remainders of far quotients
            else:
                same |= ~told & rushlight.isnan(found).numpy()
            assert np.all(same), (way, int((~same).sum()))


def test_a_plan_for_one_divisor_is_none_for_many():
    for lib in (rushlight, torch):
        x = lib.tensor([562.5] * 3, dtype=lib.float16)
        y = lib.tensor([0.13232421875] * 3, dtype=lib.float16)
        found = [(x // d).tolist() for d in (y, y[0], y[:1], y, y[0])]
        assert found == [
            [4252.0] * 3 if i in (0, 3) else [4248.0] * 3 for i in range(5)
        ]


def test_compiled_quotients_are_the_same():
    def call(x, y):
        return x // y, x // 3.3, (x + 1) // y * 2

    for kind in ("float16", "bfloat16"):
        *_, (x, y) = pairs(kind)
        x, y = ours(x[:1000]), ours(y[:1000])
        for a, b in zip(call(x, y), rushlight.compile(call)(x, y)):
            assert rushlight.equal(a.view(rushlight.int16), b.view(rushlight.int16))
