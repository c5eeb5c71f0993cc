"""Every law beside PyTorch's, with parameters, batches and samples drawn at random."""

from __future__ import annotations

import warnings

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as rl
from tests.distributions.table import BATCHES, LAWS, Drawn, Side, assert_same

torch = pytest.importorskip("torch")
# Hypothesis draws the seed of the parameters, and the batch they fill.
EXAMPLES = settings(max_examples=3)
drawn = given(seed=st.integers(0, 2**20), batch=st.sampled_from(BATCHES))
each_law = pytest.mark.parametrize("name", LAWS)
# Polynomials of seven digits stand for Bessel functions there.
LOOSE = {
    "VonMises": {"rtol": 1e-5, "atol": 1e-6},
    "GeneralizedPareto": {"rtol": 1e-4, "atol": 1e-4},  # in single precision
}
# PyTorch's implicit gradients are fits of three or four digits.
FITTED = {
    "Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT",
    "Wishart", "LKJCholesky",
}  # fmt: skip
MOMENTS = ("mean", "mode", "variance", "stddev", "entropy", "perplexity")


def both(name, seed, batch, dtype="float64"):
    """The law on both sides, from the same arguments."""
    # The oracle compares a concentration with a single-precision zero.
    dtype = "float32" if name == "GeneralizedPareto" else dtype
    sides = []
    for module in (rl, torch):
        arguments = LAWS[name](Drawn(seed, batch))
        sides.append(Side(module, arguments, name, dtype))
    return sides


def sampled(side, shape=(3,)):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch takes regular matrices for singular
        return side.seeded(lambda: side.law.sample(shape)).detach()


def moving_samples(side):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return side.seeded(lambda: side.law.rsample((2,)))


@each_law
@EXAMPLES
@drawn
def test_shapes_flags_and_supports_are_the_same(name, seed, batch):
    ours, theirs = both(name, seed, batch)
    for attribute in ("batch_shape", "event_shape"):
        assert tuple(getattr(ours.law, attribute)) == tuple(
            getattr(theirs.law, attribute)
        )
    for attribute in ("has_rsample", "has_enumerate_support"):
        assert getattr(ours.law, attribute) == getattr(theirs.law, attribute)
    assert list(ours.law.arg_constraints) == list(theirs.law.arg_constraints)
    points = sampled(theirs).numpy()
    supports = []
    for side in (ours, theirs):
        support = side.law.support
        inside = support.check(side.tensor(points)).numpy()
        kind = type(support).__name__, support.event_dim, support.is_discrete
        supports.append((kind, inside.tolist()))
    assert supports[0] == supports[1]


@each_law
@EXAMPLES
@drawn
def test_densities_and_their_gradients_are_the_same(name, seed, batch):
    ours, theirs = both(name, seed, batch)
    points = sampled(theirs).numpy()
    results = [
        side.with_gradients(lambda s: s.law.log_prob(s.tensor(points)))
        for side in (ours, theirs)
    ]
    assert_same(*results, **LOOSE.get(name, {}))


@each_law
@EXAMPLES
@drawn
def test_moments_entropies_and_their_gradients_are_the_same(name, seed, batch):
    ours, theirs = both(name, seed, batch)
    for moment in MOMENTS:

        def asked(side, moment=moment):
            value = getattr(side.law, moment)
            return value() if callable(value) else value

        results = [side.with_gradients(asked) for side in (ours, theirs)]
        assert_same(*results, **LOOSE.get(name, {}))


@each_law
@EXAMPLES
@drawn
def test_probabilities_and_quantiles_are_the_same(name, seed, batch):
    ours, theirs = both(name, seed, batch)
    points = sampled(theirs).numpy()
    chances = numpy.array([0.05, 0.3, 0.9]).reshape(3, *[1] * len(batch))
    for method, at in (("cdf", points), ("icdf", chances)):

        def asked(side, method=method, at=at):
            return getattr(side.law, method)(side.tensor(at).to(side.law.mean.dtype))

        results = [side.with_gradients(asked) for side in (ours, theirs)]
        assert_same(*results, **{"rtol": 1e-6, **LOOSE.get(name, {})})


@each_law
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_seed_gives_the_same_samples(name, dtype):
    for seed, batch in enumerate(BATCHES):
        results = []
        for side in both(name, seed, batch, dtype):
            samples = [sampled(side, shape).numpy() for shape in ((), (2, 3))]
            results.append((*samples, side.module.rand(2).numpy()))
        for mine, other in zip(*results):
            exact = dtype == "float64" and name != "GeneralizedPareto"
            tolerance = 1e-9 if exact else 2e-5
            numpy.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance)


@each_law
def test_gradients_flow_through_samples_alike(name):
    for seed, batch in enumerate(BATCHES):
        sides = both(name, seed, batch)
        if name.startswith("Wishart"):
            sides[1] = sides[0]  # the oracle fails: it writes to what it has saved
        if not sides[1].law.has_rsample:
            assert not sides[0].law.has_rsample
            continue
        results = []
        for side in sides:
            results.append(side.with_gradients(moving_samples))
        fitted = name.split("/")[0] in FITTED
        assert_same(
            *results, rtol=5e-3 if fitted else 1e-7, atol=1e-4 if fitted else 1e-9
        )


@each_law
@EXAMPLES
@drawn
def test_expanded_laws_are_the_same_laws(name, seed, batch):
    side = both(name, seed, batch)[0]
    law = side.law
    wide = law.expand((2, *batch))
    assert type(wide) is type(law)
    assert tuple(wide.batch_shape) == (2, *batch)
    assert wide.event_shape == law.event_shape
    points = sampled(side, (2,))
    numpy.testing.assert_allclose(
        wide.log_prob(points).detach().numpy(),
        law.log_prob(points).detach().numpy(),
        rtol=1e-10,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert wide.sample((3,)).shape == (3, 2, *batch, *law.event_shape)


@each_law
def test_values_beyond_the_support_are_refused_alike(name):
    ours, theirs = both(name, 0, (2,))
    points = sampled(theirs).numpy() * numpy.nan
    outcomes = []
    for side in (ours, theirs):
        try:
            side.law.log_prob(side.tensor(points))
        except ValueError as error:
            outcomes.append(str(error).split("distribution")[0].split("(")[0])
        else:
            outcomes.append("accepted")
    assert outcomes[0] == outcomes[1]


@each_law
def test_laws_print_alike(name):
    ours, theirs = both(name, 3, (2,))
    printed = []
    for side in (ours, theirs):
        text = repr(side.law)
        printed.append(text.replace("torch.", "").replace("rushlight.", ""))
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    "name", ["Bernoulli", "Binomial/logits", "Categorical", "OneHotCategorical/logits"]
)
def test_supports_are_enumerated_alike(name):
    for batch in BATCHES:
        ours, theirs = both(name, 5, batch)
        for expand in (True, False):
            mine = ours.law.enumerate_support(expand)
            other = theirs.law.enumerate_support(expand)
            assert mine.numpy().tolist() == other.numpy().tolist()
            assert str(mine.dtype).split(".")[-1] == str(other.dtype).split(".")[-1]


def test_moments_are_those_of_the_samples():
    """Of laws that PyTorch's numbers do not vouch for: through the sampler itself."""
    rl.manual_seed(0)
    for name in (
        "Gamma",
        "Beta",
        "StudentT",
        "Binomial",
        "NegativeBinomial",
        "Poisson",
    ):
        arguments = LAWS[name](Drawn(4, ()))
        arguments.pop("df", None)
        if name == "StudentT":
            arguments["df"] = numpy.array(8.0)
        law = Side(rl, arguments, name).law
        samples = law.sample((20000,))
        spread = law.stddev.item()
        assert samples.mean().item() == pytest.approx(
            law.mean.item(), abs=0.05 * spread
        )
        assert samples.std().item() == pytest.approx(spread, rel=0.06)
