"""Random numbers of given parameters: gamma, Dirichlet, Poisson and binomial.

They come from `random.variates`, in PyTorch's stream; how gamma and Dirichlet numbers move
with their parameters, from `random.implicit`.
"""

from rushlight.core.dtypes import float64
from rushlight.core.geometry import broadcast_sizes
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import host_address, scalar_name
from rushlight.operators.random.sampling import FLOATS
from rushlight.operators.shared import has_elements, not_implemented
from rushlight.random import implicit, variates

DOUBLE = 7
LEAST = {6: 1.1754943508222875e-38, 7: 2.2250738585072014e-308}
BELOW_ONE = {6: 1 - 2**-24, 7: 1 - 2**-53}


def _check_dtype(self, kernel, accepted=(6, DOUBLE)):
    if self.dtype.code not in accepted:
        raise NotImplementedError(
            f"\"{kernel}\" not implemented for '{scalar_name(self.dtype)}'\n"
            f"  self: {self.dtype}{list(self.shape)} on {self.device}"
        )


def _check_same(expected, *others):
    for other in others:
        if other.dtype is not expected.dtype:
            raise RuntimeError(
                f"Found dtype {scalar_name(other.dtype)} but expected "
                f"{scalar_name(expected.dtype)}"
            )


def _fresh(self, shape=None):
    """A contiguous tensor for the result, and whether there is anything to draw."""
    result = ops.empty(
        self.shape if shape is None else shape, dtype=self.dtype, device=self.device
    )
    return result, has_elements(result)


def _filled(fill, result, inputs, generator=(), extra=()):
    """Calls a function of `core` with row-major inputs of the result's shape."""
    rows = [ops.contiguous(ops.expand(x, result.shape)) for x in inputs]
    fill(
        *generator,
        host_address(result),
        result.numel(),
        result.dtype.code,
        *(host_address(row) for row in rows),
        *extra,
    )
    return result


def standard_gamma(self, generator):
    """Gamma numbers of unit rate."""
    _check_dtype(self, "gamma_cpu")
    result, some = _fresh(self)
    if some:
        single = self.dtype.code != DOUBLE
        _filled(variates.fill_gamma, result, [self], (generator,), (single,))
    return result


def standard_gamma_grad(self, output):
    """Their derivatives by the shapes."""
    _check_dtype(self, "_standard_gamma_grad_cpu")
    _check_same(self, output)
    result, some = _fresh(self, broadcast_sizes([self.shape, output.shape]))
    if some:
        _filled(implicit.fill_gamma_gradient, result, [self, output])
    return result


def sample_dirichlet(self, generator):
    """Gamma numbers over their sum, in float64 until the end, within (0, 1)."""
    code = self.dtype.code
    _check_dtype(self, "dirichlet")
    result, some = _fresh(self)
    if not some:
        return result
    shapes = ops.to(self, float64)
    wide = ops.empty(self.shape, dtype=float64)
    _filled(variates.fill_gamma, wide, [shapes], (generator,), (False,))
    shares = ops.to(ops.div(wide, ops.sum(wide, -1, True)), self.dtype)
    return ops.clamp(shares, LEAST[code], BELOW_ONE[code])


def dirichlet_grad(x, alpha, total):
    """Derivatives of beta numbers by their first parameter, over ``1 - x``."""
    _check_dtype(x, "_dirichlet_grad_cpu")
    _check_same(x, alpha, total)
    sizes = broadcast_sizes([x.shape, alpha.shape, total.shape])
    result, some = _fresh(x, sizes)
    if some:
        _filled(implicit.fill_beta_gradient, result, [x, alpha, total])
    return result


def dirichlet_backward(grad, self, result):
    """Each concentration moves its own share, and the others make room for it."""
    total = ops.expand(ops.sum(self, -1, True), self.shape)
    shared = ops.sum(ops.mul(result, grad), -1, True)
    return ops.mul(ops._dirichlet_grad(result, self, total), ops.sub(grad, shared))


def poisson(self, generator):
    """Poisson counts."""
    _check_dtype(self, "poisson_cpu", FLOATS)
    result, some = _fresh(self)
    if some:
        _filled(variates.fill_poisson, result, [self], (generator,))
    return result


def binomial(count, prob, generator):
    """Counts of successes."""
    if not count.dtype.is_floating_point:
        raise ValueError(
            "binomial only supports floating-point dtypes for count, got: "
            f"{scalar_name(count.dtype)}"
        )
    _check_same(count, prob)
    _check_dtype(count, "binomial_cpu")
    result, some = _fresh(count, broadcast_sizes([count.shape, prob.shape]))
    if some:
        _filled(variates.fill_binomial, result, [count, prob], (generator,))
    return result
