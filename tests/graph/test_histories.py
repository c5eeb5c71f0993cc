"""Compiled functions that look at, change and differentiate tensors do as uncompiled ones."""

from __future__ import annotations

import random

import pytest

import rushlight as rl
from rushlight.operators.random.sampling import bernoulli_float
from tests.laws.histories import DRAWN, VIEWS, alike, numbers, seen, starts

MARKS = {"hook", "retain_grad", "requires_grad_"}  # they outlive a call


def program(seed):
    """A function that takes some steps, the same in each call."""

    def function(*there):
        choose = random.Random(seed + 10**6)
        there = list(there)
        for _ in range(choose.randint(3, 12)):
            count, (name, step) = choose.choice(DRAWN)
            x, y = choose.choice(there), choose.choice(there)
            number, recorded = choose.randrange(6), choose.random() > 0.15
            if name in MARKS:
                continue
            try:
                with rl.set_grad_enabled(recorded or name in VIEWS):
                    found = step(x, y if count == 2 else number)
            except (RuntimeError, IndexError, TypeError, ValueError) as error:
                found = rl.tensor(float(len(type(error).__name__)), dtype=rl.float64)
            if found is not None and found is not x:
                there.append(found)
        return tuple(there[3:])

    return function


def outcome(function, seed, scale):
    """All that is seen of results and operands, versions apart, and the gradients."""
    given = starts(rl, random.Random(seed), seed, scale)
    results = function(*given)
    told = [seen(t) for t in (*results, *given)]
    told = [(*of[:6], *of[7:]) for of in told]
    try:
        total = sum((t * 0.5).abs().square().sum() for t in results if t.requires_grad)
        if isinstance(total, rl.Tensor):
            total.backward()
    except RuntimeError:
        return told, "refused"
    return told, [numbers(t.grad) for t in given if t.is_leaf]


@pytest.mark.filterwarnings("ignore:Tensor.mT:UserWarning")
@pytest.mark.parametrize("block", range(4))
def test_compiled_histories_end_as_uncompiled_ones(block):
    for seed in range(25 * block, 25 * block + 25):
        compiled = rl.compile(program(seed))
        for scale in (1, 1.5, 1, 0.3):
            wanted = outcome(program(seed), seed, scale)
            found = outcome(compiled, seed, scale)
            assert alike(wanted, found), (seed, scale)


def test_a_view_that_was_changed_is_refused_where_it_is_used():
    def function(x):
        base = x * 1
        first = base.chunk(2)[0]
        base.mul_(2)
        return first

    x = rl.ones(4, requires_grad=True)
    for _ in range(3):
        view = rl.compile(function)(x)
        with pytest.raises(RuntimeError, match="output of a function that returns"):
            view.sum()


def test_what_waits_has_memory_where_its_address_is_asked_for():
    def function(x):
        noise = rl.empty_like(x)  # waits for the program, which an address can't
        return bernoulli_float(noise, 0.5, None) * 1

    x = rl.ones(300, 300)
    compiled = rl.compile(function)
    with rl.no_grad():
        for _ in range(3):
            rl.manual_seed(1)
            wanted = function(x)
            rl.manual_seed(1)
            assert rl.equal(compiled(x), wanted)
