"""Laws under vmap, grad and jvp, with checks of arguments on."""

from __future__ import annotations

import numpy
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def number(module, x):
    return module.tensor(x, dtype=module.float64)


def divergence(module, c):
    d = module.distributions
    return d.kl_divergence(d.Dirichlet(c), d.Dirichlet(module.ones_like(c)))


# What is transformed, and the transformed function's value at one point.
PROGRAMS = {
    "densities of a batch of values": lambda m, d: m.func.vmap(
        lambda x: d.Normal(number(m, 0.0), 1.0).log_prob(x)
    )(number(m, [0.0, 1.0, 2.0])),
    "entropies of a batch of laws": lambda m, d: m.func.vmap(
        lambda p: d.Bernoulli(p).entropy()
    )(number(m, [0.2, 0.5, 0.7])),
    "gradients of a batch of divergences": lambda m, d: m.func.vmap(
        m.func.grad(lambda c: divergence(m, c))
    )(number(m, [[2.0, 1.0], [0.5, 3.0]])),
    "a curvature": lambda m, d: m.func.hessian(
        lambda loc: d.Normal(loc, 1.0).log_prob(number(m, 0.3))
    )(number(m, 0.5)),
    "a slope along a direction": lambda m, d: m.func.jvp(
        lambda c: d.Gamma(c, 1.0).log_prob(number(m, 0.3)),
        (number(m, 0.5),),
        (number(m, 1.0),),
    )[1],
    "a Jacobian of no dimensions": lambda m, d: m.func.jacrev(
        lambda x: d.Laplace(x, 1.0).cdf(number(m, 0.3))
    )(number(m, 0.5)),
}


# The oracle compiles its forward formulas in a way that it deprecates.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_transformed_laws_are_pytorchs(name):
    ours, theirs = (PROGRAMS[name](m, m.distributions) for m in (rl, torch))
    assert tuple(ours.shape) == tuple(theirs.shape)
    numpy.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy())


def test_samples_of_a_batch_are_different_where_that_is_asked_for():
    laws = rl.full((4,), 2.0)
    draw = rl.func.vmap(
        lambda c: rl.distributions.Gamma(c, 1.0).rsample(), randomness="different"
    )
    assert len(set(draw(laws).tolist())) == 4


def test_one_bad_example_is_refused():
    with pytest.raises(RuntimeError, match="vmap"):
        rl.func.vmap(lambda p: rl.distributions.Bernoulli(p).entropy())(rl.arange(3.0))
