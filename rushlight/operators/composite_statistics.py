"""What PyTorch takes statistics and choices apart into, where handlers listen.

Functions as in `composites`.
"""

import warnings

from rushlight.core.dtype import BOOLEAN
from rushlight.core.dtypes import bool_, int64
from rushlight.core.subclass import is_absent
from rushlight.operators import call as ops


def holds(truth):
    """Whether a truth value on a tensor holds, asked as PyTorch asks."""
    return ops.equal(truth, truth.new_ones([]))


def cov(self, correction, fweights, aweights):
    """Products of the distances from the means, each a sum over a count."""
    if self.dim() > 2 or fweights is not None or aweights is not None:
        return NotImplemented
    if self.dtype.category == BOOLEAN:
        return NotImplemented
    rows = ops.view(self, [1, -1]) if self.dim() < 2 else self
    options = {"dtype": int64, "device": self.device}
    count = ops.scalar_tensor(rows.shape[1], **options)
    means = ops.div(ops.sum(rows, [1]), count)
    freedom = ops.scalar_tensor(rows.shape[1] - correction, **options)
    if holds(ops.le(freedom, 0)):
        warnings.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than "
            "the number of observations.",
            stacklevel=2,
        )
        freedom = ops.zero_(freedom)
    gaps = ops.sub(rows, ops.unsqueeze(means, 1))
    products = ops.mm(gaps, ops.t(gaps).conj())
    return ops.squeeze(ops.div(products, freedom))


def corrcoef(self):
    """Covariances over the deviations, which stand along both dimensions."""
    if self.dim() > 2 or self.is_complex():
        return NotImplemented
    spread = ops.cov(self)
    if spread.dim() == 0:
        return ops.div(spread, spread)
    deviation = ops.sqrt(ops.diagonal(spread))
    made = ops.div(spread, ops.view(deviation, [-1, 1]))
    return ops.clamp(ops.div(made, ops.view(deviation, [1, -1])), -1, 1)


def nanmean(self, dim, keepdim, dtype):
    """The sum without NaN over the number of elements that are like themselves."""
    if not self.is_floating_point():
        return NotImplemented
    seen = ops.detach(self)
    present = ops.logical_not_(ops.ne(seen, seen))
    count = ops.sum(present, [] if dim is None else dim, keepdim)
    return ops.div(ops.nansum(self, dim, keepdim, dtype=dtype), count)


def combinations(self, r, with_replacement):
    """Elements of all grids where the places rise."""
    if self.dim() != 1 or r < 1:
        return NotImplemented
    grids = ops.meshgrid([self] * r, indexing="ij")
    positions = ops.arange(self.shape[0], dtype=int64, device=self.device)
    positions = ops.meshgrid([positions] * r, indexing="ij")
    mask = ops.full(positions[0].shape, True, dtype=bool_, device=self.device)
    rises = ops.le if with_replacement else ops.lt
    for first, second in zip(positions, positions[1:]):
        mask = ops.mul_(mask, rises(first, second))
    return ops.stack([ops.masked_select(grid, mask) for grid in grids], 1)


def one_hot(self, num_classes):
    """Ones are written at the classes' places."""
    if self.dtype is not int64 or not self.numel():
        return NotImplemented
    if num_classes >= 0 and is_absent(self):  # where no class can be looked at
        for holds_, said in (
            (ops.ge(self, 0), "Class values must be non-negative."),
            (
                ops.lt(self, num_classes),
                "Class values must be smaller than num_classes.",
            ),
        ):
            ops._assert_async(ops.all(holds_), said)
        classes = ops.arange(num_classes, device=self.device)
        return ops.eq(ops.unsqueeze(self, -1), classes).to(int64)
    least, most = ops.aminmax(self)
    if least.item() < 0:
        raise RuntimeError("Class values must be non-negative.")
    found = most.item()
    if num_classes == -1:
        num_classes = found + 1
    elif num_classes <= found:
        raise RuntimeError("Class values must be smaller than num_classes.")
    sizes = [*self.shape, num_classes]
    made = ops.zeros(sizes, dtype=int64, device=self.device)
    return ops.scatter_(made, -1, ops.unsqueeze(self, -1), 1)
