"""Special functions at hard points, beside values with forty digits."""

import math

import pytest

import rushlight as rl
from rushlight.autograd import gradcheck

mpmath = pytest.importorskip("mpmath", reason="values with many digits need mpmath")
mpmath.mp.dps = 40
S = rl.special
inf, nan = math.inf, math.nan

# function, its definition, arguments, and how many units in the last place are fine
POINTS = [
    ("bessel_j0", lambda x: mpmath.besselj(0, x),
     [1e-8, 0.5, 2.404825557695773, 5.52, 7.9999, 8.0001, 30.0, 1e4], 40),
    ("bessel_j1", lambda x: mpmath.besselj(1, x),
     [1e-8, 0.5, 3.8317059702075125, 7.0155, 8.0001, 30.0, 1e4], 40),
    ("bessel_y0", lambda x: mpmath.bessely(0, x),
     [1e-8, 0.5, 2.0, 6.0, 8.0001, 30.0, 1e4], 40),
    ("bessel_y1", lambda x: mpmath.bessely(1, x),
     [1e-8, 0.5, 1.0, 6.0, 8.0001, 30.0, 1e4], 40),
    ("i0", lambda x: mpmath.besseli(0, x),
     [1e-8, 1.0, 7.9999, 8.0001, 100.0, 700.0], 5),
    ("i0e", lambda x: mpmath.besseli(0, x) * mpmath.exp(-x),
     [1e-8, 1.0, 8.0001, 100.0, 1e6], 5),
    ("i1", lambda x: mpmath.besseli(1, x),
     [1e-8, 1.0, 7.9999, 8.0001, 100.0, 700.0], 9),
    ("i1e", lambda x: mpmath.besseli(1, x) * mpmath.exp(-x),
     [1e-8, 1.0, 8.0001, 100.0, 1e6], 5),
    ("modified_bessel_i0", lambda x: mpmath.besseli(0, x),
     [0.5, 9.0], 5),
    ("modified_bessel_i1", lambda x: mpmath.besseli(1, x),
     [0.5, 9.0], 9),
    ("modified_bessel_k0", lambda x: mpmath.besselk(0, x),
     [1e-8, 0.5, 1.9999, 2.0001, 50.0, 600.0], 6),
    ("modified_bessel_k1", lambda x: mpmath.besselk(1, x),
     [1e-8, 0.5, 1.9999, 2.0001, 50.0, 600.0], 6),
    ("scaled_modified_bessel_k0", lambda x: mpmath.besselk(0, x) * mpmath.exp(x),
     [1e-8, 1.0, 2.0001, 5e3], 6),
    ("scaled_modified_bessel_k1", lambda x: mpmath.besselk(1, x) * mpmath.exp(x),
     [1e-8, 1.0, 2.0001, 5e3], 6),
    ("spherical_bessel_j0", lambda x: mpmath.sin(x) / x,
     [1e-8, 0.3, 0.4999, 0.5001, 3.0, 1e3], 4),
    ("airy_ai", mpmath.airyai,
     [-30.0, -5.0001, -4.9999, -4.0879, -2.3381, 0.0, 1.9999, 2.0001, 30.0, 100.0], 200),
    ("ndtri", lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1),
     [1e-12, 0.01, 0.1249, 0.1251, 0.4, 0.6, 0.99], 6),
    ("erfcx", lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
     [-26.0, -5.0, -0.1, 0.0, 0.1, 5.0, 100.0], 6),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "exact", "points", "ulps"), POINTS, ids=lambda v: str(v)[:24]
)
def test_values_have_nearly_all_their_digits(name, exact, points, ulps):
    for dtype, unit, allowed in (
        (rl.float64, 2.0**-52, ulps),
        (rl.float32, 2.0**-23, 1),
    ):
        x = rl.tensor(points, dtype=dtype)
        for point, value in zip(x.tolist(), getattr(S, name)(x).tolist(), strict=True):
            expected = exact(mpmath.mpf(point))
            if 1e-37 < abs(expected) < 1e38:
                assert abs(value - expected) <= allowed * unit * abs(expected), point


@pytest.mark.parametrize(
    "name", [name for name, *_ in POINTS if name.endswith(("_y0", "_y1", "_k0", "_k1"))]
)
def test_tiny_arguments_of_the_second_kind_have_their_own_values(name):
    exact = next(definition for kind, definition, *_ in POINTS if kind == name)
    points = [5e-324, 1e-315, 2e-308, 3e-300]
    x = rl.tensor(points, dtype=rl.float64)
    for point, value in zip(points, getattr(S, name)(x).tolist(), strict=True):
        expected = float(exact(mpmath.mpf(point)))  # infinite where that is too large
        assert value == pytest.approx(expected, rel=1e-15), point


GAMMA = [
    (1e-10, 0.01), (0.3, 1e-5), (0.3, 1.05), (0.46, 0.175), (0.5, 30.0), (5.0, 0.1),
    (5.0, 5.0), (19.9, 21.0), (25.0, 20.0), (25.0, 31.0), (100.0, 1.0), (100.0, 400.0),
    (300.0, 299.0), (1e5, 1.001e5),
]  # fmt: skip


@pytest.mark.parametrize(("a", "x"), GAMMA)
def test_incomplete_gamma_functions_have_their_digits(a, x):
    order, at = rl.tensor(a, dtype=rl.float64), rl.tensor(x, dtype=rl.float64)
    lower = mpmath.gammainc(a, 0, x, regularized=True)
    upper = mpmath.gammainc(a, x, mpmath.inf, regularized=True)
    assert rl.igamma(order, at).item() == pytest.approx(float(lower), rel=2e-13)
    assert rl.igammac(order, at).item() == pytest.approx(float(upper), rel=2e-13)


def test_ends_of_the_incomplete_gamma_functions():
    a = rl.tensor([0, 0, 1, 1, -1, 1, inf, inf, 1, nan], dtype=rl.float64)
    x = rl.tensor([0, 1, 0, -1, 1, inf, 1, inf, nan, 1], dtype=rl.float64)
    lower = rl.igamma(a, x).tolist()
    assert str(lower) == "[nan, 1.0, 0.0, nan, nan, 1.0, 0.0, nan, nan, nan]"
    upper = rl.igammac(a, x).tolist()
    assert str(upper) == "[nan, 0.0, 1.0, nan, nan, 0.0, 1.0, nan, nan, nan]"


def laguerre(n, x):
    terms = (
        mpmath.binomial(n, k) * (-x) ** k / mpmath.factorial(k) for k in range(n + 1)
    )
    return mpmath.fsum(terms)


POLYNOMIALS = {
    "chebyshev_polynomial_t": mpmath.chebyt,
    "chebyshev_polynomial_u": mpmath.chebyu,
    "hermite_polynomial_h": mpmath.hermite,
    "laguerre_polynomial_l": laguerre,
    "legendre_polynomial_p": mpmath.legendre,
    "shifted_chebyshev_polynomial_t": lambda n, x: mpmath.chebyt(n, 2 * x - 1),
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_are_those_of_their_definition(name):
    points = [-1.5, -1.0, -0.3, 0.0, 0.25, 0.7, 1.0, 1.2]
    for n in (0, 1, 2, 5, 6, 7, 12, 31):
        x = rl.tensor(points, dtype=rl.float64)
        for point, value in zip(points, getattr(S, name)(x, n).tolist(), strict=True):
            expected = float(mpmath.re(POLYNOMIALS[name](n, mpmath.mpf(point))))
            assert value == pytest.approx(
                expected, rel=1e-11, abs=1e-11 * (1 + abs(expected))
            )
    assert getattr(S, name)(rl.tensor([0.5]), -1).tolist() == [0.0]


@pytest.mark.parametrize("kind", "tuvw")
def test_chebyshev_polynomials_agree_with_the_oracle(kind):
    torch = pytest.importorskip("torch")
    points = [-1.5, -1.0, -0.3, 0.1, 0.5, 0.7, 1.0, 1.2]
    for prefix in ("", "shifted_"):
        name = f"{prefix}chebyshev_polynomial_{kind}"
        for n in (0, 1, 3, 8, 9, 20):
            ours = getattr(S, name)(rl.tensor(points, dtype=rl.float64), n)
            theirs = getattr(torch.special, name)(
                torch.tensor(points, dtype=torch.float64), n
            )
            for mine, other in zip(ours.tolist(), theirs.tolist(), strict=True):
                assert mine == pytest.approx(other, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e", "erfcx", "ndtri"])
def test_gradients_are_those_of_differences(name):
    x = rl.tensor([0.15, 0.4, 0.85], dtype=rl.float64, requires_grad=True)
    assert gradcheck(getattr(S, name), (x,))


def test_incomplete_gamma_functions_have_gradients_in_their_argument_alone():
    a = rl.tensor([0.5, 2.0], dtype=rl.float64)
    x = rl.tensor([0.7, 3.0], dtype=rl.float64, requires_grad=True)
    assert gradcheck(lambda t: rl.igamma(a, t), (x,))
    assert gradcheck(lambda t: rl.igammac(a, t), (x,))
    with pytest.raises(RuntimeError, match="not implemented"):
        rl.igamma(a.requires_grad_(), x).sum().backward()


@pytest.mark.parametrize("name", ["airy_ai", "bessel_j0", "erfcx", "ndtri", "log_ndtr"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_refused_as_by_the_oracle(name, dtype):
    with pytest.raises(NotImplementedError, match=f'"{name}_cpu" not implemented'):
        getattr(S, name)(rl.ones(2, dtype=getattr(rl, dtype)))


def test_two_numbers_are_no_arguments():
    for function in (S.zeta, S.xlogy, S.xlog1py, S.legendre_polynomial_p):
        with pytest.raises(TypeError):
            function(1, 2)
    assert S.legendre_polynomial_p(0.5, rl.tensor([1.0])).item() == 0.5


def test_polynomials_of_half_precision_are_refused():
    with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
        S.chebyshev_polynomial_t(rl.ones(2, dtype=rl.float16), 2)
