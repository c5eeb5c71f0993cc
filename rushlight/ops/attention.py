"""Attention in its textbook form, over other operators."""

from __future__ import annotations

import math

import rushlight
from rushlight.ops import call as ops
from rushlight.ops.native import scalar_name

LOWEST = float("-inf")


def check_attention(query, key, value, attn_mask, is_causal):
    """Refuses operands of different kinds.

    Raises:
        RuntimeError: dtypes differ, a tensor has no sequence, or there are two masks.
    """
    tensors = query, key, value
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got "
            f"query.dtype: {query.dtype} key.dtype: {key.dtype} and value.dtype: "
            f"{value.dtype} instead."
        )
    if min(t.ndim for t in tensors) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got "
            f"query.dim: {query.ndim}, key.dim: {key.ndim} and value.dim: {value.ndim} "
            "instead."
        )
    if attn_mask is None:
        return
    known = rushlight.bool, rushlight.float32, query.dtype
    if not any(attn_mask.dtype is dtype for dtype in known):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but "
            f"got attn_mask.dtype: {attn_mask.dtype} and query.dtype: {query.dtype} "
            "instead."
        )
    if is_causal:
        raise RuntimeError(
            "scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True"
        )


def scaled_dot_product_attention(
    query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
):
    """``softmax(query @ key.T * scale + mask) @ value``.

    A query that sees no key, or all of them infinitely far away, gives zeros. Half
    precision is for what comes in and goes out: scores are computed in single.

    Raises:
        RuntimeError: the operands don't fit together.
    """
    check_attention(query, key, value, attn_mask, is_causal)
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 0.0
    dtype = value.dtype
    if dtype.category < 2:
        kind = scalar_name(dtype)
        raise RuntimeError(f"expected scalar type Float but found {kind}")
    if dtype.itemsize == 2:
        query, key, value = [t.to(rushlight.float32) for t in (query, key, value)]
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    scores = ops.matmul(query * scale, key.transpose(-2, -1))
    if is_causal:
        sizes = query.shape[-2], key.shape[-2]
        attn_mask = ops.tril(ops.ones(sizes, dtype=rushlight.bool, device=query.device))
    if attn_mask is not None and attn_mask.dtype is rushlight.bool:
        scores = scores.masked_fill(~attn_mask, LOWEST)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = ops._safe_softmax(scores, -1)
    if dropout_p > 0:  # no less is looked at
        weights = ops.dropout(weights, dropout_p, True)
    if weights.dtype is not value.dtype:
        weights = weights.to(value.dtype)
    result = ops.matmul(weights, value)
    return result if result.dtype is dtype else result.to(dtype)
