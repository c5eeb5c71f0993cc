"""An output that a Function saved is part of the graph when it is read again."""

import pytest

import rushlight as rl


class Doubled(rl.autograd.Function):
    """Twice its argument, by several ways to one output."""

    seen: list = []

    @staticmethod
    def forward(ctx, a, made):
        y = made(a * 2)
        ctx.save_for_backward(y, a)
        return y

    @staticmethod
    def backward(ctx, grad):
        y, a = ctx.saved_tensors
        Doubled.seen.append((y.requires_grad, type(y.grad_fn).__name__, y.is_leaf))
        return grad.sum().expand(a.shape) * 2, None


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    "made",
    [lambda y: y, lambda y: y.reshape(-1), lambda y: y[:2], lambda y: y.detach()],
    ids=["as it is", "reshaped", "cut", "detached"],
)
def test_a_saved_output_requires_gradients_whether_or_not_a_graph_is_made(
    made, create_graph
):
    a = rl.randn(3, requires_grad=True)
    Doubled.seen.clear()
    y = Doubled.apply(a, made)
    rl.autograd.grad(y.sum(), a, create_graph=create_graph)
    assert Doubled.seen == [(True, "DoubledBackward", False)]


def test_gradients_of_conjugated_inputs_are_checked():
    x = rl.randn(2, 2, dtype=rl.complex128, requires_grad=True)
    assert rl.autograd.gradgradcheck(lambda z: z @ z.mH, (x,))
