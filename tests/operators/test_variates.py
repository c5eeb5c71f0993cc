"""Gamma, Dirichlet, Poisson and binomial numbers are PyTorch's, and so are gradients."""

import numpy
import pytest

import rushlight as rl
from rushlight.operators import call

torch = pytest.importorskip("torch")

RATES = numpy.concatenate(
    [
        numpy.geomspace(1e-3, 1e5, 40),
        numpy.linspace(0.05, 12.0, 60),
        [0.0, 1.0, 2.0, 9.999, 10.0],
    ]
)


def drawn(name, dtype, *arrays):
    """What both sides draw from the same seed, and the number that comes next."""
    results = []
    for m, source in ((rl, call), (torch, torch)):
        tensors = [m.from_numpy(array.astype(dtype)) for array in arrays]
        m.manual_seed(7)
        result = getattr(source, name)(*tensors).numpy()
        results.append((result, m.rand(3).numpy(), m.randn(1).numpy()))
    return results


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["_standard_gamma", "poisson"])
def test_numbers_of_given_rates_are_drawn_from_the_same_words(name, dtype):
    (ours, *after), (theirs, *expected) = drawn(name, dtype, RATES)
    numpy.testing.assert_array_equal(ours, theirs)
    numpy.testing.assert_array_equal(
        numpy.concatenate(after), numpy.concatenate(expected)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dirichlet_numbers_are_drawn_from_the_same_words(dtype):
    (ours, *after), (theirs, *expected) = drawn(
        "_sample_dirichlet", dtype, RATES[:100].reshape(20, 5) + 1e-3
    )
    # float64 rows are summed in an order of their own.
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-15)
    numpy.testing.assert_array_equal(
        numpy.concatenate(after), numpy.concatenate(expected)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_binomial_counts_are_drawn_from_the_same_words(dtype):
    trials = numpy.floor(numpy.geomspace(1, 1.5e7, 400))
    chances = numpy.resize([0.5, 1e-3, 0.2, 0.99, 0.7, 0.0, 1.0, 0.03], 400)
    (ours, *after), (theirs, *expected) = drawn("binomial", dtype, trials, chances)
    numpy.testing.assert_array_equal(ours, theirs)
    numpy.testing.assert_array_equal(
        numpy.concatenate(after), numpy.concatenate(expected)
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_poisson_counts_of_half_precision_are_the_same(dtype):
    results = []
    for m in (rl, torch):
        rates = m.arange(100).to(getattr(m, dtype)) * 0.5
        m.manual_seed(3)
        results.append(m.poisson(rates).to(m.float32).numpy())
    numpy.testing.assert_array_equal(*results)


def test_shapes_laid_out_in_columns_are_read_in_order():
    rates = RATES[:100].reshape(10, 10)
    results = []
    for m, source in ((rl, call), (torch, torch)):
        m.manual_seed(1)
        results.append(source._standard_gamma(m.from_numpy(rates).t()).numpy())
    numpy.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("poisson", ([-1.0],)),
        ("poisson", ([float("nan")],)),
        ("poisson", ([1],)),
        ("binomial", ([1], [1])),
        ("_standard_gamma", ([1],)),
        ("_sample_dirichlet", ([1],)),
    ],
)
def test_parameters_without_a_law_are_refused_as_there(name, arguments):
    with pytest.raises(Exception) as theirs:
        getattr(torch, name)(*map(torch.tensor, arguments))
    with pytest.raises(theirs.type, match=str(theirs.value).splitlines()[0][:30]):
        getattr(call, name)(*map(rl.tensor, arguments))


@pytest.mark.parametrize("shape", [0.02, 0.5, 1.0, 3.7, 40.0, 900.0, 9e4, 1.1e5])
@pytest.mark.parametrize("quantile", [0.001, 0.2, 0.5, 0.9, 0.999])
def test_gamma_numbers_move_along_their_quantile(shape, quantile):
    special = pytest.importorskip("scipy.special")
    x = special.gammaincinv(shape, quantile)
    if x < 1e-280:
        pytest.skip("the quantile underflows")
    step = shape * 1e-4
    low, high = (special.gammaincinv(shape + d, quantile) for d in (-step, step))
    ours = call._standard_gamma_grad(rl.tensor(shape).double(), rl.tensor(x).double())
    assert ours.item() == pytest.approx((high - low) / (2 * step), rel=2e-5)


@pytest.mark.parametrize("a", [0.05, 0.7, 2.0, 30.0, 2000.0])
@pytest.mark.parametrize("b", [0.1, 1.0, 6.5, 400.0])
@pytest.mark.parametrize("quantile", [0.01, 0.5, 0.97])
def test_beta_numbers_move_along_their_quantile(a, b, quantile):
    special = pytest.importorskip("scipy.special")
    x = special.betaincinv(a, b, quantile)
    if not 1e-280 < x < 1 - 1e-12:
        pytest.skip("the quantile is at an end")
    step = a * 1e-4
    low, high = (special.betaincinv(a + d, b, quantile) for d in (-step, step))
    arguments = [rl.tensor(v, dtype=rl.float64) for v in (x, a, a + b)]
    ours = call._dirichlet_grad(*arguments).item() * (1 - x)
    assert ours == pytest.approx((high - low) / (2 * step), rel=1e-4)


def test_gradients_are_close_to_the_approximate_ones():
    shapes = torch.linspace(0.3, 6.0, 60).reshape(12, 5).double()
    torch.manual_seed(0)
    samples = torch._sample_dirichlet(shapes)
    total = shapes.sum(-1, True).expand_as(shapes)
    theirs = torch._dirichlet_grad(samples, shapes, total).numpy()
    arrays = [t.contiguous().numpy() for t in (samples, shapes, total)]
    ours = call._dirichlet_grad(*map(rl.from_numpy, arrays)).numpy()
    numpy.testing.assert_allclose(ours, theirs, rtol=5e-3)
    gammas = torch._standard_gamma(shapes)
    theirs = torch._standard_gamma_grad(shapes, gammas).numpy()
    arrays = [t.numpy() for t in (shapes, gammas)]
    ours = call._standard_gamma_grad(*map(rl.from_numpy, arrays)).numpy()
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-3)


def test_counts_have_no_gradient_and_samples_have():
    rate = rl.tensor([3.0, 4.0], requires_grad=True)
    rl.poisson(rate).sum().backward()
    assert rate.grad.tolist() == [0.0, 0.0]
    shape = rl.tensor([3.0, 4.0], requires_grad=True)
    (share, _) = call._sample_dirichlet(shape)
    share.backward()
    # The share of the first grows with its own concentration, and falls with the other.
    assert shape.grad[0] > 0 > shape.grad[1]


def test_broadcasting_gives_back_what_has_the_shape():
    a = rl.ones(2, requires_grad=True)
    assert rl.broadcast_tensors(a, rl.tensor(1.0))[0] is a
