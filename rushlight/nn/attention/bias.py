"""Causal masks that say what they are instead of holding numbers."""

import enum
import warnings

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Which corner of the mask the diagonal goes through.

    ``UPPER_LEFT`` counts queries and keys from the first, ``LOWER_RIGHT`` from the last;
    for as many queries as keys they are the same.
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask for ``scaled_dot_product_attention``.

    Args:
        variant: the corner of the diagonal.
        seq_len_q, seq_len_kv: how many queries and keys there are.

    Raises:
        AssertionError: the variant is none.

    >>> bias = causal_lower_right(2, 3)
    >>> bias
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    >>> query, key = rl.ones(1, 2, 4), rl.ones(1, 3, 4)
    >>> F.scaled_dot_product_attention(query, key, key, attn_mask=bias).shape
    rushlight.Size([1, 2, 4])
    """

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        return Tensor._make_subclass(cls, rl.empty(0), False)

    def __init__(self, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise AssertionError(
                f"variant must be a CausalVariant, got {type(variant).__name__}"
            )
        super().__init__()
        self.variant = variant
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q "
                "> seq_len_kv!",
                stacklevel=2,
            )

    def _materialize(self, device=None):
        """The mask as a tensor of bools."""
        ones = rl.ones(self.seq_len_q, self.seq_len_kv, device=device, dtype=rl.bool)
        if self.variant is CausalVariant.UPPER_LEFT:
            return ones.tril()
        return ones.tril(self.seq_len_kv - self.seq_len_q)

    @staticmethod
    def _dispatch(
        query,
        key,
        value,
        attn_mask,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        enable_gqa=False,
    ):
        """Attention under this mask, as a causal one where that means the same."""
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        plain = (
            attn_mask.variant is CausalVariant.UPPER_LEFT
            or attn_mask.seq_len_q == attn_mask.seq_len_kv
        )
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=None if plain else attn_mask._materialize(query.device),
            dropout_p=dropout_p,
            is_causal=plain,
            scale=scale,
            enable_gqa=enable_gqa,
        )

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        """Attention sees the mask; other functions see a tensor without elements."""
        name = getattr(func, "__name__", None)
        if name == "scaled_dot_product_attention":
            return cls._dispatch(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})

    def __repr__(self, **kwargs):
        return repr(self._materialize())


def causal_upper_left(*size):
    """A causal mask that counts queries and keys from the first.

    Args:
        size: how many queries and keys there are.
    """
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size):
    """A causal mask that counts queries and keys from the last.

    Args:
        size: how many queries and keys there are.
    """
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
