"""Programs for sizes that were not met are made where they save what they cost."""

import pytest

import rushlight as rl
from rushlight import _dynamo
from rushlight._inductor import config
from rushlight.graph.compiled_function import counters


def soft(x):
    return ((x * 2 + 1).relu() - 3).abs() * x


def opened():
    return counters["stats"]["opened_programs"]


def with_three_sizes(**how):
    """A compiled function that has planned three sizes, so that others are open."""
    compiled = rl.compile(soft, **how)
    with config.patch(other_size_calls=0):
        for size in (5, 6, 8):
            for _ in range(2):
                compiled(rl.randn(size, 4))
    return compiled


def test_other_sizes_of_a_small_program_are_planned_once_they_have_come_often(
    monkeypatch,
):
    monkeypatch.setattr(config, "other_size_calls", 5)
    compiled = rl.compile(soft)
    for number in range(8):
        for size in (5, 6):
            x = rl.randn(size, 4, requires_grad=True)
            found, wanted = compiled(x), soft(x)
            assert rl.equal(found, wanted)
            found, wanted = (rl.autograd.grad(y.sum(), x)[0] for y in (found, wanted))
            assert rl.allclose(found, wanted, rtol=1e-5, atol=1e-5)
        assert len(compiled._runner.graphs) == (number > 4) + (number > 5)


def test_the_first_size_has_a_program_at_once_unless_others_came_before_it(monkeypatch):
    monkeypatch.setattr(config, "other_size_calls", 3)
    alone, among = rl.compile(soft), rl.compile(soft)
    for _ in range(2):
        alone(rl.randn(5, 4))
    alone(rl.randn(6, 4))
    assert rl.equal(alone(rl.ones(5, 4)), soft(rl.ones(5, 4)))
    assert len(alone._runner.graphs) == 1
    for size in (5, 6, 5, 5):
        among(rl.randn(size, 4))
    assert not among._runner.graphs
    for _ in range(2):
        assert rl.equal(among(rl.ones(5, 4)), soft(rl.ones(5, 4)))
    assert len(among._runner.graphs) == 1


@pytest.mark.parametrize(
    "how", ["large", "open", "closed", "whole", "backend", "number"]
)
def test_other_sizes_are_planned_at_once_where_that_pays_or_is_asked_for(
    how, monkeypatch
):
    monkeypatch.setattr(config, "other_size_calls", 64)
    if how == "large":
        monkeypatch.setattr(config, "open_size_bytes", 100)
    named = {"open": {"dynamic": True}, "closed": {"dynamic": False}}
    named |= {
        "whole": {"fullgraph": True},
        "backend": {"backend": lambda g, _: g.forward},
    }
    compiled = rl.compile(lambda x, n=2: soft(x) * n, **named.get(how, {}))
    compiled(rl.randn(5, 4))
    # a number that is no size is no other size; neither is another operator
    x, more = (rl.randn(5, 4), (2.5,)) if how == "number" else (rl.randn(6, 4), ())
    for _ in range(2):
        compiled(x, *more)
    (root,) = compiled._runner.roots.values()
    assert len(root.children) == (1 if how == "number" else 2)


def test_the_first_call_of_another_size_is_told_as_a_recompile_once(
    capsys, monkeypatch
):
    monkeypatch.setattr(config, "other_size_calls", 2)
    compiled, before = rl.compile(soft), counters["frames"]["recompiled"]
    compiled(rl.randn(3, 4))
    rl._logging.set_logs(recompiles=True)
    try:
        for _ in range(5):
            compiled(rl.randn(3, 5))
    finally:
        rl._logging.set_logs()
    told = capsys.readouterr().err
    assert told.count("size of self at dimension 1 is 5, was 4") == 1
    assert counters["frames"]["recompiled"] == before + 1


def test_sizes_that_wait_respect_the_limit_of_branches_afterwards(monkeypatch):
    monkeypatch.setattr(config, "other_size_calls", 3)
    compiled = rl.compile(soft)
    with _dynamo.config.patch(recompile_limit=2, accumulated_recompile_limit=3):
        for _ in range(40):
            for size in (2, 3, 4, 5, 6):
                x = rl.randn(size, 4)
                assert rl.equal(compiled(x), soft(x))
        (root,) = compiled._runner.roots.values()
        assert len(root.children) == 3


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
