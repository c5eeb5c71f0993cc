"""In-place operators leave nothing to the collector, and differentiate through views."""

import gc

import pytest

import rushlight

# operators whose gradient reads their result, by how they are called on ``y``
CALLS = {
    "relu": lambda t, y: t.nn.functional.relu(y, inplace=True),
    "elu": lambda t, y: t.nn.functional.elu(y, inplace=True),
    "selu": lambda t, y: t.nn.functional.selu(y, inplace=True),
    "celu": lambda t, y: t.nn.functional.celu(y, inplace=True),
    "leaky_relu": lambda t, y: t.nn.functional.leaky_relu(y, 0.2, inplace=True),
    "silu": lambda t, y: t.nn.functional.silu(y, inplace=True),
    "sigmoid": lambda t, y: y.sigmoid_(),
    "tanh": lambda t, y: y.tanh_(),
    "exp": lambda t, y: y.exp_(),
    "expm1": lambda t, y: y.expm1_(),
    "sqrt": lambda t, y: y.sqrt_(),
    "rsqrt": lambda t, y: y.rsqrt_(),
    "reciprocal": lambda t, y: y.reciprocal_(),
    "tan": lambda t, y: y.tan_(),
    "erfinv": lambda t, y: y.mul_(0.3).erfinv_(),
    "cumprod": lambda t, y: y.cumprod_(0),
    "mul": lambda t, y: y.mul_(y.detach() * 2),
    "pow": lambda t, y: y.pow_(2.5),
    "clamp": lambda t, y: y.clamp_(0.3, 0.6),
    "lerp": lambda t, y: y.lerp_(y.detach() * 2, 0.3),
    "renorm": lambda t, y: y.renorm_(2, 0, 0.5),
}
VIEWS = {
    "whole": lambda t, b: b,
    "rows": lambda t, b: b[1:],
    "transposed": lambda t, b: b.t()[1:],
    "pairs": lambda t, b: b.view(3, 2, 2)[:, 0],
}


def base_of(t):
    x = (t.arange(12.0).reshape(3, 4) / 17 + 0.2).requires_grad_()
    return x, x * 1.3


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", CALLS)
def test_a_write_without_a_backward_pass_leaves_no_cycle(name, view):
    def once():
        CALLS[name](rushlight, VIEWS[view](rushlight, base_of(rushlight)[1]))

    once()
    gc.disable()
    gc.freeze()  # what other tests left is not looked through
    try:
        for _ in range(3):
            once()
        assert gc.collect() == 0
    finally:
        gc.unfreeze()
        gc.enable()


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "dropped"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", CALLS)
def test_second_derivatives_go_through_results_that_were_written(name, view, kept):
    torch = pytest.importorskip("torch")
    found = []
    for t in (rushlight, torch):
        x, base = base_of(t)
        y = VIEWS[view](t, base)
        CALLS[name](t, y)
        if not kept and t is rushlight:  # PyTorch loses the view's place in the graph
            del y
        loss = (base * base * t.arange(12.0).reshape(3, 4)).sum()
        (first,) = t.autograd.grad(loss, x, create_graph=True)
        (second,) = t.autograd.grad(first.square().sum(), x)
        found.append([first.detach().tolist(), second.tolist()])
    torch.testing.assert_close(
        torch.tensor(found[0]), torch.tensor(found[1]), rtol=2e-4, atol=2e-4
    )
