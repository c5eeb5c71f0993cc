"""What the gradients of sparse tensors are made of, under the names of the formulas."""

from rushlight.operators.shared import conjugated, scaled
from rushlight.operators.sparse.sparse_access import masked_like
from rushlight.operators.sparse.sparse_compressed import dense_or_compressed
from rushlight.operators.sparse.sparse_coo import (
    coalesced_of,
    dense_gradient,
    strided_layout,
    values_at,
)
from rushlight.operators.sparse.sparse_math import (
    log_softmax_gradient,
    softmax_gradient,
    spread_sum,
)

__all__ = [
    "coalesced_of", "conjugated", "dense_gradient", "dense_or_compressed",
    "log_softmax_gradient", "masked_like", "scaled", "softmax_gradient", "spread_sum",
    "strided_layout", "values_at",
]  # fmt: skip
