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


class GivesNothing(rl.autograd.Function):
    """A square whose gradient is no number."""

    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * float("nan")


def test_a_gradient_that_is_no_number_is_wrong_where_the_slope_is_one():
    x = rl.ones(2, dtype=rl.float64, requires_grad=True)
    assert not gradcheck(GivesNothing.apply, (x,), raise_exception=False)
