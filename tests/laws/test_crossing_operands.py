"""Operands whose elements lie along other loops give what copies of them give."""

from __future__ import annotations

import itertools

import pytest

import rushlight as rl

EDGES = (15, 16, 17, 31, 33, 63, 64, 65, 129)
DTYPES = (
    rl.float32, rl.float64, rl.bfloat16, rl.float16, rl.int8, rl.int16, rl.int32,
    rl.int64, rl.bool, rl.complex64, rl.complex128, rl.uint16, rl.uint32, rl.uint64,
)  # fmt: skip
THREE = {
    "where": lambda x, y, z: rl.where(x > 1, y, z),
    "lerp": lambda x, y, z: rl.lerp(x, y, z),
    "addcmul": lambda x, y, z: rl.addcmul(x, y, z, value=0.5),
    "clamp": lambda x, y, z: rl.clamp(x, y, z),
}
PAIRS = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "less": lambda x, y: x < y,
    "equal": lambda x, y: x == y,
}


def numbers(sizes, dtype, start=0):
    count = rl.ones(sizes).numel()
    return ((rl.arange(count) * 7 + start) % 11).reshape(sizes).to(dtype)


def same(found, wanted):
    assert found.dtype is wanted.dtype
    assert found.shape == wanted.shape
    assert rl.equal(found, wanted)


def turned(x):
    """The same elements, which lie along the first of two dimensions."""
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


@pytest.mark.parametrize("rows", EDGES)
def test_sizes_about_a_tiles_edges(rows):
    for columns, dtype in itertools.product(EDGES, (rl.float32, rl.float64, rl.int16)):
        x, y = numbers((rows, columns), dtype), numbers((rows, columns), dtype, 3)
        for call in PAIRS.values():
            same(call(x, turned(y)), call(x, y))
            same(call(turned(x), y).contiguous(), call(x, y))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_beside_every_other(dtype):
    x = numbers((70, 130), dtype)
    for other in DTYPES:
        y = numbers((70, 130), other, 5)
        for name, call in PAIRS.items():
            try:
                wanted = call(x, y)
            except (RuntimeError, NotImplementedError):
                continue  # PyTorch has no such pair
            same(call(x, turned(y)), wanted)
            assert name


@pytest.mark.parametrize("name", THREE)
def test_three_operands_in_every_order(name):
    call = THREE[name]
    for dtype in rl.float32, rl.float64:
        given = [numbers((65, 200), dtype, start) for start in range(3)]
        wanted = call(*given)
        for which in itertools.product((False, True), repeat=3):
            laid = [turned(x) if one else x for x, one in zip(given, which)]
            same(call(*laid).contiguous(), wanted)


def test_outer_dimensions_steps_and_broadcasting():
    x, y = numbers((3, 70, 90), rl.float32), numbers((3, 70, 90), rl.float32, 4)
    same(x + turned(y), x + y)
    same(x + turned(y[:1]), x + y[:1])
    same(
        x + y[:1].transpose(1, 2).contiguous().transpose(1, 2).expand(3, 70, 90),
        x + y[0],
    )
    wide = numbers((3, 90, 140), rl.float32, 2)
    same(
        x + wide.transpose(1, 2)[:, ::2], x + wide.transpose(1, 2)[:, ::2].contiguous()
    )
    tall = numbers((3, 180, 70), rl.float32, 2)
    same(
        x + tall.transpose(1, 2)[..., ::2],
        x + tall.transpose(1, 2)[..., ::2].contiguous(),
    )
    same(x + turned(y).flip(2), x + y.flip(2))


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.int32], ids=str)
def test_results_in_place_and_in_memory_that_lies_across(dtype):
    x, y = numbers((100, 75), dtype), numbers((100, 75), dtype, 4)
    wanted = x + y
    same(x.clone().add_(turned(y)), wanted)
    same(turned(x).add_(y).contiguous(), wanted)
    out = rl.zeros(75, 100, dtype=dtype).t()
    same(rl.add(x, y, out=out).contiguous(), wanted)
    same(rl.add(turned(x), y, out=out).contiguous(), wanted)
    square = numbers((80, 80), dtype)
    whole = square.clone()
    same(square.add_(square.clone().t()), whole + whole.t().contiguous())
