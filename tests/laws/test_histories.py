"""Tensors that were seen, changed and differentiated in any order are as on PyTorch.

A history is drawn: views of views, changes in place of any of them with gradients
recorded or not, hooks, copies from one to another, then first and second gradients of
all that is left. After each step every tensor that is there has PyTorch's sizes, strides,
place, version, numbers, and marks of autograd.
"""

from __future__ import annotations

import random
import warnings

import pytest

import rushlight as rl
from tests.laws.histories import DRAWN, VIEWS, alike, numbers, seen, starts

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def history(module, seed):
    """Each step's name, its exception, and what is there afterwards."""
    choose = random.Random(seed)
    there = starts(module, choose, seed)
    for _ in range(choose.randint(3, 14)):
        operands, (name, step) = choose.choice(DRAWN)
        x, y = choose.choice(there), choose.choice(there)
        count, recorded = choose.randrange(6), choose.random() > 0.15
        # A leaf's view that is not recorded wants gradients that go nowhere: PyTorch
        # runs the formulas all the same, and refuses what was changed before them.
        recorded = recorded or (name in VIEWS and x.requires_grad)
        end = "done"
        try:
            with module.set_grad_enabled(recorded):
                found = step(x, y if operands == 2 else count)
            if found is not None and found is not x:
                there.append(found)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            end = type(error).__name__
        yield name, end, [seen(t) for t in there]
    total = sum(
        (t * choose.random()).abs().square().sum() for t in there if t.requires_grad
    )
    if not isinstance(total, module.Tensor):
        return
    wanted = [
        t for t in there if t.requires_grad and (t.is_leaf or choose.random() < 0.3)
    ]
    twice = choose.random() < 0.3
    if wanted:
        grads = module.autograd.grad(
            total, wanted, allow_unused=True, create_graph=twice, retain_graph=True
        )
        yield "grad", "done", [numbers(g) for g in grads]
        again = [g for g in grads if g is not None and g.requires_grad]
        if again:
            second = sum(g.abs().square().sum() for g in again)
            grads = module.autograd.grad(
                second, wanted, allow_unused=True, retain_graph=True
            )
            yield "second", "done", [numbers(g) for g in grads]
    total.backward()
    yield "backward", "done", [numbers(t.grad) for t in wanted if t.is_leaf]


def steps(module, seed):
    """A history as a list, which an exception of its gradients ends."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same ones, each where it is due
        try:
            for step in history(module, seed):
                found.append(step)
        except RuntimeError as error:
            found.append(("gradients", type(error).__name__, None))
    return found


def first_difference(seed):
    """None, or the step after which the two libraries are told apart."""
    wanted, found = steps(torch, seed), steps(rl, seed)
    for number, (left, right) in enumerate(zip(wanted, found)):
        if not alike(left, right):
            names = [name for name, _, _ in wanted[: number + 1]]
            parts = zip(left[2] or [], right[2] or [])
            told = [pair for pair in parts if not alike(*pair)]
            return names, left[1], right[1], told[:1]
    return None if len(wanted) == len(found) else "lengths"


@pytest.mark.parametrize("block", range(10))
def test_histories_are_pytorchs(block):
    for seed in range(50 * block, 50 * block + 50):
        difference = first_difference(seed)
        assert difference is None, (seed, difference)
