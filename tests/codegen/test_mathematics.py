"""Accuracy over dense samples, in units in the last place, and the special values."""

import functools
import math

import numpy as np
import pytest

from rushlight.codegen import language as L
from rushlight.codegen.language import pointwise

mpmath = pytest.importorskip("mpmath", reason="the reference values come from it")
UNARY = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "sigmoid",
    "sqrt",
    "rsqrt",
]
NUMPY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
LIMITS = {"sigmoid": 2.3}
DOUBLE_LIMIT = 4


@functools.cache
def kernel(name):
    function = getattr(L, name)

    def traced(x):
        return function(x)

    traced.__name__ = f"{name}_of"
    return pointwise(traced)


@functools.cache
def kernel_of_two(name):
    function = getattr(L, name)

    def traced(x, y):
        return function(x, y)

    traced.__name__ = f"{name}_of"
    return pointwise(traced)


def wide_reference(name):
    """The function in float64, by NumPy or the C library."""
    if name in ("erf", "erfc"):
        return np.vectorize(getattr(math, name), otypes=[np.float64])
    if name == "sigmoid":
        return lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-abs(x)))
    if name == "rsqrt":
        return lambda x: 1 / np.sqrt(x)
    return getattr(np, NUMPY.get(name, name))


def samples(count=1 << 15):
    """Every magnitude, the usual ranges, and the special values."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 4 * count, dtype=np.uint32).view(np.float32)
    special = np.array(
        [
            0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            1,
            -1,
            0.5,
            -0.5,
            1e-45,
            1e-40,
            3.4028235e38,
            88.72,
            88.73,
            -87.5,
            -103.9,
            -104.1,
            128,
            -149.5,
        ],
        np.float32,
    )
    return np.concatenate(
        [
            special,
            bits,
            rng.standard_normal(count).astype(np.float32) * 3,
            rng.uniform(-110, 110, count).astype(np.float32),
            rng.uniform(-1, 1, count).astype(np.float32),
            (1 + rng.standard_normal(count) * 1e-3).astype(np.float32),
        ]
    )


def units_in_the_last_place(got, exact):
    """The error of float32 values against float64 ones; 0 where special and equal."""
    rounded = exact.astype(np.float32)
    size = np.maximum(abs(exact), 2.0**-126)
    unit = np.exp2(np.floor(np.log2(np.where(np.isfinite(size), size, 1)))) * 2.0**-23
    error = abs(got.astype(np.float64) - exact) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error = np.where(same, 0, error)
    return np.where(np.isnan(got) != np.isnan(rounded), np.inf, error)


@pytest.mark.parametrize("name", UNARY)
def test_float32_is_right_to_two_units_everywhere(native, name):
    x = samples()
    got = native.pointwise(kernel(name), x)
    with np.errstate(all="ignore"):
        exact = wide_reference(name)(x.astype(np.float64))
        error = units_in_the_last_place(got, exact)
    worst = error.argmax()
    assert error[worst] <= LIMITS.get(name, 2), (x[worst], got[worst], exact[worst])


@pytest.mark.parametrize(
    "name",
    [
        "sin",
        "tan",
        "asin",
        "atan",
        "sinh",
        "tanh",
        "asinh",
        "atanh",
        "erf",
        "expm1",
        "log1p",
        "sqrt",
    ],
)
def test_negative_zero_stays_negative(native, name):
    got = native.pointwise(kernel(name), np.array([-0.0, 0.0], np.float32))
    assert np.signbit(got).tolist() == [True, False]


def exact_value(name, x):
    """The function at a float64 point to forty digits, or None outside its domain."""
    special = {
        "exp2": lambda v: mpmath.mpf(2) ** v,
        "log2": lambda v: mpmath.log(v, 2),
        "sigmoid": lambda v: 1 / (1 + mpmath.exp(-v)),
        "rsqrt": lambda v: 1 / mpmath.sqrt(v),
    }
    function = special.get(name) or getattr(mpmath, name)
    try:
        value = function(mpmath.mpf(float(x)))
    except (ValueError, ZeroDivisionError):
        return None
    return None if isinstance(value, mpmath.mpc) else value


@pytest.mark.parametrize("name", UNARY)
def test_float64_is_right_to_four_units(native, name):
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [
            rng.standard_normal(120) * 3,
            rng.uniform(-1, 1, 60),
            rng.uniform(-700, 700, 60),
            np.exp(rng.uniform(-20, 10, 60)),
        ]
    )
    got = native.pointwise(kernel(name), x)
    with mpmath.workdps(40):
        for point, value in zip(x, got):
            exact = exact_value(name, point)
            if exact is None or not np.isfinite(float(exact)):
                continue
            unit = max(abs(exact) * mpmath.mpf(2) ** -52, mpmath.mpf(2) ** -1074)
            assert abs(mpmath.mpf(float(value)) - exact) / unit < DOUBLE_LIMIT, point


@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfinv"])
def test_gamma_functions_and_erfinv(native, name):
    rng = np.random.default_rng(2)
    span = (-1, 1) if name == "erfinv" else (-20, 50)
    x = rng.uniform(*span, 200)
    got = native.pointwise(kernel(name), x)
    single = native.pointwise(kernel(name), x.astype(np.float32))
    if name == "lgamma":
        exact = [float(mpmath.re(mpmath.loggamma(v))) for v in x]
    else:
        exact = [float(getattr(mpmath, name)(v)) for v in x]
    np.testing.assert_allclose(got, exact, rtol=1e-12, atol=1e-13)
    assert np.isfinite(single).all()


@pytest.mark.parametrize(
    ("name", "points", "values"),
    [
        (
            "lgamma",
            [1, 2, 0, -1, np.inf, 0.5],
            [0, 0, np.inf, np.inf, np.inf, 0.5723649],
        ),
        (
            "digamma",
            [1, 0.0, -0.0, -1, np.inf],
            [-0.5772157, -np.inf, np.inf, np.nan, np.inf],
        ),
        ("erfinv", [0, 1, -1, 1.5, 0.5], [0, np.inf, -np.inf, np.nan, 0.47693628]),
    ],
)
def test_special_points(native, name, points, values):
    got = native.pointwise(kernel(name), np.array(points, np.float32))
    np.testing.assert_allclose(got, np.array(values, np.float32), rtol=1e-6)


EDGES = np.array(
    [
        0,
        -0.0,
        1,
        -1,
        2,
        -2,
        3,
        0.5,
        -0.5,
        np.inf,
        -np.inf,
        np.nan,
        1e30,
        1e-40,
        -1e30,
        7.5,
    ]
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_follow_c(native, dtype):
    x, y = (grid.ravel().astype(dtype) for grid in np.meshgrid(EDGES, EDGES))
    rng = np.random.default_rng(0)
    x = np.concatenate([x, np.exp(rng.standard_normal(5000) * 3).astype(dtype)])
    y = np.concatenate([y, (rng.standard_normal(5000) * 8).astype(dtype)])
    got = native.pointwise(kernel_of_two("pow"), x, y)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(got, exact, rtol=4e-7 if dtype == "float32" else 2e-15)


@pytest.mark.parametrize("reach", [0.06, 0.7, 400.0])
def test_large_powers_are_right_to_four_fifths_of_a_unit(native, reach):
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(-reach, reach, 1500))
    y = rng.choice([-1, 1], 1500) * rng.uniform(500, 700, 1500) / np.log(x)
    got = native.pointwise(kernel_of_two("pow"), x, y)
    with mpmath.workdps(40):
        for base, power, value in zip(x, y, got):
            exact = mpmath.mpf(float(base)) ** mpmath.mpf(float(power))
            assert abs(mpmath.mpf(float(value)) - exact) <= 0.8 * np.spacing(value)


def test_powers_of_integers(native):
    x = np.array([2, -3, 1, -1, -1, 5, 0, 7, 2], np.int32)
    y = np.array([10, 3, -5, -3, -4, -1, 0, 40, 31], np.int32)
    got = native.pointwise(kernel_of_two("pow"), x, y)
    wrapped = (7**40 + 2**31) % 2**32 - 2**31
    assert got.tolist() == [1024, -27, 1, -1, 1, 0, 1, wrapped, -(2**31)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_angles_follow_c(native, dtype):
    y, x = (grid.ravel().astype(dtype) for grid in np.meshgrid(EDGES, EDGES))
    rng = np.random.default_rng(0)
    y = np.concatenate([y, rng.standard_normal(5000).astype(dtype)])
    x = np.concatenate([x, rng.standard_normal(5000).astype(dtype)])
    got = native.pointwise(kernel_of_two("atan2"), y, x)
    exact = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(got, exact, rtol=3e-7 if dtype == "float32" else 1e-15)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(exact))


def test_angles_of_points_far_out_keep_their_digits(native):
    """Of 1e-150 over 1e154 nothing was left: both were made smaller for the larger one."""
    rng = np.random.default_rng(1)
    y, x = (10.0 ** rng.uniform(-300, 308, 5000) for _ in range(2))
    got = native.pointwise(kernel_of_two("atan2"), y, x)
    np.testing.assert_allclose(got, np.arctan2(y, x), rtol=1e-15, atol=1e-322)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "cos", "tanh"])
def test_complex_functions(native, name):
    rng = np.random.default_rng(0)
    z = rng.standard_normal(200) + 1j * rng.standard_normal(200)
    got = native.pointwise(kernel(name), z)
    np.testing.assert_allclose(got, getattr(np, name)(z), rtol=1e-12)


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "log1p"])
def test_the_compiled_function_is_the_reference(native, reference, name):
    x = np.linspace(-0.9, 5, 50).astype(np.float32)
    ours = native.pointwise(kernel(name), x)
    theirs = reference.pointwise(kernel(name), x)
    np.testing.assert_allclose(ours, theirs, rtol=3e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_exponential_of_a_number_does_not_hang_on_its_neighbours(native, dtype):
    """Masked scores lie beside others, and both beside results that are subnormal."""
    far = [-np.inf, -1e9, -746.0, -745.1, -700.0, -104.1, -104.0, -103.9, -95.0, -87.1]
    near = [-87.0, -1.0, 0.0, 3.0, 88.9, 89.1, 709.9, np.inf, np.nan]
    values = np.array(far + near, dtype)
    x = np.random.default_rng(5).choice(values, 4096)
    alone = {
        str(one): native.pointwise(kernel("exp"), np.full(64, one))[0] for one in values
    }
    np.testing.assert_array_equal(
        native.pointwise(kernel("exp"), x), [alone[str(one)] for one in x]
    )
    with np.errstate(over="ignore", under="ignore"):
        exact = np.exp(values.astype(np.longdouble)).astype(dtype)
    np.testing.assert_allclose(list(alone.values()), exact, rtol=3e-7, atol=5e-324)
