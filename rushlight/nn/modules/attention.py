"""Multi-head attention."""

import rushlight as rl
from rushlight.core.state import is_grad_enabled
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.linear import NonDynamicallyQuantizableLinear
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of several heads, with projections before and after.

    Args:
        embed_dim: features of the queries and of the output.
        num_heads: number of heads; they share ``embed_dim``.
        dropout: probability of dropping an attention weight.
        bias: whether the projections have biases.
        add_bias_kv: add a learned key and value to every sequence.
        add_zero_attn: add a key and value of zeros to every sequence.
        kdim, vdim: features of keys and values; ``embed_dim`` where left out.
        batch_first: whether inputs are ``(N, L, E)``, not ``(L, N, E)``.
    """

    __constants__ = ["batch_first"]

    def __init__(
        self,
        embed_dim,
        num_heads,
        dropout=0.0,
        bias=True,
        add_bias_kv=False,
        add_zero_attn=False,
        kdim=None,
        vdim=None,
        batch_first=False,
        device=None,
        dtype=None,
    ):
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self._make_input_projection(options)
        if bias:
            self.in_proj_bias = Parameter(rl.empty(3 * embed_dim, **options))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, **options
        )
        if add_bias_kv:
            self.bias_k = Parameter(rl.empty((1, 1, embed_dim), **options))
            self.bias_v = Parameter(rl.empty((1, 1, embed_dim), **options))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _make_input_projection(self, options):
        size = self.embed_dim
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(rl.empty((3 * size, size), **options))
            self.register_parameter("q_proj_weight", None)
            self.register_parameter("k_proj_weight", None)
            self.register_parameter("v_proj_weight", None)
        else:
            self.q_proj_weight = Parameter(rl.empty((size, size), **options))
            self.k_proj_weight = Parameter(rl.empty((size, self.kdim), **options))
            self.v_proj_weight = Parameter(rl.empty((size, self.vdim), **options))
            self.register_parameter("in_proj_weight", None)

    def _reset_parameters(self):
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            init.xavier_uniform_(self.q_proj_weight)
            init.xavier_uniform_(self.k_proj_weight)
            init.xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, state):
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def _ignores_causal_hint(self, query, key, value, attn_mask):
        """Whether PyTorch's inference path runs, which attends to all without a mask."""
        inference = not (self.training or is_grad_enabled())
        alone = query is key and key is value
        return attn_mask is None and alone and inference and self.batch_first

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        if query.is_nested:
            refused = key_padding_mask is not None or attn_mask is not None
            if refused or need_weights:
                self._refuse_nested(need_weights)
            return self._of_nested(query, key, value, is_causal), None
        if is_causal and self._ignores_causal_hint(query, key, value, attn_mask):
            is_causal = False
        swap = self.batch_first and query.dim() == 3
        if swap:
            transposed = query.transpose(0, 1)  # what is one tensor stays one
            other = transposed if key is query else key.transpose(0, 1)
            value = other if value is key else value.transpose(0, 1)
            query, key = transposed, other
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(0, 1) if swap else output), weights

    def _refuse_nested(self, need_weights):
        """Say why nested tensors cannot be attended to.

        Raises:
            AssertionError: always.
        """
        why = "need_weights=True was passed" if need_weights else "a mask was passed"
        raise AssertionError(
            "MultiheadAttention does not support NestedTensor outside of its fast path. "
            f"The fast path was not hit because {why}"
        )

    def _of_nested(self, query, key, value, is_causal):
        """Attention of each part by itself: projections of all, then no padding."""
        if self.bias_k is not None or self.add_zero_attn or not self.batch_first:
            self._refuse_nested(False)
        if self._qkv_same_embed_dim:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3
        if self.in_proj_bias is not None:
            biases = self.in_proj_bias.chunk(3)
        projected = [
            F.linear(each, weight, bias).unflatten(-1, (self.num_heads, -1))
            for each, weight, bias in zip((query, key, value), weights, biases)
        ]
        found = F.scaled_dot_product_attention(
            *(each.transpose(1, 2) for each in projected),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
        )
        return self.out_proj(found.transpose(1, 2).flatten(2))
