"""Every law with parameters drawn at random: recipes that both sides are made from."""

from __future__ import annotations

import numpy


class Drawn:
    """Arrays for the arguments of a law, drawn from a seed over a batch."""

    def __init__(self, seed, batch):
        self.rng = numpy.random.default_rng(seed)
        self.batch = batch

    def real(self, *event):
        return self.rng.normal(size=(*self.batch, *event))

    def positive(self, *event, low=0.2, high=4.0):
        return self.rng.uniform(low, high, size=(*self.batch, *event))

    def unit(self, *event):
        return self.rng.uniform(0.05, 0.95, size=(*self.batch, *event))

    def counts(self, most=12):
        return self.rng.integers(1, most, size=self.batch).astype(float)

    def triangle(self, size):
        below = numpy.tril(self.real(size, size), -1)
        return below + self.positive(size, low=0.5, high=2.0)[..., None] * numpy.eye(
            size
        )

    def covariance(self, size):
        factor = self.triangle(size)
        return factor @ numpy.swapaxes(factor, -1, -2)


def pair(names, kinds):
    return lambda d: {name: getattr(d, kind)() for name, kind in zip(names, kinds)}


LOC_SCALE = pair(("loc", "scale"), ("real", "positive"))
CONCENTRATIONS = pair(("concentration1", "concentration0"), ("positive", "positive"))
PROBS = pair(("probs",), ("unit",))
LOGITS = pair(("logits",), ("real",))

# Names of classes (a suffix tells recipes of one class apart) to arguments.
LAWS = {
    "Bernoulli": PROBS,
    "Bernoulli/logits": LOGITS,
    "Beta": CONCENTRATIONS,
    "Binomial": lambda d: {"total_count": d.counts(), "probs": d.unit()},
    "Binomial/logits": lambda d: {"total_count": 7, "logits": d.real()},
    "Categorical": lambda d: {"probs": d.positive(4)},
    "Categorical/logits": lambda d: {"logits": d.real(3)},
    "Cauchy": LOC_SCALE,
    "Chi2": pair(("df",), ("positive",)),
    "ContinuousBernoulli": PROBS,
    "ContinuousBernoulli/logits": LOGITS,
    "Dirichlet": lambda d: {"concentration": d.positive(3)},
    "Exponential": pair(("rate",), ("positive",)),
    "FisherSnedecor": lambda d: {
        "df1": d.positive(low=2.5, high=6.0),
        "df2": d.positive(low=4.5, high=8.0),
    },
    "Gamma": pair(("concentration", "rate"), ("positive", "positive")),
    "GeneralizedPareto": lambda d: {
        **LOC_SCALE(d),
        "concentration": d.real() * 0.4,
    },
    "Geometric": PROBS,
    "Geometric/logits": LOGITS,
    "Gumbel": LOC_SCALE,
    "HalfCauchy": pair(("scale",), ("positive",)),
    "HalfNormal": pair(("scale",), ("positive",)),
    "InverseGamma": lambda d: {
        "concentration": d.positive(low=0.5, high=5.0),
        "rate": d.positive(),
    },
    "Kumaraswamy": CONCENTRATIONS,
    "LKJCholesky": lambda d: {"dim": 3, "concentration": d.positive()},
    "Laplace": LOC_SCALE,
    "LogNormal": LOC_SCALE,
    "LogisticNormal": lambda d: {"loc": d.real(2), "scale": d.positive(2)},
    "LowRankMultivariateNormal": lambda d: {
        "loc": d.real(3),
        "cov_factor": d.real(3, 2),
        "cov_diag": d.positive(3),
    },
    "Multinomial": lambda d: {"total_count": 5, "probs": d.positive(3)},
    "Multinomial/logits": lambda d: {"total_count": 4, "logits": d.real(3)},
    "MultivariateNormal": lambda d: {
        "loc": d.real(3),
        "covariance_matrix": d.covariance(3),
    },
    "MultivariateNormal/precision": lambda d: {
        "loc": d.real(2),
        "precision_matrix": d.covariance(2),
    },
    "MultivariateNormal/factor": lambda d: {
        "loc": d.real(3),
        "scale_tril": d.triangle(3),
    },
    "NegativeBinomial": lambda d: {"total_count": d.counts(), "probs": d.unit() * 0.9},
    "NegativeBinomial/logits": lambda d: {
        "total_count": d.positive(),
        "logits": d.real(),
    },
    "Normal": LOC_SCALE,
    "OneHotCategorical": lambda d: {"probs": d.positive(3)},
    "OneHotCategorical/logits": lambda d: {"logits": d.real(4)},
    "OneHotCategoricalStraightThrough": lambda d: {"probs": d.positive(3)},
    "Pareto": lambda d: {"scale": d.positive(), "alpha": d.positive(low=2.2, high=5.0)},
    "Poisson": lambda d: {"rate": d.positive(high=20.0)},
    "RelaxedBernoulli": lambda d: {"temperature": d.positive(), "probs": d.unit()},
    "RelaxedBernoulli/logits": lambda d: {
        "temperature": d.positive(),
        "logits": d.real(),
    },
    "RelaxedOneHotCategorical": lambda d: {
        "temperature": numpy.array(0.7),
        "probs": d.positive(3),
    },
    "RelaxedOneHotCategorical/logits": lambda d: {
        "temperature": numpy.array(1.4),
        "logits": d.real(3),
    },
    "StudentT": lambda d: {"df": d.positive(low=0.5, high=6.0), **LOC_SCALE(d)},
    "Uniform": lambda d: {"low": -d.positive(), "high": d.positive()},
    "VonMises": lambda d: {"loc": d.real(), "concentration": d.positive(high=8.0)},
    "Weibull": pair(("scale", "concentration"), ("positive", "positive")),
    "Wishart": lambda d: {
        "df": d.positive(low=3.2, high=6.0),
        "covariance_matrix": d.covariance(3),
    },
    "Wishart/factor": lambda d: {
        "df": d.positive(low=2.2),
        "scale_tril": d.triangle(2),
    },
}
BATCHES = ((), (2,), (3, 1), (2, 3))


class Side:
    """One of the two modules: makes laws and numbers for it."""

    def __init__(self, module, arguments, name, dtype="float64"):
        self.module = module
        self.leaves = []
        made = {key: self.argument(value, dtype) for key, value in arguments.items()}
        if "total_count" in made:  # which nothing flows to
            self.leaves = [t for t in self.leaves if t is not made["total_count"]]
        self.law = getattr(module.distributions, name.split("/")[0])(**made)

    def argument(self, value, dtype):
        if not isinstance(value, numpy.ndarray):
            return value
        tensor = self.module.tensor(value.tolist(), dtype=getattr(self.module, dtype))
        self.leaves.append(tensor.requires_grad_())
        return tensor

    def tensor(self, array):
        return self.module.from_numpy(numpy.ascontiguousarray(array)).reshape(
            array.shape
        )

    def seeded(self, function):
        self.module.manual_seed(11)
        return function()

    def with_gradients(self, function):
        """What a function of the law gives, and its gradients by the arguments."""
        try:
            return self._with_gradients(function)
        except NotImplementedError:
            return "not implemented"

    def _with_gradients(self, function):
        out = function(self)
        results = [out.detach().numpy()]
        if out.requires_grad and out.is_floating_point() and self.leaves:
            weights = self.module.arange(1, out.numel() + 1, dtype=out.dtype)
            total = (out * weights.reshape(out.shape)).sum()
            grads = self.module.autograd.grad(
                total, self.leaves, allow_unused=True, retain_graph=True
            )
            results += [None if g is None else g.numpy() for g in grads]
        return results


def assert_same(ours, theirs, rtol=1e-7, atol=1e-9):
    """Results of `with_gradients` are equal; NaN where NaN is."""
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs
        return
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        if one is None or other is None:  # unused on one side: zero on the other
            rest = other if one is None else one
            assert rest is None or not numpy.any(rest)
            continue
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        numpy.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
