"""Sums, moments and norms keep their last digits, whatever their size and direction."""

import math

import numpy as np
import pytest

import rushlight

EPSILON = {"float32": 2.0**-23}


def error(result, exact):
    """The largest distance, relative to the larger results."""
    exact = np.asarray(exact, dtype="float64")
    scale = np.maximum(abs(exact), abs(exact).max() * 1e-3)
    return (abs(result.to(rushlight.float64).numpy() - exact) / scale).max()


def numbers(*shape, offset=0.5):
    noise = np.random.default_rng(0).standard_normal(shape)
    return (noise * 0.3 + offset).astype("float32")


@pytest.mark.parametrize("size", [1, 15, 16, 17, 4096, 300_000])
def test_running_sums_are_right_to_their_last_digit(size):
    x = numbers(size)
    exact = np.cumsum(x.astype("float64"))
    assert error(rushlight.from_numpy(x).cumsum(0), exact) < EPSILON["float32"]


@pytest.mark.parametrize("columns", [1, 63, 64, 255, 256, 257, 600])
def test_running_sums_of_columns_are_right_whatever_their_number(columns):
    x = numbers(500, columns)
    t = rushlight.from_numpy(x)
    exact = np.cumsum(x.astype("float64"), 0)
    assert error(t.cumsum(0), exact) < EPSILON["float32"]
    near_one = (1 + x * 0.01).astype("float32")
    exact = np.cumprod(near_one.astype("float64"), 0)
    assert error(rushlight.from_numpy(near_one).cumprod(0), exact) < EPSILON["float32"]


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("offset", [0.5, 1000.0])
@pytest.mark.parametrize("shape", [(30_000, 24), (24, 30_000)])
def test_moments_do_not_depend_on_the_direction_or_the_mean(shape, offset, dim):
    x = numbers(*shape, offset=offset)
    t, wide = rushlight.from_numpy(x), x.astype("float64")
    assert error(t.sum(dim), wide.sum(dim)) < 4 * EPSILON["float32"]
    assert error(t.mean(dim), wide.mean(dim)) < 4 * EPSILON["float32"]
    assert error(t.var(dim), wide.var(dim, ddof=1)) < EPSILON["float32"]
    assert error(t.std(dim), wide.std(dim, ddof=1)) < EPSILON["float32"]


@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm", "group_norm"])
def test_normalised_values_survive_a_large_mean(norm):
    x = numbers(16, 8, 12, 12, offset=1000.0) * np.float32(3)
    t, wide = rushlight.from_numpy(x), x.astype("float64")
    functional = rushlight.nn.functional
    result, axes = {
        "batch_norm": lambda: (
            functional.batch_norm(t, None, None, training=True), (0, 2, 3)),
        "layer_norm": lambda: (functional.layer_norm(t, (8, 12, 12)), (1, 2, 3)),
        "group_norm": lambda: (functional.group_norm(t, 1), (1, 2, 3)),
    }[norm]()  # fmt: skip
    gap = wide - wide.mean(axes, keepdims=True)
    exact = gap / np.sqrt((gap * gap).mean(axes, keepdims=True) + 1e-5)
    assert abs(result.numpy() - exact).max() < 3e-4


LONG = 2**20 + 3
NORMS = {  # the shape of what is normalized, and the layer
    "rows of layer_norm": ((1, LONG), lambda nn: nn.LayerNorm(LONG)),
    "many rows of layer_norm": ((LONG, 2), lambda nn: nn.LayerNorm(2, eps=1.0)),
    "rows of rms_norm": ((1, LONG), lambda nn: nn.RMSNorm(LONG)),
    "groups of one channel": ((1, 2, LONG), lambda nn: nn.GroupNorm(2, 2)),
    "groups of channels": ((1, 4, LONG // 2), lambda nn: nn.GroupNorm(1, 4)),
    "groups alone": ((1, 2, LONG), lambda nn: nn.GroupNorm(2, 2, affine=False)),
    "batches": ((LONG, 2), lambda nn: nn.BatchNorm1d(2)),
    "instances": ((1, 2, LONG), lambda nn: nn.InstanceNorm1d(2, affine=True)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_more_than_a_million_elements_lose_no_digits(name):
    shape, make = NORMS[name]
    x = numbers(*shape)
    grad = np.sin(7 * x) + x  # sums of terms that do not cancel
    found = []
    for kind in (rushlight.float32, rushlight.float64):
        t = rushlight.from_numpy(x).to(kind).requires_grad_()
        layer = make(rushlight.nn).to(kind)
        result = layer(t)
        result.backward(rushlight.from_numpy(grad).to(kind))
        found.append([result, t.grad, *(p.grad for p in layer.parameters())])
    for narrow, wide in zip(*found, strict=True):
        exact = wide.detach()
        off = (narrow.detach().to(wide.dtype) - exact).abs().max() / exact.abs().max()
        assert off < 6e-7, (name, off)


@pytest.mark.parametrize("p", [1, 2, 3, 0.5])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_of_narrow_types_are_summed_in_a_wider_one(dtype, p):
    x = rushlight.from_numpy(numbers(400) * np.float32(8)).to(getattr(rushlight, dtype))
    wide = abs(x.to(rushlight.float64).numpy())
    exact = (wide**p).sum() ** (1 / p)
    limit = rushlight.finfo(getattr(rushlight, dtype)).max
    result = rushlight.linalg.vector_norm(x, p).item()
    if exact > limit:
        assert result == math.inf
    else:
        half = rushlight.finfo(getattr(rushlight, dtype)).eps / 2
        assert abs(result - exact) <= exact * half * 1.01


def test_angles_of_every_size_are_reduced_exactly():
    mpmath = pytest.importorskip("mpmath", reason="the reference values come from it")
    rng = np.random.default_rng(0)
    x = np.concatenate([
        np.exp(rng.uniform(20, 709, 300)), [6381956970095103.0 * 2.0**797, 1e22, 1e308],
    ])  # fmt: skip
    for name in ("sin", "cos", "tan"):
        result = getattr(rushlight, name)(rushlight.from_numpy(x)).numpy()
        with mpmath.workprec(1200):
            exact = [float(getattr(mpmath, name)(mpmath.mpf(v))) for v in x.tolist()]
        assert error(rushlight.from_numpy(result / exact), np.ones(len(x))) < 3e-16


@pytest.mark.parametrize("order", [171, 2**31])
def test_polygamma_ends_for_every_order(order):
    assert rushlight.polygamma(order, rushlight.tensor([1.0])).shape == (1,)


def points(low, high, count=150):
    return np.random.default_rng(3).uniform(low, high, count)


# Units in the last place, and where the function bends or is zero.
SPECIAL = {
    "erf": (0.7, lambda m, v: m.erf(v), [points(-1.2, 1.2), points(-6, 6)]),
    "erfc": (0.75, lambda m, v: m.erfc(v), [points(-1, 1), points(0, 26)]),
    "erfinv": (0.6, lambda m, v: m.erfinv(v), [points(-1, 1), points(-1e-9, 1e-9)]),
    "lgamma": (
        0.6,
        lambda m, v: m.re(m.loggamma(v)),
        [points(0, 12), points(-6, 0), points(0.99, 2.01), points(1e3, 1e9)],
    ),
    "special.i0": (0.6, lambda m, v: m.besseli(0, v), [points(-20, 20)]),
    "special.i1": (0.6, lambda m, v: m.besseli(1, v), [points(-20, 20)]),
    "special.i0e": (
        0.6, lambda m, v: m.besseli(0, v) * m.exp(-abs(v)), [points(-20, 20)]),
    "special.i1e": (
        0.6, lambda m, v: m.besseli(1, v) * m.exp(-abs(v)), [points(-20, 20)]),
    "special.erfcx": (1.5, lambda m, v: m.exp(v * v) * m.erfc(v), [points(-5, 60)]),
    "special.ndtri": (
        1.9, lambda m, v: m.sqrt(2) * m.erfinv(2 * v - 1), [points(0, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_of_doubles_are_right_to_their_last_digit(name):
    mpmath = pytest.importorskip("mpmath", reason="the reference values come from it")
    limit, exact, ranges = SPECIAL[name]
    x = np.concatenate(ranges)
    function = rushlight
    for part in name.split("."):
        function = getattr(function, part)
    result = function(rushlight.from_numpy(x)).tolist()
    with mpmath.workdps(40):
        for argument, value in zip(x.tolist(), result, strict=True):
            truth = exact(mpmath, mpmath.mpf(argument))
            unit = math.ulp(float(truth))
            assert abs(mpmath.mpf(value) - truth) <= limit * unit, argument


def test_subnormal_exponentials_are_rounded_once():
    x = np.linspace(-104, -87, 4001).astype("float32")
    exact = np.exp(x.astype("float64"))
    result = rushlight.from_numpy(x).exp().numpy().astype("float64")
    assert abs(result - exact).max() <= 0.51 * 2.0**-149


@pytest.mark.parametrize(
    ("offset", "limit"), [(0.0, 25), (0.02, 25), (1.0, 60), (1000.0, 5)]
)
@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "affine group_norm"])
def test_normalised_values_near_zero_keep_their_digits(name, offset, limit):
    functional = rushlight.nn.functional
    noise = np.random.default_rng(7).standard_normal((48, 8, 400)) + offset
    x = noise.astype("float32")
    t, wide = rushlight.from_numpy(x), x.astype("float64").reshape(48, -1)
    if name == "layer_norm":
        result = functional.layer_norm(t, (8, 400))
    else:
        ones = rushlight.ones(8) if name.startswith("affine") else None
        result = functional.group_norm(t, 1, ones)
    gap = wide - wide.mean(1, keepdims=True)
    exact = gap / np.sqrt((gap * gap).mean(1, keepdims=True) + 1e-5)
    error = abs(result.numpy().reshape(48, -1) - exact)
    assert (error / np.maximum(abs(exact), 4e-3)).max() < limit * EPSILON["float32"]


@pytest.mark.parametrize("affine", [False, True])
def test_group_norm_of_halves_is_rounded_once(affine):
    noise = np.random.default_rng(7).standard_normal((16, 4, 300)).astype("float32")
    x = rushlight.from_numpy(noise).half()
    weight = rushlight.tensor([1.0, 2.0, -1.0, 0.5]).half() if affine else None
    result = rushlight.nn.functional.group_norm(x, 2, weight).double().numpy()
    wide = x.double().numpy().reshape(32, -1)
    gap = wide - wide.mean(1, keepdims=True)
    exact = gap / np.sqrt((gap * gap).mean(1, keepdims=True) + 1e-5)
    exact = exact.reshape(result.shape)
    if affine:
        exact *= weight.double().numpy()[:, None]
    assert (abs(result - exact) / np.maximum(abs(exact), 1e-3)).max() < 0.51 * 2.0**-10


@pytest.mark.parametrize(
    ("name", "limit"), [("exp", 0.7), ("tanh", 0.65), ("erf", 1.1), ("erfc", 0.6)]
)
def test_functions_of_single_precision_stay_within_a_unit(name, limit):
    x = np.concatenate([points(-10, 10, 20_000), points(-1.3, 1.3, 20_000)])
    x = x.astype("float32")
    exact = np.array([getattr(math, name)(v) for v in x.tolist()])
    unit = np.maximum(np.spacing(abs(exact).astype("float32")), 2.0**-149)
    result = getattr(rushlight, name)(rushlight.from_numpy(x)).double().numpy()
    assert (abs(result - exact) / unit).max() <= limit


@pytest.mark.parametrize("name", ["exp", "sin", "erf"])
def test_rare_branches_leave_special_values_alone(name):
    x = [88.0, 89.0, -88.0, -104.5, 0.5, -0.0, math.inf, -math.inf, math.nan, 1e30]
    for dtype in (rushlight.float32, rushlight.float64):
        together = getattr(rushlight, name)(rushlight.tensor(x * 3, dtype=dtype))
        for value, argument in zip(together.tolist(), x * 3, strict=True):
            alone = getattr(rushlight, name)(rushlight.tensor(argument, dtype=dtype))
            assert alone.item() == value or math.isnan(value) == math.isnan(alone)


def test_products_of_long_lines_are_sums_of_blocks():
    """A chain of rounded sums loses digits with its length, as a sum of blocks does not."""
    depth, bound = 100_000, 12 * 2.0**-24 * math.sqrt(100_000)
    noise = np.random.default_rng(0).standard_normal((64, depth)).astype("float32")
    wide = noise.astype("float64")
    whole = wide[:32] @ wide[32:].T
    worst = {}
    for rows in (1, 2, 4, 8, 16, 24, 32):
        for columns in (1, 3, 8, 32):
            left, right = noise[:rows], noise[32 : 32 + columns]
            a, b = rushlight.from_numpy(left), rushlight.from_numpy(right)
            turned = rushlight.from_numpy(np.ascontiguousarray(right.T))
            exact = whole[:rows, :columns]
            for form, result in (("rows", a @ b.t()), ("columns", a @ turned)):
                gap = abs(result.numpy() - exact)
                worst[rows, columns, form] = math.sqrt((gap**2).mean())
    assert not {key: gap for key, gap in worst.items() if gap > bound}


def normalised(x):
    gap = x - x.mean(-1, keepdims=True)
    return gap / np.sqrt((gap * gap).mean(-1, keepdims=True) + x.dtype.type(1e-5))


# What is summed, the function, the exact one, and its error on the average over draws, in
# units of the format's epsilon; PyTorch's are 0.24, 21.8 and 1.32.
AVERAGES = {
    "sum of parts": ("float32", [(10**6,)], 0.5, lambda x: x.sum(), np.sum, 0.3),
    "layer norm": (
        "float64", [(256, 1024)], 0.0,
        lambda x: rushlight.nn.functional.layer_norm(x, (1024,)), normalised, 20,
    ),
    "distances": (
        "float32", [(64, 32), (64, 32)], 0.0,
        lambda x, y: rushlight.cdist(x, y, p=3.0),
        lambda x, y: (abs(x[:, None] - y) ** 3).sum(2) ** (x.dtype.type(1) / 3), 1.15,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AVERAGES)
def test_the_average_error_of_sums_is_that_of_a_tree(name):
    dtype, shapes, offset, function, exact, limit = AVERAGES[name]
    wide = "float64" if dtype == "float32" else "longdouble"
    errors = []
    for draw in range(20):
        rng = np.random.default_rng(draw)
        arrays = [rng.normal(offset, 1, shape).astype(dtype) for shape in shapes]
        truth = exact(*(a.astype(wide) for a in arrays))
        result = function(*map(rushlight.from_numpy, arrays)).numpy()
        scale = np.maximum(abs(truth), abs(truth).max() * 1e-3)
        errors.append((abs(result - truth) / scale).max() / np.finfo(dtype).eps)
    assert np.mean(errors) < limit


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_by_a_large_matrix_are_sums_of_short_chains(rows):
    rng = np.random.default_rng(rows)
    a, b = (
        rng.standard_normal(s).astype("float32") for s in ((rows, 1024), (1024, 768))
    )
    exact = a.astype("float64") @ b
    result = (rushlight.from_numpy(a) @ rushlight.from_numpy(b)).numpy()
    off = np.sqrt(((result - exact) ** 2).mean()) / exact.std()
    assert off < 3.5 * EPSILON["float32"]  # PyTorch's are 4.8 to 4.9
