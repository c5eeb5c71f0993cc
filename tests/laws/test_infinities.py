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


@pytest.mark.parametrize("order", [1e40, -1e17, 1e308, NAN, 3, 0.5])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
def test_one_element_is_its_own_norm_of_any_order(dtype, order):
    values = [[0.75], [0.0], [-2.5]]
    theirs, ours = (
        lib.linalg.vector_norm(lib.tensor(values).to(getattr(lib, dtype)), order, dim=1)
        for lib in (torch, rushlight)
    )
    assert ours.tolist() == theirs.tolist() == [0.75, 0.0, 2.5]


def slopes_of(lib, call, *inputs, twice=False):
    """Gradients of a call's sum, or of theirs."""
    leaves = [lib.tensor(x, dtype=lib.float64, requires_grad=True) for x in inputs]
    first = lib.autograd.grad(call(lib, *leaves).sum(), leaves, create_graph=twice)
    if twice:
        first = lib.autograd.grad(sum(g.sum() for g in first), leaves)
    return [g.tolist() for g in first]


SLOPES = {
    "of products beside two zeros": (
        lambda lib, x: lib.prod(x),
        ([0.0, NAN, 0.0, INF],),
    ),
    "of products beside one zero": (lambda lib, x: lib.prod(x), ([0.0, 3.0, INF],)),
    "of the variance of a number": (lambda lib, x: lib.var(x), (-INF,)),
    "of the variance of fewer than are counted": (
        lambda lib, x: lib.var(x, correction=3),
        ([1.0, 2.0],),
    ),
    "of xlogy at zeros": (
        lambda lib, x, y: lib.xlogy(x, y),
        ([0.0, 0.0, 2.0, 0.0], [0.0, -1.0, 3.0, NAN]),
    ),
    "of xlog1py at zeros": (
        lambda lib, x, y: lib.special.xlog1py(x, y),
        ([0.0, 0.0, 2.0, 0.0], [-1.0, -2.0, 3.0, NAN]),
    ),
    "of norms of every order but a number": (
        lambda lib, x: lib.linalg.vector_norm(x, NAN),
        ([0.0, 2.0],),
    ),
    "of cummin without elements": (lambda lib, x: lib.cummin(x, 99)[0], ([],)),
}
SECOND_SLOPES = {
    "of celu at NaN": (lambda lib, x: lib.celu(x), ([NAN, 1.0, -1.0, INF],)),
    "of norms with zeros": (lambda lib, x: lib.norm(x, 1.2), ([0.0, 2.0, -1.0],)),
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")
@pytest.mark.parametrize("name", [*SLOPES, *SECOND_SLOPES])
def test_slopes_beside_what_is_not_finite_are_pytorch_s(name):
    call, inputs = (SLOPES | SECOND_SLOPES)[name]
    ours, theirs = (
        slopes_of(lib, call, *inputs, twice=name in SECOND_SLOPES)
        for lib in (rushlight, torch)
    )
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9)


def test_infinite_parts_of_cross_products_meet_no_zeros():
    found = []
    for lib in (rushlight, torch):
        x = lib.tensor([complex(INF, 0), 1 - 1j, -1 + 3j])
        y = lib.tensor([-7 + 1j, -1 + 2j, -1 - 1j])
        found.append(lib.linalg.cross(x, y).tolist())
    assert found[0] == found[1]


def test_half_precision_rounds_a_quotient_s_number_and_no_logarithm():
    found = []
    for lib in (rushlight, torch):
        t = lib.tensor(-0.146240234375, dtype=lib.float16, requires_grad=True)
        lib.addcdiv(lib.zeros((), dtype=lib.float16), t, t, value=3.14).backward()
        x = lib.tensor([6.0], requires_grad=True)
        lib.xlogy(x, lib.tensor([0.642578125], dtype=lib.float16)).backward()
        found.append((t.grad.item(), x.grad.item()))
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_a_number_alone_is_the_first_of_none_too():
    for lib in (rushlight, torch):
        assert [t.item() for t in lib.topk(lib.tensor(5.5), 0)] == [5.5, 0]


def test_a_number_along_a_dimension_that_it_has_not_is_the_root_of_its_power():
    order = float("nan")
    for m in (rushlight, torch):
        x = m.tensor(0.5)
        assert m.linalg.vector_norm(x, order).item() == 0.5
        assert m.linalg.vector_norm(x[None], order, 0).item() == 0.5
        assert m.linalg.vector_norm(x, order, 0).isnan()


@pytest.mark.parametrize("name", ["acos", "asin"])
def test_slopes_whose_squares_overflow_are_pytorch_s(name):
    """One less an infinite square is no NaN in its other part."""
    numbers = [complex(1e30, 0.0), complex(-1e30, 1.0), complex(0.5, -0.25)]

    def slopes(m):
        x = m.tensor(numbers, dtype=m.complex64, requires_grad=True)
        y = getattr(m, name)(x)
        return m.autograd.grad(y, x, m.ones_like(y))[0].resolve_conj().numpy()

    np.testing.assert_allclose(slopes(rushlight), slopes(torch), rtol=1e-6)


def test_the_second_derivative_of_mish_is_nothing_far_out():
    for far in (100.0, 1e20, 1e30, -200.0, -1e30):
        x = rushlight.tensor(far, requires_grad=True)
        (slope,) = rushlight.autograd.grad(
            rushlight.nn.functional.mish(x), x, create_graph=True
        )
        (bend,) = rushlight.autograd.grad(slope, x)
        assert (slope.item(), bend.item()) == (float(far > 0), 0.0)
