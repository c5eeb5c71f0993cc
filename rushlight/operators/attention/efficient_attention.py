"""Attention that keeps logarithms of masses, seed and offset: its kernel for each device."""

import math

from rushlight.core.dtypes import float32, int64
from rushlight.operators import call as ops
from rushlight.operators.attention import attention, attention_cuda
from rushlight.operators.loop_calls import fresh


def efficient_attention(
    query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, scale
):
    """Results, laid out as the queries are, logarithms of masses, seed and offset.

    The latter two say which weights dropout left out: zeros where there is none.

    Raises:
        RuntimeError: the operands are none for it.
    """
    operands = query, key, value
    attention.check_blocks(*operands, dropout_p)
    seeds = [fresh(query, (), int64).zero_() for _ in range(2)]
    rest = 0.0, is_causal, attn_bias, scale
    out, log_mass = attention.attention_by_blocks(*operands, *rest)
    return out, _asked(log_mass, query, compute_log_sumexp), *seeds


def efficient_attention_cuda(
    query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, scale
):
    """The same by tensor cores. Seed and offset lie on the host, but where a graph is
    written down: there they are the device's, and each launch tells them.

    Raises:
        RuntimeError: the operands are none for it.
    """
    out, log_mass, dropout, seeds = _efficient_results(
        query, key, value, dropout_p, "cpu"
    )
    if not key.shape[2]:
        out.zero_(), log_mass.fill_(attention.LOWEST)
    elif out.numel():
        mask = attention.mask_for(attn_bias, query, key)
        if scale is None:
            scale = 1.0 / math.sqrt(query.shape[3])
        rest = log_mass, is_causal, scale, dropout
        attention_cuda.attend(out, (query, key, value), mask, *rest)
    return out, _asked(log_mass, query, compute_log_sumexp), *seeds


def efficient_attention_meta(
    query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, scale
):
    """What both give, without elements."""
    given = query, key, value, dropout_p, query.device
    out, log_mass, _, seeds = _efficient_results(*given)
    return out, _asked(log_mass, query, compute_log_sumexp), *seeds


def _efficient_results(query, key, value, dropout_p, device):
    """Where results and masses are written, dropout, and its seed and offset."""
    attention.check_blocks(query, key, value, 0.0)
    dropout = attention_cuda.drawn(query, key.shape[2], dropout_p)
    if dropout is None:
        seeds = [fresh(query, (), int64).zero_() for _ in range(2)]
    elif isinstance(dropout[1], tuple):
        seeds = [
            ops.full((), number, dtype=int64, device=device) for number in dropout[1]
        ]
    else:
        seeds = dropout[1].unbind(0)
    out = attention.rows_as(query, value.shape[3])
    return out, fresh(query, query.shape[:3], float32), dropout, seeds


def _asked(log_mass, query, wanted):
    """Logarithms of masses where they are wanted; no elements otherwise."""
    if wanted:
        return log_mass
    return fresh(query, (*query.shape[:2], 0), log_mass.dtype)


def efficient_attention_backward(grad_out, query, key, value, *rest):
    """Gradients of queries, keys and values, where they are wanted; masks have none.

    Raises:
        RuntimeError: the operands are none for it.
    """
    attn_bias, out, logsumexp, _, _, dropout_p, wanted, is_causal, scale = rest
    given = grad_out, query, key, value, out, logsumexp, dropout_p, is_causal
    results = attention.attention_backward_by_blocks(*given, attn_bias, scale)
    return *_wanted(results, wanted), None


def efficient_attention_backward_cuda(grad_out, query, key, value, *rest):
    """The same by tensor cores, or by operators where there is no kernel.

    Raises:
        RuntimeError: the operands are none for it.
    """
    attn_bias, out, logsumexp, seed, offset, dropout_p, wanted, is_causal, scale = rest
    tensors = query, key, value
    *results, _ = efficient_attention_backward_meta(grad_out, *tensors, *rest)
    if not out.numel() or not key.shape[2]:
        for result in results:
            if result is not None:
                result.zero_()
        return *results, None
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[3])
    mask, logs = attention.mask_for(attn_bias, query, key), logsumexp.contiguous()
    dropout = attention_cuda.drawn_before(dropout_p, seed, offset)
    given = tensors, mask, logs, is_causal, scale, dropout
    if not attention_cuda.differentiate(results, grad_out, out, *given):
        given = grad_out, *tensors, is_causal, attn_bias, scale, dropout
        results = _wanted(attention.composed_gradients(*given), wanted)
    return *results, None


def efficient_attention_backward_meta(grad_out, query, key, value, *rest):
    """Where they are written, rows after rows."""
    attention.check_blocks(query, key, value, 0.0)
    tensors = _wanted((query, key, value), rest[6])
    return *(
        None if t is None else attention.rows_as(t, t.shape[3]) for t in tensors
    ), None


def _wanted(results, mask):
    """Results that a mask asks for, None for the others."""
    return [t if want else None for t, want in zip(results, mask[:3], strict=True)]
