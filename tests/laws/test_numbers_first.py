"""A number in front of a tensor counts in full, and promotes as a number does."""

import operator

import pytest

import rushlight as rl

CALLS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "multiply": operator.mul,
    "true_divide": operator.truediv,
}
VALUES = [3.0, 0.7, 65504.0]


@pytest.mark.parametrize("shape", [(3,), ()], ids=str)
@pytest.mark.parametrize("number", [0.1, 1e40, 0.1 + 1e-9j], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_number_in_front_is_not_rounded_to_the_default_type(name, number, shape):
    values = VALUES if shape else VALUES[:1]
    x = rl.tensor(values if shape else values[0], dtype=rl.float64).requires_grad_()
    found = getattr(rl, name)(number, x)
    expected = [CALLS[name](number, each) for each in values]
    listed = found.tolist() if shape else [found.item()]
    for each, exact in zip(listed, expected, strict=True):
        assert abs(each - exact) <= 4e-16 * abs(exact)
    found.abs().sum().backward()
    assert x.grad.dtype is rl.float64


@pytest.mark.parametrize(
    "dtype, number, expected",
    [
        (rl.int64, 0.1, rl.float32),
        (rl.float16, 0.1, rl.float16),
        (rl.float32, 0.1j, rl.complex64),
        (rl.float64, 0.1j, rl.complex128),
        (rl.bool, 2, rl.int64),
    ],
)
@pytest.mark.parametrize("name", ["add", "mul"])
def test_a_number_in_front_promotes_by_its_kind_alone(name, dtype, number, expected):
    for shape in ((2,), ()):
        found = getattr(rl, name)(number, rl.ones(shape, dtype=dtype))
        assert found.dtype is expected
