"""Programs make no positions of maxima that nobody reads."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph import compiled_function

F = rl.nn.functional


def drawn(*sizes):
    return rl.tensor(np.random.default_rng(sizes).standard_normal(sizes, np.float32))


def spoilt(*sizes):
    x = drawn(*sizes)
    x.view(-1)[::7], x.view(-1)[3::5] = float("nan"), -float("inf")
    return x


def settled(function, *args):
    rl.compiler.reset()
    compiled = rl.compile(function)
    for _ in range(3):
        result = compiled(*args)
    return result, "".join(g.code for r in compiled_function._runners for g in r.graphs)


CASES = [
    (F.max_pool2d, (2, 3, 9, 11), (2,)),
    (F.max_pool2d, (2, 3, 9, 40), (2, 2)),
    (F.max_pool2d, (3, 8, 10), (3, 2, 1)),
    (F.max_pool2d, (1, 2, 9, 9), ((3, 2), (2, 1), (1, 0), (2, 1), True)),
    (F.max_pool1d, (2, 3, 12), (3, 2, 1)),
    (F.max_pool3d, (1, 2, 5, 6, 7), (2, 1, 1)),
]


@pytest.mark.parametrize("pool, sizes, how", CASES)
def test_a_program_gives_the_values_of_max_pooling_without_positions(pool, sizes, how):
    for x in (drawn(*sizes), spoilt(*sizes)):
        expected = pool(x * 2, *how)
        result, code = settled(lambda x: pool(x * 2, *how), x)
        assert "_max_pool_values" in code
        assert rl.equal(result.nan_to_num(7.0), expected.nan_to_num(7.0))
        assert rl.equal(result.isnan(), expected.isnan())


def test_the_layout_of_the_input_stays():
    x = drawn(2, 4, 8, 8).contiguous(memory_format=rl.channels_last)
    result, code = settled(lambda x: F.max_pool2d(x + 1, 2), x)
    assert "_max_pool_values" in code
    assert result.stride() == F.max_pool2d(x, 2).stride()
    assert rl.equal(result, F.max_pool2d(x + 1, 2))


def test_positions_that_are_read_are_made():
    x = drawn(1, 2, 8, 8)

    def both(x):
        return F.max_pool2d(x * 3, 2, return_indices=True)

    (values, places), code = settled(both, x)
    assert "with_indices" in code
    expected = both(x)
    assert rl.equal(values, expected[0]) and rl.equal(places, expected[1])


def test_gradients_find_their_positions():
    x = drawn(1, 2, 8, 8).requires_grad_()
    weights = drawn(1, 2, 4, 4)
    compiled = rl.compile(lambda x: (F.max_pool2d(x * 3, 2) * weights).sum())
    for _ in range(3):
        x.grad = None
        compiled(x).backward()
    found, x.grad = x.grad, None
    (F.max_pool2d(x * 3, 2) * weights).sum().backward()
    assert rl.equal(found, x.grad)
