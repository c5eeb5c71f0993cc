"""Tensors joined along any dimension are PyTorch's, row by row or part by part."""

from __future__ import annotations

import random

import rushlight as rl
from tests.operators.oracle import to_rushlight, torch

SIZES = 0, 1, 2, 5, 64, 130


def parts(chance):
    """Some tensors that fit each other, and the dimension that they are joined along."""
    ndim = chance.randint(1, 4)
    axis, sizes = chance.randrange(ndim), [chance.choice(SIZES) for _ in range(ndim)]
    made = []
    for _ in range(chance.randint(1, 5)):
        sizes[axis] = chance.choice((0, 1, 3, 64, 200))
        kind = chance.choice([torch.float32] * 8 + [torch.float64, torch.int64])
        x = (torch.randn(*sizes) * 5).to(kind)
        if ndim > 1 and chance.random() < 0.2:
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        made.append(x)
    return made, axis


def test_tensors_joined_along_any_dimension_are_pytorchs():
    chance = random.Random(7)
    torch.manual_seed(7)
    for _ in range(200):
        tensors, axis = parts(chance)
        theirs = torch.cat(tensors, axis)
        ours = rl.cat([to_rushlight(x) for x in tensors], axis)
        assert ours.tolist() == theirs.tolist()
        assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
        assert not ours.numel() or ours.stride() == theirs.stride()


def test_rows_are_joined_alike_when_launches_are_watched_and_on_many_threads():
    x, y = rl.randn(64, 300), rl.randn(64, 700)
    wanted = rl.cat([x, y], 1)
    assert rl.equal(wanted[:, :300], x) and rl.equal(wanted[:, 300:], y)
    joined = rl.compile(lambda a, b: rl.cat([a, b], 1) * 1.0)
    for _ in range(3):
        assert rl.equal(joined(x, y), wanted)
    before = rl.get_num_threads()
    try:
        for threads in (1, 2, 7):
            rl.set_num_threads(threads)
            assert rl.equal(rl.cat([x, y] * 40, 1), rl.cat([wanted] * 40, 1))
    finally:
        rl.set_num_threads(before)
