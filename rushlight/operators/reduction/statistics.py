"""Covariances and quantiles that are made of simpler operators."""

import math

from rushlight.core import dtypes
from rushlight.core.dtype import BOOLEAN, INTEGER, get_default_dtype
from rushlight.core.dtypes import float32, int64
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.warning import warn
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.assertions import refuse_unless
from rushlight.operators.functions import result_type
from rushlight.operators.functions import tensor as make_tensor
from rushlight.operators.matmul.linalg import product_in_cheapest_order
from rushlight.operators.reduction.reduction import real_of, vector_norm_gradient
from rushlight.operators.shared import conjugated, readable


def _warn_of_few_observations(_):
    warn(
        "cov(): degrees of freedom is <= 0. Correction should be strictly less than "
        "the number of observations."
    )


_warn_of_freedom = KernelTable(cpu=_warn_of_few_observations, meta=lambda _: None)


def cov(self, correction, fweights, aweights):
    """Products of the distances from the weighted means.

    Raises:
        RuntimeError: the input has more than two dimensions, or weights don't fit.
    """
    if self.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input "
            f"with {self.ndim} dimensions"
        )
    if self.dtype.category == BOOLEAN:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = self.reshape([1, -1]) if self.ndim < 2 else self
    weights = None
    for name, weight in (("fweights", fweights), ("aweights", aweights)):
        if weight is not None:
            check_weights(name, weight, rows.shape[1])
            weights = weight if weights is None else weights * weight
    if weights is not None and self.numel() and not weights.sum().item():
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    if weights is not None:
        result_type(self, weights)  # refuses unsigned numbers beside signed ones
    if self.dtype.category == INTEGER:
        rows = rows.to(get_default_dtype())
    if weights is None:
        total, means = rows.shape[1], rows.mean([1], True)
        left = total - correction
    else:
        total = weights.sum()
        means = ((rows * weights).sum([1]) / total).unsqueeze(1)
        left = total - correction
        if correction and aweights is not None:
            left = total - correction * (weights * aweights).sum() / total
    if (weights is None or readable(left)) and left <= 0:
        _warn_of_freedom(self.device)
    left = max(left, 0) if weights is None else ops.clamp_min(left, 0)
    gaps = rows - means
    weighted = gaps if weights is None else gaps * weights
    result = ops.mm(weighted, gaps.t().to(weighted.dtype).conj()) / left
    return result.reshape([]) if result.numel() == 1 else result


def check_weights(name, weight, count):
    """Refuses weights of observations that are none.

    Raises:
        RuntimeError: their number, dtype or sign isn't right.
    """
    if weight.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} "
            f"with {weight.ndim} dimensions"
        )
    wanted, category = ("integral", 1) if name == "fweights" else ("floating point", 2)
    if weight.dtype.category != category:
        raise RuntimeError(
            f"cov(): expected {name} to have {wanted} dtype but got {name} with "
            f"{TYPE_NAMES[weight.dtype.name]} dtype"
        )
    if weight.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in "
            f"the input but got {weight.numel()} != {count}"
        )
    if count and ops.min(weight).item() < 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")


def corrcoef(self):
    """Covariances over the products of the deviations."""
    if self.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input "
            f"with {self.ndim} dimensions"
        )
    spread = ops.cov(self)
    if spread.ndim == 0:
        return spread / spread
    deviation = ops.sqrt(ops.real(spread.diagonal()))
    result = spread / deviation.unsqueeze(-1) / deviation
    if not result.is_complex():
        return ops.clamp(result, -1, 1)
    parts = ops.real(result), ops.imag(result)
    return ops.complex(*(ops.clamp(part, -1, 1) for part in parts))


def quantile(self, q, dim, keepdim, interpolation):
    """Between the two elements that surround the rank, in sorted order."""
    return _quantile(self, q, dim, keepdim, interpolation, skip=False)


def nanquantile(self, q, dim, keepdim, interpolation):
    """``quantile`` of the elements that are numbers."""
    return _quantile(self, q, dim, keepdim, interpolation, skip=True)


def quantile_of_number(self, q, dim, keepdim, interpolation):
    """One quantile."""
    return quantile(self, _as_tensor(self, q), dim, keepdim, interpolation)


def nanquantile_of_number(self, q, dim, keepdim, interpolation):
    """One quantile of the elements that are numbers."""
    return nanquantile(self, _as_tensor(self, q), dim, keepdim, interpolation)


def _as_tensor(self, q):
    if not 0 <= q <= 1:
        raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q}")
    if not self.is_floating_point():
        raise RuntimeError(
            "quantile() input tensor must be either float or double dtype"
        )
    return make_tensor(q, dtype=self.dtype, device=self.device)


def _no_share(at):
    return RuntimeError("quantile() q values must be in the range [0, 1]")


def _quantile(self, q, dim, keepdim, interpolation, skip):
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or "
            f"nearest, but got {interpolation}"
        )
    if q.ndim > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if self.numel() == 0:
        raise RuntimeError("quantile() input tensor must be non-empty")
    if self.dtype.name not in ("float32", "float64"):
        raise RuntimeError(
            "quantile() input tensor must be either float or double dtype, but got "
            f"{TYPE_NAMES[self.dtype.name]}"
        )
    if q.dtype is not self.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if readable(q):
        refuse_unless(ops.logical_and(q >= 0, q <= 1), "quantile", _no_share)
    ndim = self.ndim
    flat = self.flatten() if dim is None else self.movedim(dim, -1)
    if ndim == 0:
        flat = self.reshape([1])
    ordered = ops.sort(flat, -1)[0]
    present = ops.logical_not(ops.isnan(ordered)).sum([-1], keepdim=True)
    size = ordered.shape[-1]
    last = (present if skip else ops.full_like(present, size)) - 1
    ranks = q.reshape([-1]) * ops.clamp_min(last, 0).to(q.dtype)
    if not skip:
        # NaN sorts last: where there is one, every quantile is the last element
        ranks = ops.where(present < size, float(size - 1), ranks)
    low, high = ops.floor(ranks), ops.ceil(ranks)
    if interpolation == "nearest":
        low = high = ops.round(ranks)
    low = high if interpolation == "higher" else low
    below = ops.gather(ordered, -1, low.to(int64))
    result = below
    if interpolation in ("linear", "midpoint"):
        above = ops.gather(ordered, -1, high.to(int64))
        share = ranks - low if interpolation == "linear" else 0.5
        result = ops.lerp(below, above, share)
    if keepdim and dim is None:
        result = result.reshape([*[1] * ndim, -1])
    elif keepdim and ndim:
        result = result.unsqueeze(wrap_dim(dim, ndim))
    result = result.movedim(-1, 0)
    result = result if q.ndim else result.squeeze(0)
    return ops._unsafe_view(result, result.shape)


def renorm(self, p, dim, maxnorm):
    """Only slices that are too long are scaled.

    Raises:
        RuntimeError: the order isn't positive, or there are fewer than two dimensions.
    """
    if isinstance(p, complex):
        raise RuntimeError("renorm: p must be real-valued")
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if isinstance(maxnorm, complex):
        raise RuntimeError("renorm: maxnorm must be real-valued")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if self.ndim < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions"
        )
    lengths = _lengths_of_slices(self, p, dim)
    scale = ops.where(lengths > maxnorm, maxnorm / (lengths + 1e-7), 1.0)
    return (self * scale.to(real_of(self))).contiguous()


def _lengths_of_slices(self, p, dim):
    """Norms over all dimensions but one; of half precision, in single."""
    dim = wrap_dim(dim, self.ndim)
    others = [axis for axis in range(self.ndim) if axis != dim]
    wide = float32 if self.dtype.itemsize == 2 else None
    return ops.linalg_vector_norm(self, p, others, True, dtype=wide)


WIDER = {"float32": "float64", "complex64": "complex128"}


def renorm_gradient(grad, self, p, dim, maxnorm):
    """Slices that are too long share in the change of their length; others pass."""
    kind = WIDER.get(self.dtype.name)  # PyTorch's, in which fewer powers overflow
    if kind is not None:
        wide = self.to(getattr(dtypes, kind))
        return renorm_gradient(grad.to(wide.dtype), wide, p, dim, maxnorm).to(
            grad.dtype
        )
    lengths = _lengths_of_slices(self, p, dim)
    dim = wrap_dim(dim, self.ndim)
    others = [axis for axis in range(self.ndim) if axis != dim]
    along = conjugated(self) * grad
    along = (ops.real(along) if along.is_complex() else along).sum(others, True)
    slope = vector_norm_gradient(along, self, p, lengths, others, True)
    inverse = 1 / (lengths + 1e-7)
    scaled = maxnorm * inverse * (grad - inverse * slope)
    return ops.where(lengths > maxnorm, scaled.to(grad.dtype), grad)


def linalg_multi_dot(tensors):
    """A first or last vector counts as a row or a column.

    Raises:
        RuntimeError: there are fewer than two tensors, one is no matrix, or one is on another
            device.
    """
    if len(tensors) < 2:
        raise RuntimeError("multi_dot(): expected at least 2 tensors but got 1")
    for place, tensor in enumerate(tensors):
        if tensor.device != tensors[0].device:
            raise RuntimeError(
                "multi_dot(): all tensors must be on the same device but tensor 0 is on "
                f"{tensors[0].device} and tensor {place} on {tensor.device}"
            )
    for place, tensor in enumerate(tensors):
        name = "last" if place else "first"
        if 0 < place < len(tensors) - 1:
            if tensor.ndim != 2:
                raise RuntimeError(
                    f"multi_dot(): tensor {place} must be 2D but got {tensor.ndim}D"
                )
        elif tensor.ndim not in (1, 2):
            raise RuntimeError(
                f"multi_dot(): the {name} tensor must be 1D or 2D but got {tensor.ndim}D"
            )
    tensors, gone = list(tensors), []
    if tensors[0].ndim == 1:
        tensors[0], gone = tensors[0].unsqueeze(0), [0]
    if tensors[-1].ndim == 1:
        tensors[-1], gone = tensors[-1].unsqueeze(1), [*gone, 1]
    result = product_in_cheapest_order(tensors)
    return result.squeeze(gone) if gone else result
