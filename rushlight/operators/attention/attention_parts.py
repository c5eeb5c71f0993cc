"""What PyTorch takes attention apart into, where handlers listen."""

import math

from rushlight.core.dtype import FLOATING
from rushlight.core.dtypes import bool_
from rushlight.operators import call as ops
from rushlight.operators.attention.attention import LOWEST


def scaled_dot_product_attention(
    query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
):
    """Products of matrices and a softmax, where there are not four dimensions."""
    tensors = query, key, value
    same = all(t.dtype is query.dtype and t.dim() == query.dim() for t in tensors)
    if query.dim() in (0, 1, 4) or not same or dropout_p or enable_gqa:
        return NotImplemented
    if query.dtype.category != FLOATING or query.dtype.itemsize == 2:
        return NotImplemented
    if attn_mask is not None and is_causal or not query.shape[-1]:
        return NotImplemented
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1])
    if scale < 0:
        return NotImplemented
    root = math.sqrt(scale)
    query = ops.mul(query, root)
    if is_causal:
        sizes = [query.shape[-2], key.shape[-2]]
        attn_mask = ops.tril(ops.ones(sizes, dtype=bool_, device=query.device))
    if attn_mask is not None and attn_mask.dtype is bool_:
        made = {"dtype": query.dtype, "device": query.device}
        choices = [ops.scalar_tensor(one, **made) for one in (0.0, LOWEST)]
        attn_mask = ops.where(attn_mask, *choices)
    scores = ops.matmul(query, ops.mul(ops.transpose(key, -2, -1), root))
    if attn_mask is not None:
        scores = ops.add(scores, attn_mask)
    return ops.matmul(ops._safe_softmax(scores, -1), value)
