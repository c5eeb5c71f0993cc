"""Programs for sizes that were not met are made where they save what they cost."""

import pytest

import rushlight as rl
from rushlight._inductor import config
from rushlight.graph.compiled_function import counters


def soft(x):
    return ((x * 2 + 1).relu() - 3).abs() * x


def opened():
    return counters["stats"]["opened_programs"]


def with_three_sizes(**how):
    """A compiled function that has planned three sizes, so that others are open."""
    compiled = rl.compile(soft, **how)
    for size in (5, 6, 8):
        for _ in range(2):
            compiled(rl.randn(size, 4))
    return compiled


def test_a_small_program_waits_for_a_size_to_come_often(monkeypatch):
    monkeypatch.setattr(config, "open_size_calls", 5)
    compiled, before = with_three_sizes(), opened()
    for number in range(12):
        for size in (7, 40):  # within four times the largest, and beyond
            x = rl.randn(size, 4)
            assert rl.equal(compiled(x), soft(x))
        assert opened() - before == (number > 4)


@pytest.mark.parametrize("how", ["large", "dynamic"])
def test_a_large_program_and_one_that_is_to_be_open_are_made_at_once(how, monkeypatch):
    monkeypatch.setattr(config, "open_size_bytes", 100 if how == "large" else 1 << 22)
    compiled = with_three_sizes(dynamic=True if how == "dynamic" else None)
    before = opened()
    x = rl.randn(7, 4)
    assert rl.equal(compiled(x), soft(x))
    assert opened() - before == 1


def test_calls_that_wait_give_gradients_and_leave_nothing_followed(monkeypatch):
    compiled, before = with_three_sizes(), opened()
    inner = rl.compile(lambda x: x.exp() + 1)
    outer = rl.compile(lambda x: inner(soft(x)) * 2)
    for size in (5, 6, 8, 7, 9, 7):
        for function, plain in (
            (compiled, soft),
            (outer, lambda x: (soft(x).exp() + 1) * 2),
        ):
            x = rl.randn(size, 4, requires_grad=True)
            found = rl.autograd.grad(function(x).sum(), x)[0]
            wanted = rl.autograd.grad(plain(x).sum(), x)[0]
            assert rl.allclose(found, wanted, rtol=1e-5, atol=1e-5), size
    assert rl.ones(2).add(1).tolist() == [2, 2] and opened() == before
