"""What laws refuse, how they are derived from, and the helpers beneath them."""

from __future__ import annotations

import numpy
import pytest

import rushlight as rl
from rushlight import distributions as D
from rushlight.distributions import utils
from tests.distributions.table import LAWS, Drawn, Side

torch = pytest.importorskip("torch")

# Programs that are refused; `m` is the module, `d` its distributions.
REFUSED = {
    "a negative scale": lambda m, d: d.Normal(0.0, m.tensor([1.0, -1.0])),
    "a probability above one": lambda m, d: d.Bernoulli(m.tensor(1.5)),
    "neither probs nor logits": lambda m, d: d.Bernoulli(),
    "both probs and logits": lambda m, d: d.Geometric(0.5, 0.5),
    "no categories": lambda m, d: d.Categorical(m.tensor(0.5)),
    "no categories of logits": lambda m, d: d.Categorical(logits=m.tensor(0.5)),
    "an impossible success": lambda m, d: d.Geometric(m.tensor([0.0, 0.5])),
    "no concentrations": lambda m, d: d.Dirichlet(m.tensor(1.0)),
    "an empty interval": lambda m, d: d.Uniform(1.0, 0.0),
    "text for a number": lambda m, d: d.Normal("0", 1.0),
    "several counts": lambda m, d: d.Multinomial(m.tensor([2.0]), m.tensor([0.5, 0.5])),
    "half a trial": lambda m, d: d.Binomial(1.5, m.tensor(0.5)),
    "a matrix of one": lambda m, d: d.LKJCholesky(1),
    "a number for a vector": lambda m, d: d.MultivariateNormal(
        m.tensor(0.0), scale_tril=m.eye(1)
    ),
    "no covariance": lambda m, d: d.MultivariateNormal(m.zeros(2)),
    "a vector of variances": lambda m, d: d.MultivariateNormal(
        m.zeros(2), covariance_matrix=m.ones(2)
    ),
    "an indefinite covariance": lambda m, d: d.MultivariateNormal(
        m.zeros(2), covariance_matrix=-m.eye(2)
    ),
    "an upper triangle": lambda m, d: d.MultivariateNormal(
        m.zeros(2), scale_tril=m.ones(2, 2)
    ),
    "too few degrees of freedom": lambda m, d: d.Wishart(
        0.5, covariance_matrix=m.eye(2)
    ),
    "no matrix at all": lambda m, d: d.Wishart(m.tensor(3.0)),
    "a diagonal too long": lambda m, d: d.LowRankMultivariateNormal(
        m.zeros(2), m.ones(2, 1), m.ones(3)
    ),
    "a factor of other rows": lambda m, d: d.LowRankMultivariateNormal(
        m.zeros(2), m.ones(3, 1), m.ones(2)
    ),
    "a batch too small": lambda m, d: d.Independent(d.Normal(0.0, 1.0), 1),
    "no weights": lambda m, d: d.MixtureSameFamily(
        d.Normal(0.0, 1.0), d.Normal(0.0, 1.0)
    ),
    "other numbers of components": lambda m, d: d.MixtureSameFamily(
        d.Categorical(m.ones(3)), d.Normal(m.zeros(2), m.ones(2))
    ),
    "batches of other sizes": lambda m, d: d.MixtureSameFamily(
        d.Categorical(m.ones(3, 2)), d.Normal(m.zeros(4, 2), m.ones(4, 2))
    ),
    "no transform": lambda m, d: d.TransformedDistribution(d.Normal(0.0, 1.0), "exp"),
    "a list with no transform": lambda m, d: d.TransformedDistribution(
        d.Normal(0.0, 1.0), ["exp"]
    ),
    "a number as a vector": lambda m, d: d.TransformedDistribution(
        d.Normal(0.0, 1.0), d.StickBreakingTransform()
    ),
    "a value of no tensor": lambda m, d: d.Normal(0.0, 1.0).log_prob(0.0),
    "a value out of the support": lambda m, d: d.Exponential(1.0).log_prob(
        m.tensor(-1.0)
    ),
    "numbers that sum to more than one": lambda m, d: d.RelaxedOneHotCategorical(
        m.tensor(1.0), m.tensor([0.5, 0.5])
    ).log_prob(m.tensor([0.7, 0.7])),
    "a mixture's value out of the support": lambda m, d: d.MixtureSameFamily(
        d.Categorical(m.ones(2)), d.Exponential(m.ones(2))
    ).log_prob(m.tensor(-1.0)),
    "a number that is no score": lambda m, d: (
        d.relaxed_categorical.ExpRelaxedCategorical(
            m.tensor(1.0), m.tensor([0.5, 0.5])
        ).log_prob(m.tensor([float("nan"), 0.7]))
    ),
    "an event of another size": lambda m, d: d.Dirichlet(m.ones(3)).log_prob(
        m.ones(2) / 2
    ),
    "a batch of another size": lambda m, d: d.Normal(m.zeros(3), 1.0).log_prob(
        m.zeros(2)
    ),
    "counts of several": lambda m, d: d.Binomial(
        m.tensor([3.0, 4.0]), m.tensor(0.5)
    ).enumerate_support(),
    "a default that is no bool": lambda m, d: d.Distribution.set_default_validate_args(
        2
    ),
    "an abstract law's density": lambda m, d: d.Distribution().log_prob(m.zeros(1)),
    "events as enumerations": lambda m, d: d.Independent(
        d.Bernoulli(m.ones(2) / 2), 1
    ).enumerate_support(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_pytorchs(name):
    with pytest.raises(Exception) as theirs:
        REFUSED[name](torch, torch.distributions)
    with pytest.raises(Exception) as ours:
        REFUSED[name](rl, D)
    assert ours.type is theirs.type
    # Nearly the words: those that PyTorch's message begins with.
    expected = str(theirs.value).split("\n")[0]
    if expected and name != "a default that is no bool":
        beginning = str(ours.value).strip().lower()[:20]
        assert beginning == expected.strip().lower()[:20]


def test_checks_can_be_turned_off():
    law = D.Normal(0.0, -1.0, validate_args=False)
    assert law.log_prob(rl.tensor(0.0)).isnan()
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Bernoulli(2.0).probs.item() == 2
    finally:
        D.Distribution.set_default_validate_args(True)


def test_laws_made_of_laws_pass_on_that_nothing_is_checked():
    def densities(m, d):
        parts = d.Exponential(m.tensor([1.0, 2.0]), validate_args=False)
        mixture = d.MixtureSameFamily(
            d.Categorical(m.ones(2)), parts, validate_args=False
        )
        below = m.tensor(-1.0)
        return [
            mixture.log_prob(below).item(),
            repr(d.LogNormal(0.0, 1.0, validate_args=False).log_prob(below).item()),
            d.Dirichlet(m.tensor([[0.5, 0.5], [2.0, 3.0]])).mode.tolist(),
            d.PowerTransform(m.tensor(2.0)) == d.PowerTransform(m.tensor(3.0)),
            d.AffineTransform(0.0, 0.5).sign,
        ]

    assert densities(rl, D) == densities(torch, torch.distributions)


def test_a_law_of_ones_own_expands_if_it_says_how():
    class Plain(D.Normal):
        pass

    assert type(Plain(0.0, 1.0).expand((2,))) is Plain

    class Shifted(D.Normal):
        def __init__(self, shift):
            super().__init__(shift + 1.0, 1.0)

    with pytest.raises(NotImplementedError, match="must also define a custom .expand"):
        Shifted(0.0).expand((2,))

    class Able(Shifted):
        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Able, _instance)
            return super().expand(batch_shape, _instance=new)

    wide = Able(1.0).expand((3,))
    assert type(wide) is Able
    assert wide.mean.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.filterwarnings("ignore")
def test_a_law_of_ones_own_needs_only_its_methods():
    class Doubled(D.Distribution):
        arg_constraints = {"rate": D.constraints.positive}
        support = D.constraints.nonnegative
        has_rsample = True

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape)

        def rsample(self, sample_shape=()):
            shape = self._extended_shape(sample_shape)
            return 2 * rl.rand(shape) / self.rate

    assert repr(Doubled(rl.ones(2))) == "Doubled(rate: Size([2]))".replace(
        "Size", str(rl.Size([2])).split("(")[0]
    )
    assert Doubled(rl.ones(2)).sample((3,)).shape == (3, 2)
    with pytest.raises(ValueError, match="Expected parameter rate"):
        Doubled(-rl.ones(2))
    with pytest.raises(NotImplementedError):
        Doubled(rl.ones(2)).expand((2, 2))


def test_laws_without_constraints_are_warned_about():
    class Bare(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        Bare()


def test_sample_n_is_an_old_name():
    with pytest.warns(FutureWarning, match="sample_n"):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_entropy_and_divergence_follow_from_natural_parameters():
    for law, other in (
        (D.Normal(0.3, 1.2), D.Normal(0.5, 0.4)),
        (D.Gamma(2.0, 1.5), D.Gamma(1.0, 3.0)),
        (D.Exponential(1.5), D.Exponential(0.5)),
    ):
        entropy = D.ExponentialFamily.entropy(law).item()
        assert entropy == pytest.approx(law.entropy().item(), rel=1e-5)
        general = D.kl._kl_expfamily_expfamily(law, other).item()
        assert general == pytest.approx(D.kl_divergence(law, other).item(), rel=1e-5)


def test_mixtures_of_vectors_are_sampled_as_there():
    arrays = Drawn(3, (2, 4)).real(3), Drawn(4, (2, 4)).positive(3)
    weights = Drawn(5, (2,)).positive(4)
    outcomes = []
    for m in (rl, torch):
        d = m.distributions
        parts = d.Independent(d.Normal(*map(m.from_numpy, arrays)), 1)
        law = d.MixtureSameFamily(d.Categorical(m.from_numpy(weights)), parts)
        m.manual_seed(2)
        x = law.sample((5,))
        values = [x, law.log_prob(x), law.mean, law.variance, law.stddev]
        values.append(law.expand((3, 2)).mean)
        outcomes.append([v.numpy() for v in values])
    for mine, other in zip(*outcomes):
        numpy.testing.assert_allclose(mine, other, rtol=1e-9)
    assert "MixtureSameFamily(\n  Categorical(" in repr(
        D.MixtureSameFamily(D.Categorical(rl.ones(2)), D.Normal(rl.zeros(2), 1.0))
    )


def test_transformed_laws_broadcast_and_expand():
    outcomes = []
    for m in (rl, torch):
        d = m.distributions
        shift = d.AffineTransform(m.tensor([0.0, 1.0, 2.0]), 2.0)
        law = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.ExpTransform(), shift])
        wide = law.expand((2, 3))
        x = m.tensor([1.5, 2.0, 4.0])
        values = [
            law.log_prob(x),
            law.cdf(x),
            law.icdf(m.tensor(0.3)),
            wide.log_prob(x),
        ]
        turned = d.TransformedDistribution(
            d.Uniform(0.0, 1.0), [d.AffineTransform(1.0, -1.0), d.SigmoidTransform()]
        )
        values += [turned.cdf(m.tensor(0.6)), turned.icdf(m.tensor(0.6))]
        outcomes.append([tuple(law.batch_shape), *(v.numpy().tolist() for v in values)])
    assert outcomes[0][0] == outcomes[1][0]
    for mine, other in zip(outcomes[0][1:], outcomes[1][1:]):
        numpy.testing.assert_allclose(mine, other, rtol=1e-6)


def test_probabilities_become_logits_and_back():
    probs = rl.tensor([0.0, 0.2, 1.0])
    for binary in (True, False):
        theirs = torch.distributions.utils.probs_to_logits(
            torch.tensor([0.0, 0.2, 1.0]), binary
        )
        ours = utils.probs_to_logits(probs, binary)
        numpy.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)
    assert utils.logits_to_probs(rl.zeros(4)).tolist() == [0.25] * 4


@pytest.mark.parametrize("diag", [-2, -1, 0, 1])
def test_triangles_become_vectors_and_back(diag):
    matrix = rl.arange(32.0).reshape(2, 4, 4) + 1
    vector = utils.tril_matrix_to_vec(matrix, diag)
    theirs = torch.distributions.utils.tril_matrix_to_vec(
        torch.from_numpy(matrix.numpy()), diag
    )
    assert vector.tolist() == theirs.tolist()
    if diag <= 0:
        again = utils.vec_to_tril_matrix(vector, diag)
        assert again.tolist() == matrix.tril(diag).tolist()
    with pytest.raises(ValueError, match="outside"):
        utils.tril_matrix_to_vec(matrix, 4)
    with pytest.raises(ValueError, match="lower triangular part"):
        utils.vec_to_tril_matrix(rl.ones(5), 0)


def test_lazy_attributes_are_properties_of_the_class():
    assert isinstance(D.Bernoulli.logits, property)
    law = D.Bernoulli(0.25)
    assert "logits" not in vars(law)
    with rl.no_grad():
        probs = rl.tensor(0.25, requires_grad=True)
        assert D.Bernoulli(probs).logits.requires_grad
    assert law.logits is law.logits


def turned(value):
    """An argument below nothing, where it is a number or an array of them."""
    floats = isinstance(value, (float, numpy.ndarray))
    return -1.5 - numpy.abs(value) if floats else value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAWS)
def test_parameters_are_looked_at_where_pytorch_s_are_and_when_it_is_wanted(name):
    arguments = LAWS[name](Drawn(5, (2,)))

    def outcomes(module):
        found = []
        for wrong in arguments:
            for checks in (True, False):
                given = {**arguments, wrong: turned(arguments[wrong])}
                given["validate_args"] = checks
                try:
                    law = Side(module, given, name, "float32").law
                    sizes = tuple(law.batch_shape + law.event_shape)
                    law.log_prob(module.full(sizes, -1.5))
                    found.append(None)
                except Exception as error:
                    found.append(type(error).__name__)
        return found

    assert outcomes(rl) == outcomes(torch)


def test_a_transform_with_more_parameters_than_the_base_expands_its_batch():
    def law(m, d):
        base = d.Independent(d.Normal(m.zeros(3), 1.0), 1)
        step = d.AffineTransform(m.arange(12.0).reshape(4, 3), 2.0, event_dim=1)
        made = d.TransformedDistribution(base, [step])
        shapes = tuple(made.batch_shape), tuple(made.event_shape)
        return shapes, made.log_prob(m.ones(3)).tolist()

    (shapes, ours), (expected, theirs) = law(rl, D), law(torch, torch.distributions)
    assert shapes == expected == ((4,), (3,))
    assert ours == pytest.approx(theirs)
