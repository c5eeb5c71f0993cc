"""What the gradients of sparse tensors are made of, under the names of the formulas."""

from rushlight.operators.shared import conjugated, scaled
from rushlight.operators.sparse.sparse_access import masked_like
from rushlight.operators.sparse.sparse_compressed import compressed_like
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
    "coalesced_of", "compressed_like", "conjugated", "dense_gradient",
    "log_softmax_gradient", "masked_like", "scaled", "softmax_gradient", "spread_sum",
    "strided_layout", "values_at",
]  # fmt: skip
