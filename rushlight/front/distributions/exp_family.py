"""Exponential families: densities that are linear in natural parameters."""

import rushlight as rl
from rushlight.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A law of density ``exp(<t(x), theta> - F(theta) + k(x))``.

    A derived class gives the natural parameters ``theta`` as ``_natural_params``, the
    log-normalizer ``F`` as ``_log_normalizer`` and the expected carrier measure ``k`` as
    ``_mean_carrier_measure``. Entropy and divergence follow: the gradient of ``F`` is the
    mean of ``t``. (F. Nielsen, R. Nock: Entropies and cross-entropies of exponential
    families, 2010.)

    Args:
        batch_shape: the sizes of a batch of laws.
        event_shape: the sizes of one value.
        validate_args: whether arguments are checked.

    >>> isinstance(torch.distributions.Normal(0.0, 1.0), torch.distributions.ExponentialFamily)
    True
    """

    @property
    def _natural_params(self):
        raise NotImplementedError(f"{type(self).__name__} must define _natural_params")

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError(f"{type(self).__name__} must define _log_normalizer")

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError(
            f"{type(self).__name__} must define _mean_carrier_measure"
        )

    def _bregman_parts(self):
        """Natural parameters cut from the graph, ``F`` of them, and its gradients."""
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        with rl.enable_grad():
            means = rl.autograd.grad(normalizer.sum(), natural, create_graph=True)
        return natural, normalizer, means

    def entropy(self):
        """``F(theta) - <theta, grad F> - E[k]``."""
        carrier = -self._mean_carrier_measure
        natural, result, means = self._bregman_parts()
        result = result + carrier
        for parameter, mean in zip(natural, means):
            result = result - (parameter * mean).reshape(*self._batch_shape, -1).sum(-1)
        return result
