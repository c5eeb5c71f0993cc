"""What becomes of infinities, NaN and zeros in formulas, forwards and backwards."""

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

INF, NAN = float("inf"), float("nan")


def zeta_orders(lib):
    return lib.tensor([1.0, 1.5, 2.0, 3.0, 50.0, 51.0, INF, NAN, 0.5]).unsqueeze(1)


def zeta_starts(lib):
    return lib.tensor(
        [INF, 1.0, 0.5, 1e9, 1e18, 9.5, 100.0, -0.5, -1.0, -73.6, -INF, 0.0, NAN]
    )


VALUES = {
    "zeta": lambda lib: lib.special.zeta(zeta_orders(lib), zeta_starts(lib)),
    "zeta of an infinite number": lambda lib: lib.special.zeta(
        INF, lib.tensor([4, 3, -2])
    ),
    "polygamma": lambda lib: lib.polygamma(2, lib.tensor([INF, 1.0, -0.5, -40.3, NAN])),
    "i0 of large numbers": lambda lib: lib.special.i0(
        lib.tensor([1e30, -1e300, 1e3, INF, 700.0], dtype=lib.float64)
    ),
    "i1 of large numbers": lambda lib: lib.special.modified_bessel_i1(
        lib.tensor([1e30, -1e300, -1e3, 700.0], dtype=lib.float64)
    ),
    "powers of two of another type": lambda lib: lib.ldexp(
        lib.ones(2, dtype=lib.float64), lib.tensor(2.3, dtype=lib.bfloat16)
    ),
    "cumulative_trapezoid of bytes": lambda lib: lib.cumulative_trapezoid(
        lib.tensor([6, 4, 1, 3], dtype=lib.uint8),
        lib.tensor([6, 4, 1, 3], dtype=lib.uint8),
    ),
    "mean of complex": lambda lib: lib.tensor([complex(INF, 0), 1, 2j]).mean(),
    "renorm of half precision": lambda lib: lib.renorm(
        lib.full((2, 3), 6e4, dtype=lib.float16), 1, 0, 0.5
    ),
    "attention to keys infinitely far away": lambda lib: (
        lib.nn.functional.scaled_dot_product_attention(
            lib.tensor([[[-INF, 1.0], [1.0, 2.0]]]),
            lib.tensor([[[0.5, 1.0], [2.0, 0.25], [1.0, 1.0]]]),
            lib.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]]),
        )
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_infinite_and_missing_numbers_give_what_the_oracle_gives(name):
    found, expected = VALUES[name](rushlight), VALUES[name](torch)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-6)


def row(lib, *numbers, dtype="complex64"):
    return lib.tensor(numbers, dtype=getattr(lib, dtype)).requires_grad_()


GRADIENTS = {
    "cumprod around a zero": (
        lambda lib, x: x.cumprod(0),
        (1e30, 2 - 1j, 0, -INF, 3, 0, 2),
    ),
    "cumprod with one zero": (lambda lib, x: x.cumprod(0), (2 - 1j, 0, 3, 1j)),
    "cumprod from a zero on": (lambda lib, x: x.cumprod(0), (0, 2, 3)),
    "renorm of a slice of NaN and one of infinity": (
        lambda lib, x: x.reshape(3, 2).renorm(2, 0, 0.5),
        (NAN, 1, INF, 2, 3j, 4),
    ),
    "renorm by the largest of infinity": (
        lambda lib, x: x.reshape(3, 2).renorm(INF, 1, 0.5),
        (1, 2, INF, 4, 5, 6),
    ),
    "norm by the largest of NaN": (
        lambda lib, x: lib.linalg.vector_norm(x, INF),
        (1, NAN, 3),
    ),
    "cumprod of one": (lambda lib, x: x.cumprod(0), (2j,)),
    "renorm": (lambda lib, x: x.reshape(3, 2).renorm(3, 1, 1.5), (1j, 1, 2, 2, 3j, 4)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_at_zeros_and_infinities_are_the_oracles(name):
    function, numbers = GRADIENTS[name]

    def gradient(lib):
        x = row(lib, *numbers)
        result = function(lib, x)
        weights = lib.arange(1.0, 1 + result.numel()).reshape(result.shape)
        return lib.autograd.grad(result, x, weights.to(result.dtype))[0].numpy()

    found, expected = gradient(rushlight), gradient(torch)
    bad = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), bad)
    np.testing.assert_allclose(found[~bad], expected[~bad], rtol=1e-5)


def test_a_power_of_half_precision_has_a_gradient_in_the_exponents_type():
    def gradient(lib):
        base = lib.tensor([2.46, 1.82], dtype=lib.float16)
        exponent = row(lib, 7.67, 6.86, dtype="float64")
        base.pow_(exponent).sum().backward()
        return exponent.grad.numpy()

    np.testing.assert_allclose(gradient(rushlight), gradient(torch), rtol=1e-9)


def test_attention_of_half_precision_keeps_scores_in_single():
    draw = np.random.default_rng(0)
    numbers = [draw.normal(size=(2, 4, 8)) * 4 for _ in range(3)]

    def attend(lib, dtype):
        q, k, v = (lib.tensor(n, dtype=dtype) for n in numbers)
        return lib.nn.functional.scaled_dot_product_attention(q, k, v).double().numpy()

    exact = attend(rushlight, rushlight.float64)
    error = np.abs(attend(rushlight, rushlight.bfloat16) - exact).max()
    theirs = np.abs(attend(torch, torch.bfloat16) - exact).max()
    assert error <= 1.5 * theirs


@pytest.mark.parametrize("lib", [rushlight, torch])
def test_angles_of_complex_numbers_lie_in_rows(lib):
    columns = lib.ones(3, 2, dtype=lib.complex64).t()
    assert lib.angle(columns).stride() == (3, 1)
    assert lib.angle(columns.real.contiguous().t()).shape == (3, 2)
