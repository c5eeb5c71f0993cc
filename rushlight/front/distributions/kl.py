"""Kullback-Leibler divergences, in a table over pairs of classes.

``KL(p || q) = E_p[log p(x) - log q(x)]``. For pairs of different families it is minus the
entropy of ``p``, minus the expected log-density of ``q``: one function for each ``q``, fed
with the moments of ``p``.
"""

import math
import warnings

import rushlight as rl
from rushlight.distributions.bernoulli import Bernoulli
from rushlight.distributions.beta import Beta
from rushlight.distributions.binomial import Binomial
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.cauchy import Cauchy
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.dirichlet import Dirichlet
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.geometric import Geometric
from rushlight.distributions.gumbel import Gumbel
from rushlight.distributions.half_normal import HalfNormal
from rushlight.distributions.independent import Independent
from rushlight.distributions.laplace import Laplace
from rushlight.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_mahalanobis,
)
from rushlight.distributions.multivariate_normal import (
    MultivariateNormal,
    _batch_mahalanobis,
    _log_diagonal,
)
from rushlight.distributions.normal import Normal
from rushlight.distributions.one_hot_categorical import OneHotCategorical
from rushlight.distributions.pareto import Pareto
from rushlight.distributions.poisson import Poisson
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import _sum_rightmost, euler_constant
from rushlight.nn import functional as F

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict = {}  # pairs of classes to functions
_KL_MEMOIZE: dict = {}  # pairs of classes asked for to what was chosen for them


def register_kl(type_p, type_q):
    """A decorator that adds a divergence to the table.

    A pair of classes is looked up by its nearest bases. Where those of ``p`` and those of
    ``q`` lead to different functions the first is taken, with a warning; registering the
    pair itself decides.

    Args:
        type_p: class of the first law.
        type_q: class of the second.

    Raises:
        TypeError: an argument is no class.

    >>> class Point(torch.distributions.Normal):
    ...     pass
    >>> @register_kl(Point, torch.distributions.Normal)
    ... def nothing(p, q):
    ...     return torch.zeros(())
    >>> kl_divergence(Point(0.0, 1.0), torch.distributions.Normal(1.0, 1.0))
    tensor(0.)
    >>> del _KL_REGISTRY[Point, torch.distributions.Normal]
    >>> _KL_MEMOIZE.clear()
    """
    for name, cls in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(cls, type):
            raise TypeError(
                f"Expected {name} to be a Distribution subclass but got {cls}"
            )

    def decorator(fun):
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()  # what was chosen before may be farther
        return fun

    return decorator


def _dispatch_kl(type_p, type_q):
    """The function for a pair: the nearest bases of ``p`` come first, then those of ``q``."""
    steps_p = {cls: step for step, cls in enumerate(type_p.__mro__)}
    steps_q = {cls: step for step, cls in enumerate(type_q.__mro__)}
    found = [
        (steps_p[p], steps_q[q], p, q)
        for p, q in _KL_REGISTRY
        if p in steps_p and q in steps_q
    ]
    if not found:
        return None
    *_, left_p, left_q = min(found, key=lambda row: row[:2])
    *_, right_p, right_q = min(found, key=lambda row: (row[1], row[0]))
    chosen = _KL_REGISTRY[left_p, left_q]
    if chosen is not _KL_REGISTRY[right_p, right_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({left_p.__name__}, {right_q.__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return chosen


def kl_divergence(p, q):
    """The divergence ``E_p[log p(x) - log q(x)]`` of one law from another.

    Args:
        p: a `Distribution`.
        q: another, over the same events.

    Returns:
        A tensor of the shape of the batch.

    Raises:
        NotImplementedError: no function is registered for the pair.

    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    fun = _KL_MEMOIZE[pair]
    if fun is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}"
        )
    return fun(p, q)


# Two laws of one family.


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p, q):
    def term(chance, chance_q, sign):
        gap = F.softplus(-sign * q.logits) - F.softplus(-sign * p.logits)
        result = rl.where(chance_q == 0, math.inf, chance * gap)
        return rl.where(chance == 0, 0.0, result)

    return term(p.probs, q.probs, 1) + term(1 - p.probs, 1 - q.probs, -1)


@register_kl(Beta, Beta)
def _kl_beta_beta(p, q):
    return _kl_dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p, q):
    a, b = p.concentration, q.concentration
    normalizers = q._log_normalizer(b) - p._log_normalizer(a)
    mean_logs = a.digamma() - a.sum(-1, True).digamma()
    return normalizers + ((a - b) * mean_logs).sum(-1)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    successes = p.probs * (p.logits - q.logits)
    failures = (-p.probs).log1p() - (-q.probs).log1p()
    result = p.total_count * (successes + failures)
    return rl.where(p.total_count > q.total_count, math.inf, result)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    terms = rl.where(q.probs == 0, math.inf, terms)
    return rl.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p, q):
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p, q):
    squared_spread = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return squared_spread.log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p, q):
    gap = p._cont_bern_log_norm() - q._cont_bern_log_norm()
    zeros = rl.log1p(-p.probs) - rl.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + gap + zeros


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    """The Bregman divergence of the log-normalizer between the natural parameters."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be "
            "computed using Bregman divergences"
        )
    natural, normalizer, means = p._bregman_parts()
    result = q._log_normalizer(*q._natural_params) - normalizer
    batch = len(rl.broadcast_shapes(p.batch_shape, q.batch_shape))
    for own, other, mean in zip(natural, q._natural_params, means):
        term = (other - own) * mean
        # A parameter has the event's dimensions, or none beyond the batch.
        result = result - _sum_rightmost(term, term.dim() - batch)
    return result


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p, q):
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + b.lgamma()
        - a.lgamma()
        + (a - b) * a.digamma()
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p, q):
    return -p.entropy() - rl.log1p(-q.probs) / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p, q):
    ratio, gap = p.scale / q.scale, (p.loc - q.loc) / q.scale
    tail = rl.exp((1 + ratio).lgamma() - gap)
    return gap - ratio.log() + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p, q):
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p, q):
    ratio, gap = p.scale / q.scale, (p.loc - q.loc).abs()
    return gap / q.scale - ratio.log() + ratio * rl.exp(-gap / p.scale) - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    gap = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + gap - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p, q):
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return rl.where(p.scale < q.scale, math.inf, result)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return rl.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("the events span different numbers of dimensions")
    result = kl_divergence(p.base_dist, q.base_dist)
    return _sum_rightmost(result, p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    """A common bijection changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("the transforms or events are different")
    return kl_divergence(p.base_dist, q.base_dist)


# Multivariate normal laws. A covariance is a sum of products F F^T.


def _log_det(law):
    if isinstance(law, LowRankMultivariateNormal):
        return law._log_det()
    return 2 * _log_diagonal(law._unbroadcasted_scale_tril)


def _factors(law):
    if isinstance(law, LowRankMultivariateNormal):
        factor, diagonal = law._parts()
        return factor, diagonal.sqrt().diag_embed()
    return (law._unbroadcasted_scale_tril,)


def _squared_norm(matrix):
    return matrix.square().sum((-2, -1))


def _trace(q, factor):
    """``tr(S^-1 F F^T)`` where ``S`` is the covariance of ``q``."""
    if isinstance(q, LowRankMultivariateNormal):
        scaled = factor * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)
        return _squared_norm(scaled) - _squared_norm(q._whitened_factor() @ factor)
    whitened = rl.linalg.solve_triangular(
        q._unbroadcasted_scale_tril, factor, upper=False
    )
    return _squared_norm(whitened)


def _distance(q, gap):
    """``gap^T S^-1 gap`` where ``S`` is the covariance of ``q``."""
    if isinstance(q, LowRankMultivariateNormal):
        return _batch_lowrank_mahalanobis(*q._parts(), gap, q._capacitance_tril)
    return _batch_mahalanobis(q._unbroadcasted_scale_tril, gap)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different "
            f"event shapes cannot be computed: {p.event_shape} and {q.event_shape}"
        )
    traces = sum(_trace(q, factor) for factor in _factors(p))
    gap = _log_det(q) - _log_det(p) + _distance(q, q.loc - p.loc)
    return 0.5 * (gap + traces - p.event_shape[0])


# Two families: expectations of q's log-density under p.


def _x_log_x(x):
    return rl.xlogy(x, x)


def _mean_log(p):
    """``E[log x]``."""
    if isinstance(p, Beta):
        return (
            p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
        )
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1


def _mean_decay(p, loc, scale):
    """``E[exp(-(x - loc) / scale)]``."""
    if isinstance(p, Normal):
        spread = (p.scale / scale).pow(2)
        return rl.exp((loc - p.loc) / scale + 0.5 * spread)
    if isinstance(p, Gamma):
        fall = (1 + (p.rate * scale).reciprocal()).pow(-p.concentration)
        return rl.exp(loc / scale) * fall
    if isinstance(p, Exponential):
        product = p.rate * scale
        return rl.exp(loc / scale) * product / (product + 1)
    ends = rl.exp((loc - p.low) / scale) - rl.exp((loc - p.high) / scale)
    return scale / (p.high - p.low) * ends


@register_kl(Beta, ContinuousBernoulli)
def _kl_continuous_bernoulli(p, q):
    log_zero = rl.log1p(-q.probs) + q._cont_bern_log_norm()
    return -p.entropy() - p.mean * q.logits - log_zero


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _kl_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
def _kl_gamma(p, q):
    normalizer = q.concentration.lgamma() - q.concentration * q.rate.log()
    powers = (q.concentration - 1) * _mean_log(p)
    return -p.entropy() + normalizer - powers + q.rate * p.mean


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _kl_normal(p, q):
    distance = (p.variance + (p.mean - q.loc).pow(2)) / (2 * q.scale.pow(2))
    return -p.entropy() + q.scale.log() + 0.5 * math.log(2 * math.pi) + distance


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _kl_gumbel(p, q):
    gap = (p.mean - q.loc) / q.scale
    return -p.entropy() + q.scale.log() + gap + _mean_decay(p, q.loc, q.scale)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    return rl.where((q.low > 0) | (q.high < 1), math.inf, result)


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p, q):
    # PyTorch's condition: finite only where the interval ends beyond both ends.
    result = -p.entropy() + (q.high - q.low).log()
    return rl.where((q.low >= 0) | (q.high <= 1), math.inf, result)


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p, q):
    gap = p.loc - q.loc
    z = gap / p.scale
    spread = math.sqrt(2 / math.pi) * p.scale * rl.exp(-0.5 * z.pow(2))
    distance = spread + gap * rl.erf(math.sqrt(0.5) * z)
    return -p.entropy() + rl.log(2 * q.scale) + distance / q.scale


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p, q):
    return rl.where(p.alpha <= 1, math.inf, _kl_exponential(p, q))


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p, q):
    return rl.where(p.alpha <= 1, math.inf, _kl_gamma(p, q))


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p, q):
    return rl.where(p.alpha <= 2, math.inf, _kl_normal(p, q))


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p, q):
    a, b = q.concentration1, q.concentration0
    width = p.high - p.low
    mirrored = (_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / width - 1
    powers = (a - 1) * _mean_log(p) + (b - 1) * mirrored
    result = -width.log() + q._log_normalizer(a, b) - powers
    return rl.where((p.high > 1) | (p.low < 0), math.inf, result)


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p, q):
    # PyTorch's condition: infinite already where the intervals share an end.
    outside = (p.high >= 1) | (p.low <= 0)
    return rl.where(outside, math.inf, _kl_continuous_bernoulli(p, q))


@register_kl(Uniform, Exponential)
def _kl_uniform_exponential(p, q):
    return rl.where(p.low < 0, math.inf, _kl_exponential(p, q))


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p, q):
    return rl.where(p.low < 0, math.inf, _kl_gamma(p, q))


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p, q):
    constant = q.alpha.log() + q.alpha * q.scale.log()
    result = -p.entropy() - constant + (q.alpha + 1) * _mean_log(p)
    return rl.where(p.low < q.scale, math.inf, result)


# Laws that put mass where the other has none.

_REAL_LINE = (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
_HALF_LINE = (Beta, ContinuousBernoulli, Pareto, Uniform)
_BEYOND = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: _HALF_LINE,
    Gamma: _HALF_LINE,
    Gumbel: _REAL_LINE,
    Laplace: _REAL_LINE,
    Normal: _REAL_LINE,
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _kl_infinity(p, q):
    like = p.mean
    return rl.full(p.batch_shape, math.inf, dtype=like.dtype, device=like.device)


for _p, _narrower in _BEYOND.items():
    for _q in _narrower:
        register_kl(_p, _q)(_kl_infinity)
