"""What translated programs run for attention and transformers; read as text, never imported."""

import math

import rushlight as torch
from rushlight import Tensor
from rushlight.nn import functional as F


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    return torch.ops.aten.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )


def _split_embedding(x: Tensor, head_count: int) -> Tensor:
    length, batch, width = x.size(0), x.size(1), x.size(2)
    return x.reshape(length, batch, head_count, width // head_count).permute(
        [1, 2, 0, 3]
    )


def _as_bias(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))
    return mask.to(like.dtype)


def _attention_bias(
    like: Tensor,
    head_count: int,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
) -> Tensor | None:
    bias: Tensor | None = None
    if attn_mask is not None:
        bias = _as_bias(attn_mask, like)
        if bias.dim() == 3:
            bias = bias.view(
                bias.size(0) // head_count, head_count, bias.size(1), bias.size(2)
            )
    if key_padding_mask is not None:
        padding = _as_bias(key_padding_mask, like).unsqueeze(1).unsqueeze(1)
        if bias is None:
            bias = padding
        else:
            bias = bias + padding
    return bias


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    dropout_p: float,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    if not need_weights:
        made = torch.ops.aten.scaled_dot_product_attention(
            q, k, v, bias, dropout_p, False
        )
        return made, None
    scores = (q * math.sqrt(1.0 / float(q.size(-1)))) @ k.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    weights = torch.dropout(scores.softmax(-1), dropout_p, dropout_p > 0.0)
    return weights @ v, weights


class MultiheadAttention:
    def _projections(
        self, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        b_q: Tensor | None = None
        b_k: Tensor | None = None
        b_v: Tensor | None = None
        bias = self.in_proj_bias
        if bias is not None:
            b_q, b_k, b_v = bias.chunk(3)
        weight = self.in_proj_weight
        if weight is not None:
            w_q, w_k, w_v = weight.chunk(3)
            return (
                F.linear(query, w_q, b_q),
                F.linear(key, w_k, b_k),
                F.linear(value, w_v, b_v),
            )
        else:
            q = F.linear(query, self.q_proj_weight, b_q)
            k = F.linear(key, self.k_proj_weight, b_k)
            return q, k, F.linear(value, self.v_proj_weight, b_v)

    def _with_rows(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat([k, self.bias_k.repeat([1, k.size(1), 1])])
            v = torch.cat([v, self.bias_v.repeat([1, v.size(1), 1])])
        if self.add_zero_attn:
            k = torch.cat([k, torch.zeros_like(k[:1])])
            v = torch.cat([v, torch.zeros_like(v[:1])])
        return k, v

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        batched = query.dim() == 3
        if not batched:
            query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif self.batch_first:
            query, key, value = (
                query.transpose(0, 1),
                key.transpose(0, 1),
                value.transpose(0, 1),
            )
        q, k, v = self._projections(query, key, value)
        before = k.size(0)
        k, v = self._with_rows(k, v)
        more = k.size(0) - before
        if more > 0 and attn_mask is not None:
            attn_mask = torch.nn.functional.pad(attn_mask, [0, more])
        if more > 0 and key_padding_mask is not None:
            key_padding_mask = torch.nn.functional.pad(key_padding_mask, [0, more])
        bias = _attention_bias(q, self.num_heads, attn_mask, key_padding_mask)
        p = self.dropout if self.training else 0.0
        q, k, v = (
            _split_embedding(q, self.num_heads),
            _split_embedding(k, self.num_heads),
            _split_embedding(v, self.num_heads),
        )
        made, weights = _attend(q, k, v, bias, p, need_weights)
        output = self.out_proj(made.permute([2, 0, 1, 3]).flatten(2))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            output = output.squeeze(1)
            if weights is not None:
                weights = weights.squeeze(0)
        elif self.batch_first:
            output = output.transpose(0, 1)
        return output, weights


class TransformerEncoderLayer:
    def _attended(
        self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        found = self.self_attn(x, x, x, padding, False, mask, True, is_causal)
        return self.dropout1(found[0])

    def _fed(self, x: Tensor) -> Tensor:
        return self.dropout2(
            self.linear2(self.dropout(self.activation(self.linear1(x))))
        )

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = src
        if self.norm_first:
            x = x + self._attended(
                self.norm1(x), src_mask, src_key_padding_mask, is_causal
            )
            return x + self._fed(self.norm2(x))
        x = self.norm1(x + self._attended(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._fed(x))


class TransformerEncoder:
    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        output = src
        for layer in self.layers:
            output = layer(output, mask, src_key_padding_mask, False)
        if self.norm is not None:
            output = self.norm(output)
        return output


class TransformerDecoderLayer:
    def _attended(
        self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        found = self.self_attn(x, x, x, padding, False, mask, True, is_causal)
        return self.dropout1(found[0])

    def _looked(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        padding: Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        found = self.multihead_attn(
            x, memory, memory, padding, False, mask, True, is_causal
        )
        return self.dropout2(found[0])

    def _fed(self, x: Tensor) -> Tensor:
        return self.dropout3(
            self.linear2(self.dropout(self.activation(self.linear1(x))))
        )

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = tgt
        padding, others = tgt_key_padding_mask, memory_key_padding_mask
        if self.norm_first:
            x = x + self._attended(self.norm1(x), tgt_mask, padding, tgt_is_causal)
            x = x + self._looked(
                self.norm2(x), memory, memory_mask, others, memory_is_causal
            )
            return x + self._fed(self.norm3(x))
        x = self.norm1(x + self._attended(x, tgt_mask, padding, tgt_is_causal))
        x = self.norm2(
            x + self._looked(x, memory, memory_mask, others, memory_is_causal)
        )
        return self.norm3(x + self._fed(x))


class TransformerDecoder:
    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask,
                memory_mask,
                tgt_key_padding_mask,
                memory_key_padding_mask,
                False,
                memory_is_causal,
            )
        if self.norm is not None:
            output = self.norm(output)
        return output


class Transformer:
    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            None,
            memory_is_causal,
        )
