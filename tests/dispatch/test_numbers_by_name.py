"""Arguments that are numbers take tensors of no dimensions by name, too."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

CALLS = {
    "searchsorted": lambda t, x: t.searchsorted(t.arange(4.0), self=x),
    "bucketize": lambda t, x: t.bucketize(self=x, boundaries=t.arange(4.0)),
    "pow": lambda t, x: t.pow(self=x, exponent=t.ones(2)),
    "remainder": lambda t, x: t.remainder(self=x, other=t.ones(2)),
    "xlog1py": lambda t, x: t.special.xlog1py(self=x, other=t.ones(2)),
    "zeta": lambda t, x: t.special.zeta(self=x, other=t.ones(2) * 2),
    "alpha": lambda t, x: t.add(t.ones(2), 1, alpha=x),
}


@pytest.mark.parametrize("number", [2.5, 2])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_tensor_of_no_dimensions_is_taken_for_a_number(call, number):
    ours, theirs = call(rl, rl.tensor(number)), call(torch, torch.tensor(number))
    assert str(ours.dtype)[10:] == str(theirs.dtype)[6:]
    assert ours.tolist() == pytest.approx(theirs.tolist(), rel=1e-6)


@pytest.mark.parametrize(
    "wrong", [lambda t: t.ones(1), lambda t: t.ones(()).requires_grad_()]
)
def test_a_tensor_with_dimensions_or_gradients_is_none(wrong):
    for t in (rl, torch):
        with pytest.raises(TypeError, match="invalid combination of arguments"):
            t.searchsorted(t.arange(4.0), self=wrong(t))


def test_of_a_function_a_tensor_is_called_input_and_not_self():
    for t in (rl, torch):
        with pytest.raises(TypeError):
            t.exp(self=t.ones(2))
