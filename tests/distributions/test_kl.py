"""Divergences of all pairs beside PyTorch's, and how they are looked up."""

from __future__ import annotations

import warnings

import numpy
import pytest

import rushlight as rl
from rushlight import distributions as D
from tests.distributions.table import LAWS, Drawn, Side, assert_same

torch = pytest.importorskip("torch")
THEIRS = torch.distributions.kl._KL_REGISTRY
NAMES = sorted({(p.__name__, q.__name__) for p, q in THEIRS})
PAIRS = [pair for pair in NAMES if pair[0] in LAWS and pair[1] in LAWS]


def test_the_same_pairs_are_registered():
    ours = {(p.__name__, q.__name__) for p, q in D.kl._KL_REGISTRY}
    assert ours == set(NAMES)


def drawn(name, seed, batch):
    arguments = LAWS[name](Drawn(seed, batch))
    if name.startswith("Binomial"):
        arguments["total_count"] = numpy.array(9.0)
    return arguments


@pytest.mark.parametrize(("left", "right"), PAIRS, ids=map("-".join, PAIRS))
def test_divergences_and_their_gradients_are_the_same(left, right):
    for seed, batch in enumerate([(), (3,)]):
        results = []
        for module in (rl, torch):
            p = Side(module, drawn(left, seed, batch), left)
            q = Side(module, drawn(right, seed + 50, batch), right)
            p.leaves += q.leaves
            kl = module.distributions.kl_divergence
            results.append(p.with_gradients(lambda _: kl(p.law, q.law)))  # noqa: B023
        if left == right == "Wishart" and batch:
            continue  # there the second parameter's term is summed over the batch
        assert_same(*results, rtol=1e-6)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (D.Normal(0.3, 1.2), D.Laplace(0.5, 0.8)),
        (D.Gamma(2.0, 1.5), D.Normal(1.0, 2.0)),
        (D.Gumbel(0.1, 0.6), D.Normal(1.0, 2.0)),
        (D.Exponential(1.3), D.Gumbel(0.5, 2.0)),
        (D.Uniform(0.2, 0.8), D.Beta(2.0, 3.0)),
        (D.Uniform(1.5, 2.5), D.Pareto(1.0, 2.0)),
        (D.Beta(2.0, 3.0), D.ContinuousBernoulli(0.3)),
        (D.Pareto(1.0, 4.0), D.Gamma(2.0, 1.5)),
        (D.Poisson(3.0), D.Poisson(4.0)),
        (
            D.Independent(D.Normal(rl.zeros(2), 1.0), 1),
            D.Independent(D.Normal(1.0, rl.ones(2)), 1),
        ),
    ],
    ids=lambda law: type(law).__name__,
)
def test_divergences_are_expected_differences_of_densities(p, q):
    rl.manual_seed(0)
    x = p.sample((40000,))
    terms = p.log_prob(x) - q.log_prob(x)
    error = 6 * terms.std().item() / 200
    expected = D.kl_divergence(p, q).item()
    assert terms.mean().item() == pytest.approx(expected, abs=error)


def test_a_batch_of_wishart_laws_is_what_its_laws_are():
    factors = rl.tensor(Drawn(1, (3,)).triangle(2))
    df = rl.tensor([3.0, 4.0, 5.5], dtype=rl.float64)
    together = D.kl_divergence(
        D.Wishart(df, scale_tril=factors), D.Wishart(df + 1, scale_tril=factors.flip(0))
    )
    for i in range(3):
        alone = D.kl_divergence(
            D.Wishart(df[i], scale_tril=factors[i]),
            D.Wishart(df[i] + 1, scale_tril=factors[2 - i]),
        )
        assert together[i].item() == pytest.approx(alone.item())


def test_infinite_masses_broadcast_with_both_batches():
    p = D.Beta(rl.tensor([[1.0], [4.0]]), rl.tensor([0.9, 2.0]))
    q = D.Uniform(rl.tensor([0.0, 1.0]), rl.tensor([1.0, 3.0]))
    infinite = D.kl_divergence(p, q).isinf().tolist()
    assert infinite == [[False, True], [False, True]]


@pytest.fixture
def table():
    """The registry, put back afterwards."""
    kept = dict(D.kl._KL_REGISTRY)
    yield
    D.kl._KL_REGISTRY.clear()
    D.kl._KL_REGISTRY.update(kept)
    D.kl._KL_MEMOIZE.clear()


@pytest.mark.usefixtures("table")
def test_the_nearest_bases_are_chosen():
    class Own(D.Normal):
        pass

    p, q = Own(0.0, 1.0), D.Normal(1.0, 1.0)
    assert D.kl_divergence(p, q).item() == 0.5

    @D.register_kl(Own, D.Normal)
    def _kl(p, q):
        return "near"

    assert D.kl_divergence(p, q) == "near"
    assert D.kl_divergence(p, p) == "near"
    assert D.kl_divergence(q, p).item() == 0.5


@pytest.mark.usefixtures("table")
def test_ambiguous_pairs_are_warned_about():
    class Own(D.Normal):
        pass

    D.register_kl(Own, D.Normal)(lambda p, q: "left")
    D.register_kl(D.Normal, Own)(lambda p, q: "right")
    law = Own(0.0, 1.0)
    with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Own, Own\)"):
        assert D.kl_divergence(law, law) == "left"
    D.register_kl(Own, Own)(lambda p, q: "own")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert D.kl_divergence(law, law) == "own"


def test_pairs_without_a_formula_are_not_implemented():
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(D.Cauchy(0.0, 1.0), D.Normal(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="different exponential families"):
        D.kl_divergence(D.Gamma(1.0, 1.0), D.Dirichlet(rl.ones(2)))
    with pytest.raises(
        TypeError, match="Expected type_p to be a Distribution subclass"
    ):
        D.register_kl(3, D.Normal)


def test_chi_squared_laws_are_gamma_laws():
    p, q = D.Chi2(rl.tensor(3.0)), D.Gamma(2.0, 1.0)
    expected = torch.distributions.kl_divergence(
        torch.distributions.Chi2(torch.tensor(3.0)), torch.distributions.Gamma(2.0, 1.0)
    )
    assert D.kl_divergence(p, q).item() == pytest.approx(expected.item(), rel=1e-6)
