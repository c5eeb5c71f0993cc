"""Attention in its textbook form, over any operators."""

import math
import operator
import warnings

import rushlight as rl
from rushlight.dispatch.python_key import listening, recording
from rushlight.nn._functions.dropout import dropout
from rushlight.nn._functions.padding import pad
from rushlight.operators import call

_MANY_SCORES = 64 * 64  # of a head, from which gradients take less time by tiles


def _canonical_mask(
    mask, mask_name, other_type, other_name, target_type, check_other=True
):
    """A mask in additive form: bool True becomes minus infinity."""
    if mask is None:
        return None
    if mask.dtype != rl.bool and not mask.is_floating_point():
        raise AssertionError(
            f"only bool and floating types of {mask_name} are supported"
        )
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use "
            "same type for both instead.",
            stacklevel=3,
        )
    if mask.is_floating_point():
        return mask
    zeros = rl.zeros_like(mask, dtype=target_type)
    return zeros.masked_fill_(mask, float("-inf"))


def _none_or_dtype(input):
    return None if input is None else input.dtype


def _project_inputs(query, key, value, weight, bias, separate):
    """Queries, keys and values after the input projection, packed or separate."""
    if separate is not None:
        weights = separate
    elif key is value and (recording() or listening(query, weight)):
        return _project_together(query, key, weight, bias)
    else:
        weights = weight.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return [
        call.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)
    ]


def _project_together(query, key, weight, bias):
    """Packed projections: one product where inputs are one tensor.

    PyTorch's programs have these steps. Three products are faster here: what one gives
    has to be copied apart.
    """
    width = query.size(-1)
    if query is key:
        return _parts_of(call.linear(query, weight, bias), 3, width)
    sizes = [width, 2 * width]
    own, both = weight.split(sizes)
    biases = (None, None) if bias is None else bias.split(sizes)
    q = call.linear(query, own, biases[0])
    return [q, *_parts_of(call.linear(key, both, biases[1]), 2, width)]


def _parts_of(packed, count, width):
    """Projections that were computed side by side, each in memory of its own."""
    packed = packed.unflatten(-1, (count, width)).unsqueeze(0).transpose(0, -2)
    packed = packed.squeeze(-2).contiguous()
    return [packed[at] for at in range(count)]


def _check_pairs(key, value, separate):
    """Every key has a value."""
    if separate and key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:-1]} do not match value's "
            f"{value.shape[:-1]}"
        )
    if not separate and key.shape != value.shape:
        raise AssertionError(
            f"key shape {key.shape} does not match value shape {value.shape}"
        )


def _check_shapes(query, key, value, embed_dim, num_heads, key_padding_mask, batched):
    if not batched and query.dim() != 2:
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.dim()}-D query tensor"
        )
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            f"For {'batched (3-D)' if batched else 'unbatched (2-D)'} `query`, "
            f"expected `key` and `value` to be {query.dim()}-D but found {key.dim()}-D "
            f"and {value.dim()}-D tensors respectively"
        )
    if query.size(-1) != embed_dim:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim}, but got "
            f"{query.size(-1)}"
        )
    if embed_dim % num_heads:
        raise AssertionError(
            f"embed_dim {embed_dim} not divisible by num_heads {num_heads}"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != query.dim() - 1:
        raise AssertionError(
            f"Expected `key_padding_mask` to be {query.dim() - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )


def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """What ``nn.MultiheadAttention`` computes, from its parameters.

    Inputs are ``(L, N, E)``, or ``(L, E)`` without a batch. Returns the output and, if
    asked for, the attention weights.

    Args:
        query, key, value: the inputs.
        embed_dim_to_check: the features that ``query`` must have.
        num_heads: how many heads share them.
        in_proj_weight, in_proj_bias: the projections of all three, one above the other.
        bias_k, bias_v: a further key and value, or None.
        add_zero_attn: whether there is a further key and value of zeros.
        dropout_p: the probability that a weight is dropped.
        out_proj_weight, out_proj_bias: the projection of the result.
        training: whether weights are dropped.
        key_padding_mask: keys that nobody attends to, ``(N, S)``.
        need_weights: whether the weights are wanted, too.
        attn_mask: pairs that do not attend, or what is added to their scores.
        use_separate_proj_weight: whether ``q_proj_weight``, ``k_proj_weight`` and
            ``v_proj_weight`` are taken.
        static_k, static_v: keys and values that are projected already.
        average_attn_weights: whether the weights are averaged over the heads.
        is_causal: whether ``attn_mask`` is a causal one.

    >>> x, eye = rl.ones(2, 1, 2), rl.eye(2)
    >>> out, weights = multi_head_attention_forward(
    ...     x, x, x, 2, 1, rl.cat([eye, eye, eye]), None, None, None, False, 0.0, eye, None
    ... )
    >>> weights
    tensor([[[0.5000, 0.5000],
             [0.5000, 0.5000]]])
    """
    batched = query.dim() == 3
    num_heads = operator.index(num_heads)  # NumPy's small integers would overflow
    _check_shapes(
        query, key, value, embed_dim_to_check, num_heads, key_padding_mask, batched
    )
    _check_pairs(key, value, use_separate_proj_weight)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    key_padding_mask = _canonical_mask(
        key_padding_mask,
        "key_padding_mask",
        _none_or_dtype(attn_mask),
        "attn_mask",
        query.dtype,
    )
    is_causal = is_causal and key_padding_mask is None and not need_weights
    if is_causal:
        attn_mask = None  # the hint says it all, and needs no memory
    attn_mask = _canonical_mask(
        attn_mask, "attn_mask", None, "", query.dtype, check_other=False
    )
    length, samples, width = query.shape
    separate = (
        (q_proj_weight, k_proj_weight, v_proj_weight)
        if use_separate_proj_weight
        else None
    )
    q, k, v = _project_inputs(query, key, value, in_proj_weight, in_proj_bias, separate)
    attn_mask = _shaped_mask(attn_mask, length, key.size(0), samples * num_heads)
    if bias_k is not None and bias_v is not None:
        k = rl.cat([k, bias_k.repeat(1, samples, 1)])
        v = rl.cat([v, bias_v.repeat(1, samples, 1)])
        attn_mask, key_padding_mask = _one_more(attn_mask, key_padding_mask)
    q, k, v = (
        x.view(x.size(0), samples * num_heads, width // num_heads).transpose(0, 1)
        for x in (q, k, v)
    )
    k = k if static_k is None else static_k
    v = v if static_v is None else static_v
    if add_zero_attn:
        k, v = (_with_zeros(one) for one in (k, v))
        attn_mask, key_padding_mask = _one_more(attn_mask, key_padding_mask)
    if key_padding_mask is not None:
        padding = (
            key_padding_mask.view(samples, 1, 1, k.size(1))
            .expand(-1, num_heads, -1, -1)
            .reshape(samples * num_heads, 1, k.size(1))
        )
        attn_mask = padding if attn_mask is None else attn_mask + padding
    dropout_p = dropout_p if training else 0.0
    if not need_weights and (is_causal or _goes_by_tiles(q, k)):
        shape = samples, num_heads
        output = _without_weights(q, k, v, attn_mask, dropout_p, shape, is_causal)
        output = call.linear(output, out_proj_weight, out_proj_bias)
        output = output.view(length, samples, output.size(1))
        return (output if batched else output.squeeze(1)), None
    scaled = q * math.sqrt(1.0 / q.size(-1))
    if attn_mask is None:
        scores = call.bmm(scaled, k.transpose(-2, -1))
    else:
        scores = call.baddbmm(attn_mask, scaled, k.transpose(-2, -1))
    if need_weights or attn_mask is None:
        weights = call.softmax(scores, -1)
    else:  # rows without a key are zero, as where weights are never made
        weights = call._safe_softmax(scores, -1)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    output = call.bmm(weights, v).transpose(0, 1).reshape(length * samples, width)
    output = call.linear(output, out_proj_weight, out_proj_bias)
    output = output.view(length, samples, output.size(1))
    if not need_weights:
        return (output if batched else output.squeeze(1)), None
    weights = weights.view(samples, num_heads, length, k.size(1))
    if average_attn_weights:
        weights = weights.mean(1)
    if batched:
        return output, weights
    return output.squeeze(1), weights.squeeze(0)


def _goes_by_tiles(q, k):
    """Whether nobody loses by it: short rows' gradients take longer so."""
    if recording() or listening(q) or not q.requires_grad:
        return True  # before sizes are asked: a program is recorded for all of them
    return q.size(1) * k.size(1) >= _MANY_SCORES


def _without_weights(q, k, v, mask, dropout_p, shape, is_causal):
    """What attention gives, as rows; nobody asks how it was weighed."""
    samples, heads = shape
    _, length, width = q.shape
    if mask is not None:
        whole = mask.size(0) == 1 and mask.dim() == 3
        mask = (
            mask.unsqueeze(0)
            if whole
            else mask.view(samples, heads, mask.size(1), k.size(1))
        )
    q = q.view(samples, heads, length, width)
    k = k.view(samples, heads, k.size(1), width)
    v = v.view(samples, heads, v.size(1), width)
    output = call.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
    output = output.permute(2, 0, 1, 3)
    return output.reshape(samples * length, heads * width)


def _with_zeros(rows):
    """The rows with one more, of zeros."""
    sizes = (rows.size(0), 1, rows.size(2))
    zeros = rl.zeros(sizes, dtype=rows.dtype, device=rows.device)
    return rl.cat([rows, zeros], 1)


def _shaped_mask(mask, length, keys, heads):
    if mask is None:
        return None
    if mask.dim() == 2:
        if tuple(mask.shape) != (length, keys):
            raise RuntimeError(
                f"The shape of the 2D attn_mask is {mask.shape}, but should be "
                f"{(length, keys)}."
            )
        return mask.unsqueeze(0)
    if mask.dim() == 3:
        if tuple(mask.shape) != (heads, length, keys):
            raise RuntimeError(
                f"The shape of the 3D attn_mask is {mask.shape}, but should be "
                f"{(heads, length, keys)}."
            )
        return mask
    raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")


def _one_more(attn_mask, key_padding_mask):
    """The masks with one more key, which everyone may see."""
    return tuple(
        None if mask is None else pad(mask, (0, 1))
        for mask in (attn_mask, key_padding_mask)
    )
