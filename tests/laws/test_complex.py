"""Complex results and gradients have the oracle's dtype and values, on every layout."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight

from .layouts import LAYOUTS, SIZES, laid_out

torch = pytest.importorskip("torch", reason="the oracle is not installed")

TOLERANCE = {"complex64": 2e-5, "complex128": 1e-12}
UNARY = (
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "sin",
    "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh",
    "atanh", "sigmoid", "abs", "angle", "sgn", "reciprocal", "square", "neg", "sinc",
)  # fmt: skip
REDUCING = (
    "sum", "mean", "prod", "var", "std", "cumsum", "cumprod", "logcumsumexp",
    "logsumexp", "norm",
)  # fmt: skip
# Real and imaginary parts with every kind of value that functions treat apart.
PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 20.0, -90.0, 1e-30, 1e30,
         math.inf, -math.inf, math.nan)  # fmt: skip
PERIODIC = {
    "exp", "exp2", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sigmoid",
    "sinc",
}  # fmt: skip


def grid(dtype, largest=math.inf):
    """Every pair of special parts, but for finite ones beyond ``largest``."""
    parts = [p for p in PARTS if abs(p) <= largest or not math.isfinite(p)]
    out = np.empty((len(parts), len(parts)), dtype)
    out.real, out.imag = np.array(parts)[:, None], np.array(parts)[None, :]
    return out.reshape(-1)


def assert_same(result, expected, tolerance):
    """Dtype, shape, infinities and NaN alike; the rest close, for each number."""
    a, b = result.detach().resolve_conj().numpy(), expected.detach().resolve_conj()
    b = b.numpy()
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_allclose(
        *(np.stack([z.real, z.imag]) for z in (a, b)), rtol=tolerance,
        atol=tolerance * (1 + np.abs(np.where(np.isfinite(b), b, 0)).max(initial=0)),
    )  # fmt: skip


def assert_each_close(result, expected, tolerance):
    """The same with the error of every number measured against its own length."""
    a, b = result.numpy(), expected.numpy()
    assert a.dtype == b.dtype
    for p, q in ((a.real, b.real), (a.imag, b.imag)):
        with np.errstate(all="ignore"):
            size = np.where(np.isfinite(np.abs(b)), np.abs(b), np.abs(q))
            close = np.abs(p - q) <= tolerance * size + 1e-15
        same = (p == q) | (np.isnan(p) & np.isnan(q)) | close
        wrong = np.flatnonzero(~same)
        assert not wrong.size, [(a[i], b[i]) for i in wrong[:4]]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", UNARY)
def test_functions_agree_at_special_points(name, dtype):
    # PyTorch's log1p and sinc differ between its vectors and its single elements.
    points = grid(dtype, 100.0 if name in PERIODIC else math.inf)
    if name in ("log1p", "sgn", "sinc"):
        points = points[np.isfinite(points)]
    ours = getattr(rushlight.from_numpy(points), name)()
    theirs = getattr(torch.from_numpy(points), name)()
    assert_each_close(ours, theirs, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ("mul", "div", "add", "sub"))
def test_arithmetic_agrees_at_special_points(name, dtype):
    points = grid(dtype)
    if name in ("add", "sub"):  # there PyTorch multiplies by 1 + 0j first: NaN from inf
        points = points[np.isfinite(points)]
    left, right = np.repeat(points, len(points)), np.tile(points, len(points))
    ours = getattr(rushlight, name)(*map(rushlight.from_numpy, (left, right)))
    theirs = getattr(torch, name)(*map(torch.from_numpy, (left, right)))
    assert_each_close(ours, theirs, TOLERANCE[dtype])


@pytest.mark.parametrize("exponent", (0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.0, 1j))
def test_powers_agree_at_special_points(exponent):
    points = grid("complex128", 100.0)
    ours, theirs = rushlight.from_numpy(points), torch.from_numpy(points)
    assert_each_close(ours**exponent, theirs**exponent, 1e-12)


@pytest.mark.parametrize("points", ([0, 1j, 1, 0j, -0.0, complex(math.nan, 0)],))
def test_truth_looks_at_both_parts(points):
    x, y = rushlight.tensor(points), torch.tensor(points)
    for name in ("bool", "logical_not", "isreal", "isnan", "nonzero", "count_nonzero"):
        assert getattr(x, name)().tolist() == getattr(y, name)().tolist(), name
    assert x.any().item() and not x.all().item()


def numbers(framework, sizes, layout, dtype, shift=0):
    """Numbers of no pattern, laid out as asked."""
    x = laid_out(framework, sizes, layout).to(getattr(framework, dtype))
    return x * (0.37 + 0.61j) + (0.4 + shift - 0.3j)


@given(
    SIZES, LAYOUTS, LAYOUTS, st.sampled_from(UNARY), st.sampled_from(list(TOLERANCE))
)
@settings(max_examples=60, deadline=None)
def test_functions_and_gradients_agree_on_every_layout(sizes, one, two, name, dtype):
    def run(framework):
        # near the real line, as below
        x = numbers(framework, sizes, one, dtype) * 0.025
        x = x.detach().sin().requires_grad_()
        weight = numbers(framework, sizes, two, dtype, 1)
        y = getattr(x * 0.5 + 0.1j, name)()
        (y * weight).abs().sum().backward()
        return y, x.grad

    for ours, theirs in zip(run(rushlight), run(torch)):
        assert_same(ours, theirs, 20 * TOLERANCE[dtype])


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4), LAYOUTS,
    st.sampled_from(REDUCING), st.integers(0, 3), st.sampled_from(list(TOLERANCE)),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_reductions_and_gradients_agree(sizes, layout, name, dim, dtype):
    dim %= len(sizes)
    if name in ("var", "std") and sizes[dim] == 1:
        sizes[dim] = 2

    def run(framework):
        # near the real line: elsewhere a cosine is too large for float32's products
        x = numbers(framework, sizes, layout, dtype) * 0.025
        x = x.detach().cos().requires_grad_()
        y = x.norm(dim=dim) if name == "norm" else getattr(x, name)(dim)
        y.abs().sum().backward()
        return y, x.grad

    for ours, theirs in zip(run(rushlight), run(torch)):
        assert_same(ours, theirs, 20 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", ((1, 1, 1), (3, 5, 4), (65, 130, 33), (0, 3, 2)))
def test_products_and_their_gradients_agree(sizes, dtype):
    m, k, n = sizes

    def run(framework):
        a = numbers(framework, (m, k), "plain", dtype).sin().requires_grad_()
        b = numbers(framework, (k, n), "plain", dtype, 1).cos().requires_grad_()
        c = a.conj() @ b
        d = framework.vdot(a.reshape(-1), (a * 2j).reshape(-1))
        (c.abs().sum() + d.abs()).backward()
        return c, d, a.grad, b.grad, a.mH.mT @ b, framework.bmm(a[None], b[None])

    for ours, theirs in zip(run(rushlight), run(torch)):
        assert_same(ours, theirs, 20 * TOLERANCE[dtype])


@pytest.mark.parametrize("transposed", (False, True))
def test_convolutions_and_their_gradients_agree(transposed):
    def run(framework):
        function = framework.nn.functional
        x = numbers(framework, (2, 4, 7), "plain", "complex128").sin()
        w = numbers(framework, (4, 2, 3), "plain", "complex128").cos()
        b = numbers(framework, (4,), "plain", "complex128", 1)
        leaves = [t.detach().requires_grad_() for t in (x, w, b)]
        if transposed:
            y = function.conv_transpose1d(*leaves, stride=2, groups=2)
        else:
            y = function.conv1d(*leaves, stride=2, padding=1, groups=2)
        y.abs().sum().backward()
        return [y, *(leaf.grad for leaf in leaves)]

    for ours, theirs in zip(run(rushlight), run(torch)):
        assert_same(ours, theirs, 1e-11)


MIXED = {
    "mul": lambda m, z, x: z * x, "div": lambda m, z, x: x / (z + 3),
    "pow": lambda m, z, x: (x + 5) ** z, "add": lambda m, z, x: m.add(x, z, alpha=2j),
    "lerp": lambda m, z, x: m.lerp(z, z * 2, 0.3), "where": lambda m, z, x: m.where(
        x > 0, z, x.to(z.dtype)),
    "addcmul": lambda m, z, x: m.addcmul(z, z, z, value=1j),
    "addcdiv": lambda m, z, x: m.addcdiv(z, z, z + 3, value=2 - 1j),
    "cov": lambda m, z, x: m.cov(z), "corrcoef": lambda m, z, x: m.corrcoef(z),
    "float_power": lambda m, z, x: m.float_power(z, 3),
    "logaddexp": lambda m, z, x: m.logaddexp(z, z * 2),
    "vecdot": lambda m, z, x: m.linalg.vecdot(z, z * 1j),
    "cumsum": lambda m, z, x: z.cumsum(1), "index_add": lambda m, z, x: z.index_add(
        0, m.tensor([0, 0]), z[:2], alpha=2),
    "gather": lambda m, z, x: z.gather(1, m.tensor([[0, 0], [1, 2]])),
    "scatter_add": lambda m, z, x: z.scatter_add(1, m.tensor([[0, 0, 1], [1, 2, 2]]), z),
    "masked_select": lambda m, z, x: z.masked_select(x > 0), "tril": lambda m, z, x: (
        z.tril()), "polar": lambda m, z, x: m.polar(x.abs() + 1, x) * z,
    "complex": lambda m, z, x: m.complex(x, x * 2) * z, "take": lambda m, z, x: z.take(
        m.tensor([0, 3, 3])),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_real_and_complex_operands_get_their_gradients(name):
    def run(framework):
        z = numbers(framework, (2, 3), "plain", "complex128").detach().cos()
        x = laid_out(framework, (2, 3), "plain").to(framework.float64).sin()
        z, x = z.detach().requires_grad_(), x.detach().requires_grad_()
        y = MIXED[name](framework, z, x)
        (y * (1 + 2j)).abs().sum().backward()
        return y, z.grad, x.grad

    for ours, theirs in zip(run(rushlight), run(torch)):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert_same(ours, theirs, 1e-11)


@pytest.mark.parametrize(
    "name",
    (
        "lt",
        "ge",
        "maximum",
        "fmin",
        "sort",
        "floor",
        "sign",
        "argmax",
        "cummax",
        "hypot",
        "logit",
        "nansum",
        "isposinf",
        "topk",
        "unique",
        "heaviside",
    ),
)
def test_complex_numbers_have_no_order(name):
    def refusal(framework):
        z = framework.tensor([1j, 2])
        alone = ("lt", "ge", "maximum", "fmin", "hypot", "heaviside")
        arguments = {"topk": (1,), "cummax": (0,)}.get(name, (z,) * (name in alone))
        with pytest.raises((RuntimeError, NotImplementedError)) as caught:
            getattr(framework, name)(z, *arguments)
        return caught.type

    assert refusal(rushlight) is refusal(torch)


def test_real_tensors_do_not_take_complex_results():
    with pytest.raises(RuntimeError, match="can't be cast"):
        rushlight.ones(2).mul_(1j)
    with pytest.raises(RuntimeError, match="can't be cast"):
        rushlight.mul(rushlight.ones(2), 1j, out=rushlight.ones(2))
