"""Attention over sequences of different lengths, each by itself: nothing is padded."""

import rushlight as rl
from rushlight.nested._internal.nested_tensor import NestedTensor, wrapped
from rushlight.nested._internal.views import parts

__all__ = ["jagged_scaled_dot_product_attention"]


def _check(query, key, value, attn_mask):
    tensors = (query, key, value)
    if attn_mask is not None:
        raise ValueError("Masks are not yet supported!")
    if not all(isinstance(t, NestedTensor) for t in tensors):
        raise ValueError(
            "Expected query, key, and value to all be  nested or not nested, but got "
            f"{', '.join(type(t).__name__ for t in tensors)}"
        )
    if len({t.dim() for t in tensors}) != 1:
        raise ValueError(
            "Expected query, key, and value to have the same number of dimensions"
        )
    if len({t.dtype for t in tensors}) != 1:
        raise ValueError(
            "Expected query, key, and value to have the same dtype, but got query.dtype:"
            f" {query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype} "
            "instead."
        )
    if key._ragged != value._ragged or len(query) != len(key):
        raise ValueError(
            "Expected query, key and value to have the same batch, and key and value "
            f"the same lengths, got {query._size}, {key._size} and {value._size}"
        )
    if any(t._ragged_idx != t.dim() - 2 for t in tensors):
        raise ValueError(
            "Expected the ragged dimension to be the last but one of query, key and "
            f"value, got {query._size}, {key._size} and {value._size}"
        )


def jagged_scaled_dot_product_attention(
    op,
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    """Attention of each sequence to itself, or to the one of its number.

    Args:
        op: the operator.
        query: nested, of sizes ``(B, …, j, E)``.
        key: nested, of sizes ``(B, …, k, E)``; ``value`` of ``(B, …, k, Ev)``.
        attn_mask: None.
        dropout_p: the probability of leaving a weight out.
        is_causal: whether only keys of the same place and before count.
        scale: the factor of products; by default that of the square root of E.
        enable_gqa: whether several heads of queries share one of keys.

    Raises:
        ValueError: the tensors do not go together, or there is a mask.
    """
    _check(query, key, value, attn_mask)
    found = [
        _attention(*each, dropout_p, is_causal, scale, enable_gqa)
        for each in zip(parts(query), parts(key), parts(value))
    ]
    return wrapped(rl.cat(found).movedim(0, -2), *query.raggedness)


def _attention(query, key, value, dropout_p, is_causal, scale, enable_gqa):
    """Of one sequence, with its places first: so lie the values of a transposed tensor."""
    out = rl.nn.functional.scaled_dot_product_attention(
        query.unsqueeze(0),
        key.unsqueeze(0),
        value.unsqueeze(0),
        dropout_p=dropout_p,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )
    return out.squeeze(0).movedim(-2, 0)
