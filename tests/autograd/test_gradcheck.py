"""Comparing gradients with finite differences."""

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck


def test_a_function_that_differentiates_is_checked_as_it_runs():
    captured = rl.rand(3, dtype=rl.float64, requires_grad=True)
    asked = []

    def slopes(x):
        asked.append(rl.is_grad_enabled())
        value = (captured * x).exp().sum()
        return rl.autograd.grad(value, captured, create_graph=True)[0]

    x = rl.rand(3, dtype=rl.float64, requires_grad=True)
    assert gradcheck(slopes, (x,))
    assert gradgradcheck(slopes, (x,))
    assert all(asked)
