"""Functions in pieces: tables that lanes look up, and the series that fill them."""

import math
from decimal import Decimal

import numpy as np
import pytest

import rushlight
from rushlight.codegen import language as L
from rushlight.codegen.emit import llvm
from rushlight.codegen.language import pointwise
from rushlight.codegen.math import pieces, series
from rushlight.codegen.target import named, using
from rushlight.ir import expr as ir
from rushlight.ir.spec import SpecError, verify

mpmath = pytest.importorskip("mpmath", reason="the exact values come from it")
special = pytest.importorskip("scipy.special", reason="exact to float32 and beyond")
# The largest error in units in the last place, everywhere.
LIMITS = {
    "tanh": 0.56, "log": 0.53, "log2": 0.53, "log10": 0.53, "erf": 1.0, "erfc": 0.58,
    "erfinv": 0.53, "atan": 0.51, "asin": 0.53, "acos": 0.56, "sinh": 0.501,
    "cosh": 0.501, "atanh": 0.51, "tan": 0.53,
    "exp": 0.64, "exp2": 0.76,
}  # fmt: skip
DOUBLE_LIMITS = {
    "erf": 0.56, "erfc": 0.66, "erfinv": 0.76, "sin": 0.54, "cos": 0.54, "tan": 0.61,
    "expm1": 0.55,
    "sinh": 0.58, "cosh": 0.53, "tanh": 0.55, "atanh": 0.57, "log1p": 0.58,
    "exp": 0.61, "exp2": 0.63,
}  # fmt: skip
# And where tables lie in registers.
if pieces.tables_in_registers():
    LIMITS |= {"exp": 0.53, "exp2": 0.75}  # the latter's of subnormal numbers
    DOUBLE_LIMITS |= {"exp": 0.56, "exp2": 0.56}
if pieces.permuted_floats() == 8:  # few pieces, all in one register
    LIMITS |= {"log": 0.64, "log2": 0.64, "log10": 0.63, "erfinv": 0.6}
    LIMITS |= {"asin": 0.63, "acos": 0.74}
INFINITIES = {
    "erf": (1, -1), "erfc": (0, 2), "expm1": (math.inf, -1), "tanh": (1, -1),
    "sinh": (math.inf, -math.inf), "cosh": (math.inf, math.inf),
    "log1p": (math.inf, math.nan), "exp": (math.inf, 0), "exp2": (math.inf, 0),
}  # fmt: skip
SPANS = {
    "tanh": (-10, 10), "erf": (-5, 5), "erfc": (-5, 11), "erfinv": (-1, 1),
    "asin": (-1, 1), "acos": (-1, 1), "atan": (-9, 9), "sinh": (-90, 90),
    "cosh": (-90, 90), "atanh": (-1, 1), "tan": (-9, 9), "sin": (-99, 99),
    "expm1": (-3, 3), "log1p": (-1, 3),
    "cos": (-99, 99), "exp": (-110, 95), "exp2": (-155, 130),
}  # fmt: skip
EDGES = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1.5, -1.5)


def exact_of(name):
    renamed = {
        "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atanh": "arctanh"
    }  # fmt: skip
    if name.startswith("erf"):
        return getattr(special, name)
    return getattr(np, renamed.get(name, name))


def arguments(name, dtype, count):
    """Of every exponent, dense where most happens, close to one, and the edges."""
    rng = np.random.default_rng(5)
    kind = {"float32": "uint32", "float64": "uint64"}[dtype]
    raw = rng.integers(0, np.iinfo(kind).max, count, dtype=kind).view(dtype)
    info = np.finfo(dtype)
    edges = [*EDGES, info.tiny, -info.tiny, info.tiny / 2, info.smallest_subnormal,
             info.max, -info.max]  # fmt: skip
    span = SPANS.get(name, (0, 100))
    parts = [
        raw, rng.uniform(*span, count), rng.uniform(0.7, 1.4, count),
        np.ldexp(rng.uniform(-1, 1, count), rng.integers(-30, 3, count)), edges,
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        return np.concatenate([np.asarray(part).astype(dtype) for part in parts])


def units(result, exact, dtype):
    """Errors in units in the last place, and whether what is special agrees."""
    wide = exact.astype("longdouble")
    with np.errstate(all="ignore"):
        rounded = wide.astype(dtype)
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    unit = np.spacing(np.where(np.isfinite(rounded), abs(rounded), 1).astype(dtype))
    finite = np.isfinite(result) & np.isfinite(rounded)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, abs(result - wide) / unit, np.inf)
    return np.where(same & ~finite, 0, error).astype("float64")


@pytest.mark.parametrize("name", LIMITS)
def test_single_precision_is_as_near_at_every_exponent_and_edge(name):
    x = arguments(name, "float32", 60_000)
    function = getattr(rushlight, name)
    with np.errstate(all="ignore"):
        exact = exact_of(name)(x.astype("float64"))
    result = function(rushlight.from_numpy(x.copy())).numpy()
    error = units(result, exact, "float32")
    worst = error.argmax()
    assert error[worst] <= LIMITS[name], (x[worst], result[worst], exact[worst])
    if name not in ("acos", "cosh", "erfc", "exp", "exp2") and not name.startswith(
        "log"
    ):
        assert (np.signbit(result) == np.signbit(x))[(x == 0)].all()
    few = function(rushlight.from_numpy(x[:13].copy())).numpy()
    np.testing.assert_array_equal(few, result[:13])


def test_tangents_are_as_near_beside_every_quarter_turn():
    turns = (np.arange(-130, 131) * (np.pi / 4)).astype("float32")
    x = turns.view("int32") + np.arange(-200, 201, dtype="int32")[:, None]
    x = x.view("float32").ravel()
    with np.errstate(invalid="ignore"):
        exact = np.tan(x.astype("longdouble"))
    result = rushlight.tan(rushlight.from_numpy(x.copy())).numpy()
    assert units(result, exact, "float32").max() <= LIMITS["tan"]


@pytest.mark.parametrize("name", DOUBLE_LIMITS)
def test_double_precision_is_as_near_at_every_exponent_and_edge(name):
    x = arguments(name, "float64", 700)
    most = 27 if name == "erfc" else 700 if name in INFINITIES else 1e9
    x = x[~(abs(x) > most) | ~np.isfinite(x)]
    ends = INFINITIES.get(name, (math.nan, math.nan))

    def one(value):
        if math.isinf(value):
            return ends[value < 0]
        inside = abs(value) < 1 or name not in ("erfinv", "atanh")
        if name == "log1p":
            inside = value > -1
        if math.isnan(value) or not inside:
            at_end = value == -1 if name == "log1p" else abs(value) == 1
            return math.copysign(math.inf, value) if at_end else math.nan
        with mpmath.workprec(140):
            function = getattr(mpmath, name, lambda power: mpmath.mpf(2) ** power)
            return np.longdouble(mpmath.nstr(function(value), 32))

    exact = np.array([one(float(v)) for v in x], "longdouble")
    result = getattr(rushlight, name)(rushlight.from_numpy(x.copy())).numpy()
    error = units(result, exact, "float64")
    worst = error.argmax()
    assert error[worst] <= DOUBLE_LIMITS[name], (x[worst], result[worst], exact[worst])


LOGARITHMS = {"log": None, "log2": 2, "log10": 10}


@pytest.mark.parametrize("name", LOGARITHMS)
def test_logarithms_of_float64_are_as_near_at_every_exponent_and_beside_one(name):
    rng = np.random.default_rng(8)
    x = np.concatenate([
        arguments(name, "float64", 400), rng.uniform(0.93, 1.07, 600),
        1 + rng.standard_normal(300) * 2.0 ** rng.integers(-52, -4, 300),
        [15 / 16, 31 / 32, 17 / 16, 11 / 16, 11 / 8],
    ])  # fmt: skip
    result = getattr(rushlight, name)(rushlight.from_numpy(x.copy())).numpy()
    positive = (x > 0) & (x < math.inf)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(result[~positive], np.log(x[~positive]))
    base = LOGARITHMS[name]
    with mpmath.workprec(140):
        exact = [
            mpmath.log(v, base) if base else mpmath.log(v) for v in x[positive].tolist()
        ]
        exact = np.array([np.longdouble(mpmath.nstr(v, 32)) for v in exact])
    error = units(result[positive], exact, "float64")
    assert error.max() <= 0.54, x[positive][error.argmax()]


def log_gamma(value):
    if not math.isfinite(value):
        return np.longdouble(abs(value))
    if value <= 0 and value == math.floor(value):
        return np.longdouble("inf")
    with mpmath.workprec(200):
        v = mpmath.mpf(value)
        exact = mpmath.log(abs(mpmath.gamma(v))) if v < 1e4 else mpmath.loggamma(v)
        return np.longdouble(mpmath.nstr(mpmath.re(exact), 32))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lgamma_is_right_to_its_last_digit_in_every_piece_and_beyond_them(dtype):
    rng = np.random.default_rng(9)
    largest = 300 if dtype == "float64" else 30
    x = np.concatenate([
        rng.uniform(0, 16, 500), rng.uniform(-16, 0, 500), rng.uniform(-200, 200, 200),
        10.0 ** rng.uniform(2, largest, 200), 1 + rng.standard_normal(200) * 1e-2,
        2 + rng.standard_normal(200) * 1e-2,
        10.0 ** rng.uniform(-largest, 0, 200) * rng.choice([-1, 1], 200),
        [0, -0.0, 1, 2, 3, -1, -2, -14, -15, -16, 15, 14.9999, -14.9999, -15.0001, 7.5],
        [15 / 16, 1.125, 1.75, 2.25, 2.0**400, 2.0**401, -1e30, math.inf, -math.inf],
        [math.nan, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal],
        [-np.finfo(dtype).smallest_subnormal, np.finfo(dtype).tiny],
    ])  # fmt: skip
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    exact = np.array([log_gamma(float(v)) for v in x])
    result = rushlight.lgamma(rushlight.from_numpy(x.copy())).numpy()
    error = units(result, exact, dtype)
    # where it crosses zero below -2, no sum of two parts has digits enough
    error[(x < -2) & (abs(exact) < 1e-3)] = 0
    assert error.max() <= 0.53, (x[error.argmax()], result[error.argmax()])
    for place in (1, 3, 17):  # alone, and among few
        few = rushlight.lgamma(rushlight.from_numpy(x[:place].copy())).numpy()
        np.testing.assert_array_equal(few, result[:place])


def test_series_of_lgamma_are_its_derivatives():
    for place in ("1", "1.75", "14"):
        with mpmath.workprec(300):
            x = mpmath.mpf(place)
            terms = series.log_gamma(Decimal(place))
            assert abs(mpmath.mpf(str(terms[0])) - mpmath.loggamma(x)) < 1e-40
            for n in (1, 2, 7, 30):
                exact = mpmath.psi(n - 1, x) / mpmath.factorial(n)
                assert abs(mpmath.mpf(str(terms[n])) / exact - 1) < 1e-30


@pytest.mark.parametrize("span", [(0, 1), (1.4, 1.5), (1, 30), (-0.5, 0), (-9, -0.5)])
def test_digamma_is_right_to_its_last_digits_where_its_parts_are_not_small(span):
    x = np.random.default_rng(6).uniform(*span, 1500)
    result = rushlight.digamma(rushlight.from_numpy(x)).numpy()
    with mpmath.workprec(120):
        exact = [mpmath.digamma(v) for v in x.tolist()]
        error = [float(abs(mpmath.mpf(r) - e)) for r, e in zip(result.tolist(), exact)]
    # what it is made of: itself, and where it is reflected two that nearly cancel
    size = np.abs(np.array(exact, "float64")) + np.where(x < 0, np.pi / np.abs(x), 1)
    cotangent = np.abs(np.pi / np.tan(np.pi * (x - np.round(x)))) * (x < 0)
    assert (np.array(error) / (size + cotangent)).max() < 3e-16


@pytest.mark.parametrize(("dtype", "limit"), [("float32", 0.51), ("float64", 2.0)])
def test_normal_quantiles_are_as_near_in_the_middle_and_in_both_tails(dtype, limit):
    rng = np.random.default_rng(7)
    tail = 10.0 ** rng.uniform(-8, -1, 200)
    x = np.concatenate([rng.uniform(0, 1, 500), tail, 1 - tail, [0.5]]).astype(dtype)
    x = x[(x > 0) & (x < 1)]
    with mpmath.workprec(120):
        exact = np.array([
            np.longdouble(mpmath.nstr(mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), 30))
            for p in map(mpmath.mpf, x.tolist())
        ])  # fmt: skip
    result = rushlight.special.ndtri(rushlight.from_numpy(x)).numpy()
    assert units(result, exact, dtype).max() <= limit
    ends = rushlight.special.ndtri(rushlight.tensor([0.0, 1.0, -1.0, 2.0]))
    assert ends.tolist()[:2] == [-math.inf, math.inf]
    assert ends[2:].isnan().all()


def looking_up(table):
    """A kernel whose lanes take the place that the low bits of a number name."""

    def looked_up(x):
        return pieces.lookup(L.bits_of(x), x, table)

    looked_up.__name__ = f"looked_up_in_{len(table)}"
    return pointwise(looked_up)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [4, 8, 16, 32, 64])
def test_every_lane_takes_its_own_place_of_a_table(runner, dtype, size):
    table = np.random.default_rng(size).standard_normal(size).astype(dtype)
    places = np.arange(-70, 71).astype(dtype.replace("float", "int"))
    result = runner.pointwise(looking_up(table.tolist()), places.view(dtype))
    np.testing.assert_array_equal(result, table[places % size])


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        ("x86-64-v4", "vpermi2var"),
        ("x86-64-v3", "avx2.permps"),
        ("neoverse-n1", "@table."),
    ],
)
def test_tables_lie_in_registers_where_the_processor_permutes_them(target, instruction):
    with using(named(target)):
        text = llvm.emit(
            looking_up([0.5] * 32).lowered(("float32",), ("float32",), "float32")
        )
    assert instruction in text


@pytest.mark.parametrize(
    ("fault", "of", "size"),
    [("3 places", ir.i32, 3), ("i64 picks", ir.i64, 4)],
)
def test_tables_that_no_bits_can_name_are_refused(fault, of, size):
    index, x = ir.Var("i", of), ir.Var("x", ir.f32)
    body = (ir.Return(pieces.lookup(index, x, [0.5] * size)),)
    with pytest.raises(SpecError, match=fault):
        verify(ir.Function("wrong", (index, x), body, ir.f32))


@pytest.mark.parametrize(
    ("name", "exact", "place"),
    [
        ("tanh", "tanh", 0.75), ("tan", "tan", 0.625), ("atan", "atan", 0.875), ("erf", "erf", 2.5),
        ("erfinv", "erfinv", 0.96875), ("erfinv", "erfinv", 0),
        ("arc_over_root", lambda z: mpmath.asin(mpmath.sqrt(z)) / mpmath.sqrt(z), 0.25),
        ("angle_to_right", lambda x: mpmath.atan(1 / x), 0.5),
    ],
)  # fmt: skip
def test_series_are_those_of_their_functions(name, exact, place):
    exact = getattr(mpmath, exact) if isinstance(exact, str) else exact
    with mpmath.workdps(60):
        expected = mpmath.taylor(exact, place, 6)
        terms = getattr(series, name)(series.Decimal(place))
        for term, right in zip(terms, expected):
            assert abs(mpmath.mpf(str(term)) - right) < 1e-25


def test_shortened_series_are_as_near_as_what_they_leave_out():
    places = ((0.0, 0.25), (0.5, 0.25))
    for (middle, reach), row in zip(places, pieces.pieces(series.tanh, places, 9)):
        d = np.linspace(-reach, reach, 101)
        value = np.polyval([float(c) for c in reversed(row)], d)
        assert abs(value - np.tanh(middle + d)).max() < 1e-10


def test_the_normal_distribution_is_right_beside_one(native):
    x = np.concatenate([np.linspace(-7, 7, 200_001), [0.0, math.inf, -math.inf, -60.0]])
    x = x.astype(np.float32)
    got = native.pointwise(pointwise(L.normal_cdf), x).astype(np.float64)
    assert abs(got - special.ndtr(x.astype(np.float64))).max() < 2.0**-24
    assert list(got[-4:]) == [0.5, 1, 0, 0]
    nothing = np.full(1, math.nan, np.float32)
    assert np.isnan(native.pointwise(pointwise(L.normal_cdf), nothing))
