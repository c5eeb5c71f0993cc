"""Attention that is written out becomes one operator, only where nothing tells."""

import math

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph import compiled_function
from rushlight.operators.attention import attention

INFINITY = float("inf")
LENGTH = 70


def drawn(*sizes, seed=0, dtype=rl.float32):
    generator = np.random.default_rng([seed, *sizes])
    return rl.tensor(generator.standard_normal(sizes)).to(dtype)


def divided(q, k, v, mask):
    return rl.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), -1) @ v


def times(q, k, v, mask):
    return ((q @ k.mT) * 0.25).softmax(dim=-1).matmul(v)


def scaled_before(q, k, v, mask):
    return rl.softmax((q * 0.25) @ k.mT + mask, dim=q.dim() - 1) @ v


def added(q, k, v, mask):
    return rl.softmax(mask + q @ k.mT / 8, -1) @ v


def filled(q, k, v, mask):
    scores = (q @ k.mT / 4.0).masked_fill(mask == 0, -INFINITY)
    return scores.softmax(-1) @ v


def filled_with_little(q, k, v, mask):
    return (q @ k.mT).masked_fill(mask > 0, -2.5).softmax(-1) @ v


def in_turned_layout(q, k, v, mask):
    q, k, v = (t.reshape(2, LENGTH, 3, 16).transpose(1, 2) for t in (q, k, v))
    y = rl.softmax(q @ k.mT / 4 + mask, -1) @ v
    return y.transpose(1, 2).reshape(2, LENGTH, 48)


WRITTEN = [divided, times, scaled_before, added, filled, filled_with_little]
WRITTEN.append(in_turned_layout)


def operators(compiled, *args):
    """What a compiled function gives, and the operators of its programs."""
    with rl.no_grad():
        results = [compiled(*args) for _ in range(4)]
    graphs = [g for r in compiled_function._runners for g in r.graphs]
    return results, [str(step.op) for g in graphs for step in g.graph.steps]


@pytest.fixture(autouse=True)
def forgotten():
    compiled_function.reset()
    yield
    compiled_function.reset()


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("sizes", [(2, 3), (4,)])
@pytest.mark.parametrize("function", WRITTEN)
def test_it_is_found_and_gives_the_same(function, sizes, dtype):
    shape = (*sizes, LENGTH, 16)
    if function is in_turned_layout:
        shape = (2, LENGTH, 48)
    q, k, v = (drawn(*shape, seed=i, dtype=dtype) for i in range(3))
    mask = drawn(LENGTH, LENGTH, dtype=dtype).tril()
    results, ops = operators(rl.compile(function), q, k, v, mask)
    assert "aten._attention_in_steps.default" in ops
    assert "aten._softmax.default" not in ops
    exact = function(q, k, v, mask).numpy()
    close = 2e-6 if dtype is rl.float32 else 1e-14
    for result in results:
        assert result.shape == exact.shape
        np.testing.assert_allclose(result.numpy(), exact, rtol=0, atol=close)


def scores_are_kept(q, k, v, mask):
    weights = rl.softmax(q @ k.mT, -1)
    return weights @ v, weights


def scores_are_used(q, k, v, mask):
    scores = q @ k.mT
    return rl.softmax(scores, -1) @ v + scores.sum()


def softmax_of_columns(q, k, v, mask):
    return rl.softmax(q @ k.mT, -2) @ v


def keys_are_changed(q, k, v, mask):
    k = k + 0
    scores = q @ k.mT
    k.zero_()
    return rl.softmax(scores, -1) @ v + k


def a_part_of_the_scores(q, k, v, mask):
    return rl.softmax((q @ k.mT)[..., :32], -1) @ v[..., :32, :]


KEPT = [scores_are_kept, scores_are_used, softmax_of_columns, keys_are_changed]
KEPT.append(a_part_of_the_scores)


@pytest.mark.parametrize("function", KEPT)
def test_what_is_seen_stays(function):
    q, k, v = (drawn(2, 3, LENGTH, 16, seed=i) for i in range(3))
    results, ops = operators(rl.compile(function), q, k, v, None)
    assert "aten._attention_in_steps.default" not in ops
    exact = function(q, k, v, None)
    exact = exact if isinstance(exact, tuple) else (exact,)
    for result in results:
        result = result if isinstance(result, tuple) else (result,)
        for ours, theirs in zip(result, exact, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-5)


def test_weights_that_gradients_need_stay():
    q, k, v = (drawn(2, 3, LENGTH, 16, seed=i).requires_grad_() for i in range(3))
    compiled = rl.compile(divided)
    for _ in range(3):
        ours = rl.autograd.grad(compiled(q, k, v, None).sum(), (q, k, v))
    exact = rl.autograd.grad(divided(q, k, v, None).sum(), (q, k, v))
    for mine, theirs in zip(ours, exact, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


def test_who_sees_nothing_gets_nan_as_from_a_softmax():
    q, k, v = (drawn(1, 2, LENGTH, 16, seed=i) for i in range(3))
    mask = rl.ones(LENGTH, LENGTH)
    mask[5] = 0
    results, _ = operators(rl.compile(filled), q, k, v, mask)
    for result in results:
        assert result[:, :, 5].isnan().all()
        assert result.isnan().sum().item() == 2 * 16


def test_numbers_may_change():
    def function(q, k, v, mask, factor, fill):
        return ((q @ k.mT) * factor).masked_fill(mask, fill).softmax(-1) @ v

    q, k, v = (drawn(1, 2, LENGTH, 16, seed=i) for i in range(3))
    mask = drawn(LENGTH, LENGTH) > 1
    compiled = rl.compile(function)
    with rl.no_grad():
        for fill in (-INFINITY, -INFINITY, 0.5, -1.0, -INFINITY):
            for factor in (0.1, 0.7):
                ours = compiled(q, k, v, mask, factor, fill)
                exact = function(q, k, v, mask, factor, fill)
                np.testing.assert_allclose(ours.numpy(), exact.numpy(), atol=2e-6)


def attended(q, k, v, share):
    y = rl.nn.functional.scaled_dot_product_attention(q, k, v, None, share, True)
    return y * 2


def test_attention_that_drops_nothing_skips_its_python(monkeypatch):
    q, k, v = (drawn(2, 3, LENGTH, 16, seed=seed) for seed in range(3))
    expected = attended(q, k, v, 0.0)
    rl._dynamo.reset()
    compiled = rl.compile(attended)
    counts = []
    check = attention.check_attention
    monkeypatch.setattr(
        attention, "check_attention", lambda *a: counts.append(1) or check(*a)
    )
    with rl.no_grad():
        for share in (0.5, 0.0, 0.0):
            compiled(q, k, v, share)
        assert counts
        del counts[:]
        assert all(rl.equal(compiled(q, k, v, 0.0), expected) for _ in range(3))
    assert not counts


@pytest.mark.parametrize("shares", [(0.0, 0.5), (0.5, 0.0), (0.5, 0.25)])
def test_attention_that_drops_weights_draws_anew_in_each_call(shares):
    q, k, v = (drawn(2, 3, LENGTH, 16, seed=seed) for seed in range(3))
    rl._dynamo.reset()
    compiled = rl.compile(attended)
    for share in (*shares, *shares):
        rl.manual_seed(5)
        with rl.no_grad():
            found = [compiled(q, k, v, share) for _ in range(4)]
        rl.manual_seed(5)
        with rl.no_grad():
            expected = [attended(q, k, v, share) for _ in range(4)]
        for one, other in zip(found, expected, strict=True):
            assert rl.equal(one, other), share
        assert share == 0 or not rl.equal(found[0], found[1])


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize(
    "name", ["dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"]
)
def test_compositions_that_draw_draw_anew_in_each_call(name, train):
    x = drawn(4, 6, 5)
    rl._dynamo.reset()

    def function(x):
        return getattr(rl, name)(x + 1, 0.5, train) * 2

    compiled = rl.compile(function)
    with rl.no_grad():
        rl.manual_seed(3)
        found = [compiled(x) for _ in range(5)]
        rl.manual_seed(3)
        expected = [function(x) for _ in range(5)]
    assert all(map(rl.equal, found, expected))
