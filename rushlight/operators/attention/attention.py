"""Attention: by blocks of queries and keys, or in its textbook form over other operators."""

import functools
import math
import struct

from rushlight.core.dtype import FLOATING
from rushlight.core.dtypes import bool_, float32
from rushlight.core.roles import host
from rushlight.core.state import is_recording
from rushlight.core.subclass import is_absent
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.operands import share_device_type
from rushlight.dispatch.python_key import listening
from rushlight.kernels.attention.attention_blocks import (
    MOST,
    QUERIES,
    SEVERAL,
    attention_kernel,
)
from rushlight.operators import call as ops
from rushlight.operators.attention import attention_cuda
from rushlight.operators.attention.backend_choice import may_use_blocks
from rushlight.operators.functions import broadcast_shapes
from rushlight.operators.loop_calls import filled, fresh, name_of, scalar_name

LOWEST = float("-inf")
SMALL_WORK = 1 << 19  # multiplications below which a second thread costs more
PARTS = 8  # chunks that gradients are cut into where there are few heads


def check_attention(query, key, value, attn_mask, is_causal):
    """Refuses operands of different kinds.

    Raises:
        RuntimeError: devices or dtypes differ, a tensor has no sequence, or there are two
            masks.
    """
    tensors = query, key, value
    if not share_device_type(query, key, value):
        raise RuntimeError(
            "Expected query, key, and value to have the same device type, but got "
            f"query.device: {query.device} key.device: {key.device} and value.device: "
            f"{value.device} instead."
        )
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
    known = bool_, float32, query.dtype
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
    blocks = _may_use_blocks(
        query.device, query, key, value, attn_mask, dropout_p, enable_gqa
    )
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 0.0
    dtype = value.dtype
    if dtype.category < FLOATING:
        kind = scalar_name(dtype)
        raise RuntimeError(f"expected scalar type Float but found {kind}")
    result = None
    if blocks and _fits_blocks(query, key, value, attn_mask):
        operands = query, key, value, attn_mask, dropout_p
        result = _attend(query.device, operands, is_causal, scale, enable_gqa)
    if result is not None:
        return result
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    return _composed(query, key, value, attn_mask, dropout_p, is_causal, scale)


def _attend_on_host(device, operands, is_causal, scale, enable_gqa):
    """Attention by blocks of the host's; None where products are faster."""
    query, key, value, attn_mask, dropout_p = operands
    worth = (
        listening(query)
        or is_absent(query)  # a program for all lengths: none decides
        or _worth_blocks(query.shape[-2], key.shape[-2])
    )
    if dropout_p > 0 or not worth:
        return None
    rest = attn_mask, is_causal, scale, enable_gqa
    return _by_blocks(_on_host, query, key, value, *rest)


def _attend_on_device(device, operands, is_causal, scale, enable_gqa):
    """Attention by a device's kernels; None where it has none for the operands."""
    query, key, value, attn_mask, dropout_p = operands
    if not attention_cuda.serves(*operands):
        return None
    width = value.shape[-1]
    query, key, value = map(attention_cuda.padded, (query, key, value))
    attend = functools.partial(_by_device, dropout_p)
    result = _by_blocks(
        attend, query, key, value, attn_mask, is_causal, scale, enable_gqa
    )
    return None if result is None else result[..., :width]


_attend = KernelTable(
    cpu=_attend_on_host, cuda=_attend_on_device, meta=_attend_on_device
)
_may_use_blocks = KernelTable(
    cpu=lambda device, *operands: may_use_blocks(*operands),
    cuda=lambda *_: True,
    meta=lambda *_: True,
)


def _composed(query, key, value, attn_mask, dropout_p, is_causal, scale):
    """Attention by products of whole matrices and a softmax."""
    dtype = value.dtype
    if dtype.itemsize == 2:
        query, key, value = [t.to(float32) for t in (query, key, value)]
    weights = _weights(query, key, attn_mask, is_causal, scale)
    if dropout_p > 0:  # no less is looked at
        weights = ops.dropout(weights, dropout_p, True)
    if weights.dtype is not value.dtype:
        weights = weights.to(value.dtype)
    result = ops.matmul(weights, value)
    return result if result.dtype is dtype else result.to(dtype)


def _weights(query, key, attn_mask, is_causal, scale):
    """The share that each key has in each query's result."""
    scores = ops.matmul(query * scale, key.transpose(-2, -1))
    if is_causal:
        sizes = query.shape[-2], key.shape[-2]
        attn_mask = ops.tril(ops.ones(sizes, dtype=bool_, device=query.device))
    if attn_mask is not None and attn_mask.dtype is bool_:
        scores = scores.masked_fill(~attn_mask, LOWEST)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return ops._safe_softmax(scores, -1)


# ---- by blocks


def _fits_blocks(query, key, value, attn_mask):
    """Whether attention by blocks is there for these operands."""
    if not query.dtype.is_floating_point:
        return False
    if attn_mask is not None and attn_mask.requires_grad and is_recording():
        return False
    sizes = query.shape[-1], key.shape[-1], value.shape[-1], key.shape[-2]
    return (
        1 <= sizes[0] == sizes[1] <= MOST
        and 1 <= sizes[2] <= MOST
        and 1 <= sizes[3] == value.shape[-2]
    )


def _worth_blocks(queries, keys):
    """Whether blocks are faster than products of whole matrices.

    Lanes are queries, so that a few of them fill no vector, and every block of them
    copies keys and values once more.
    """
    return queries >= 32 or (queries >= 16 and keys <= 64)


def _four(tensor, lead):
    """The tensor with these leading dimensions, as two of them."""
    if tuple(tensor.shape[:-2]) != tuple(lead):
        tensor = tensor.expand(*lead, *tensor.shape[-2:])
    for _ in range(len(lead), 2):
        tensor = tensor.unsqueeze(0)
    return tensor.flatten(0, -4) if len(lead) > 2 else tensor


def _broadcast(*shapes):
    """The one shape that all expand to, or None."""
    try:
        return tuple(broadcast_shapes(*shapes))
    except RuntimeError:
        return None


def _on_host(query, key, value, attn_mask, is_causal, scale):
    """Results of attention by the host's blocks."""
    attend = ops._scaled_dot_product_flash_attention_for_cpu
    given = query, key, value, 0.0, is_causal
    return attend(*given, attn_mask=attn_mask, scale=scale)[0]


def _by_device(dropout_p, query, key, value, attn_mask, is_causal, scale):
    """Results of attention by another device's units."""
    learns = is_recording() and any(t.requires_grad for t in (query, key, value))
    attend = ops._scaled_dot_product_efficient_attention
    given = query, key, value, attn_mask, learns, max(dropout_p, 0.0), is_causal
    return attend(*given, scale=scale)[0]


def _by_blocks(attend, query, key, value, attn_mask, is_causal, scale, enable_gqa):
    """Attention by blocks; None where the shapes are none for it."""
    leads = [tuple(t.shape[:-2]) for t in (query, key, value)]
    shared = enable_gqa and leads[0][-1:] != leads[1][-1:]
    if shared:  # heads of keys and values serve several of the queries
        heads = [lead[-1] for lead in leads if lead]
        if (
            len(heads) < 3
            or heads[1] != heads[2]
            or heads[1] < 1
            or heads[0] % heads[1]
        ):
            return None
        outer = _broadcast(*(lead[:-1] for lead in leads))
        if outer is None:
            return None
        lead, other = (*outer, heads[0]), (*outer, heads[1])
    else:
        lead = other = _broadcast(*leads)
        if lead is None:
            return None
    if attn_mask is not None:
        sizes = *lead, query.shape[-2], key.shape[-2]
        if _broadcast(tuple(attn_mask.shape), sizes) != sizes:
            return None
        attn_mask = _four(attn_mask.expand(sizes), lead)
    result = attend(
        *(_four(query, lead), _four(key, other), _four(value, other)),
        *(attn_mask, is_causal, scale),
    )
    if query.ndim == 4:
        return result
    result = result.contiguous()
    if len(lead) > 2:
        return result.unflatten(0, lead[:-1])
    return result.view(*lead, *result.shape[-2:])


def check_blocks(query, key, value, dropout_p):
    """Refuses what attention by blocks has no kernel for.

    Raises:
        RuntimeError: operands have not four dimensions that fit, or there is dropout.
    """
    tensors = query, key, value
    if any(t.ndim != 4 for t in tensors):
        raise RuntimeError(
            "scaled_dot_product_attention_flash_attention: Accept only 4 dims inputs "
            "shape of {B, H, T, K}"
        )
    if dropout_p > 0:
        raise RuntimeError(
            "scaled_dot_product_attention_flash_attention: Currently do not support "
            "dropout > 0"
        )
    batch, heads, _, depth = query.shape
    groups = key.shape[1]
    if (
        any(t.dtype is not query.dtype or t.shape[0] != batch for t in tensors)
        or not query.dtype.is_floating_point
        or query.dtype.itemsize == 1
        or (heads % groups if groups else heads)
        or value.shape[1:3] != key.shape[1:3]
        or key.shape[3] != depth
        or max(depth, value.shape[3]) > MOST
    ):
        lines = "".join(
            f"\n  {name}: {name_of(t.dtype)}{list(t.shape)}"
            for name, t in zip(("query", "key", "value"), tensors, strict=True)
        )
        raise RuntimeError(
            "scaled_dot_product_attention_flash_attention: Q/K/V should have the same "
            f"floating point type and fitting sizes, heads of at most {MOST}{lines}"
        )


def _launch_on_host(kind, operands, log_mass, sizes, parts, several, total, work):
    """Runs the kernel of one direction over its chunks.

    Args:
        operands: in the kernel's order; the mask, which may be None, is the last.
        sizes: shape of the query, groups of heads, keys, size of a value, whether keys
            after a query are hidden, and the scale.
        work: multiplications of a chunk.
    """
    (_, heads, queries, depth), groups, keys, width, causal, scale = sizes
    if scale is None:
        scale = 1.0 / math.sqrt(depth) if depth else 0.0
    bits = struct.unpack("q", struct.pack("d", scale))[0]
    shared = heads // groups if groups else 1
    ints = [heads, shared, queries, keys, depth, width, int(causal)]
    ints += [parts, several, bits]
    for tensor in operands:
        ints += (0, 0, 0, 0) if tensor is None else tensor.stride()
    mask, dtype = operands[-1], name_of(operands[-2].dtype)
    known = "" if mask is None else name_of(mask.dtype)
    kernel = attention_kernel(kind, dtype, name_of(log_mass.dtype), known)
    grain = max(1, SMALL_WORK // max(1, work))
    host.launch.launch(kernel, (*operands, log_mass), ints, total, grain)


_launch = KernelTable(
    cpu=lambda _, *given: _launch_on_host(*given), meta=lambda *_: None
)


def _together(queries, heads):
    """How many blocks of queries go past each block of keys together.

    As many as leave something for several threads to do.
    """
    blocks = -(-queries // QUERIES)
    return max(1, min(SEVERAL, blocks * max(1, heads) // PARTS))


def mask_for(attn_mask, query, key):
    """The mask for every query and key."""
    if attn_mask is None:
        return None
    return attn_mask.expand(*query.shape[:3], key.shape[2])


def _laid_as(query, width):
    """New memory for a row of each query, laid out as the queries are."""
    if width == query.shape[3]:
        return ops.empty_like(query)
    return rows_as(query, width)


def rows_as(query, width):
    """New rows, one for each query; heads are inside of rows where they are there."""
    batch, heads, queries, _ = query.shape
    if query.is_contiguous() or not query.transpose(1, 2).is_contiguous():
        return fresh(query, (batch, heads, queries, width))
    return fresh(query, (batch, queries, heads, width)).transpose(1, 2)


def attention_by_blocks(query, key, value, dropout_p, is_causal, attn_mask, scale):
    """Results, laid out as the queries are, and the logarithm of each query's mass.

    Raises:
        RuntimeError: the operands are none for it.
    """
    check_blocks(query, key, value, dropout_p)
    batch, heads, queries, depth = query.shape
    groups, keys, width = key.shape[1], key.shape[2], value.shape[3]
    out = _laid_as(query, width)
    sums = query.dtype if query.dtype.itemsize > 2 else float32
    log_mass = fresh(query, (batch, heads, queries), sums)
    if not keys:
        return out.zero_(), log_mass.fill_(LOWEST)
    mask = mask_for(attn_mask, query, key)
    sizes = query.shape, groups, keys, width, is_causal, scale
    several = _together(queries, batch * heads)
    span = several * QUERIES
    total = batch * heads * -(-queries // span)
    work = min(queries, span) * keys * (depth + width)
    operands = out, query, key, value, mask
    _launch(query.device, "forward", operands, log_mass, sizes, 1, several, total, work)
    return out, log_mass


def attention_backward_by_blocks(
    grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale
):
    """Gradients of the queries, keys and values.

    Queries are cut into parts where there are few heads, by the sizes alone; each part
    has sums of its own for the keys.

    Raises:
        RuntimeError: the operands are none for it.
    """
    check_blocks(query, key, value, dropout_p)
    batch, heads, queries, depth = query.shape
    groups, keys, width = key.shape[1], key.shape[2], value.shape[3]
    several = _together(queries, batch * groups)
    spans = -(-queries // (several * QUERIES))
    parts = min(-(-PARTS // max(1, batch * groups)), spans)
    # heads side by side in rows, as in PyTorch; so are those of keys and values
    grad_query = fresh(query, (batch, queries, heads, depth)).transpose(1, 2)
    sums = logsumexp.dtype
    by_part = [
        filled(query, (batch, parts, keys, groups, size), 0, sums)
        for size in (depth, width)
    ]
    if not keys:
        grad_query.zero_()
    else:
        mask = mask_for(attn_mask, query, key)
        sizes = query.shape, groups, keys, width, is_causal, scale
        total = batch * groups * parts
        work = -(-queries // parts) * keys * (3 * depth + 2 * width)
        first = [each[:, 0].transpose(1, 2) for each in by_part]
        operands = grad_query, *first, grad_out, out, query, key, value, mask
        known = logsumexp.contiguous()
        _launch(
            query.device,
            "backward",
            operands,
            known,
            sizes,
            parts,
            several,
            total,
            work,
        )
    results = [(t.sum(1) if parts > 1 else t.squeeze(1)) for t in by_part]
    results = [t.transpose(1, 2) for t in results]
    if sums is not query.dtype:
        results = [t.to(query.dtype) for t in results]
    return grad_query, *results


def attention_gradients(
    grad, query, key, value, is_causal, attn_mask, scale, out, log_mass
):
    """By blocks, or by operators that can be differentiated again."""
    if not is_recording():
        backward = ops._scaled_dot_product_flash_attention_for_cpu_backward
        given = query, key, value, out, log_mass, 0.0, is_causal
        return tuple(backward(grad, *given, attn_mask=attn_mask, scale=scale))
    return composed_gradients(grad, query, key, value, is_causal, attn_mask, scale)


def composed_gradients(
    grad, query, key, value, is_causal, attn_mask, scale, dropout=None
):
    """By products of whole matrices, which can be differentiated again.

    Args:
        dropout: what left weights out, as `attention_elsewhere.drawn` gives it.
    """
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 0.0
    dtypes = [t.dtype for t in (query, key, value)]
    if query.dtype.itemsize == 2:
        wide = [t.to(float32) for t in (grad, query, key, value)]
        grad, query, key, value = wide
    groups = key.shape[1]
    shared = query.shape[1] // groups if groups else 1
    if shared > 1:
        key, value = [t.repeat_interleave(shared, 1) for t in (key, value)]
    weights = _weights(query, key, attn_mask, is_causal, scale)
    slopes = ops.matmul(grad, value.transpose(-2, -1))
    used = weights
    if dropout is not None:
        growths = attention_cuda.growths(dropout, weights)
        used, slopes = weights * growths, slopes * growths
    slopes = weights * (slopes - (weights * slopes).sum(-1, True)) * scale
    results = [
        ops.matmul(slopes, key),
        ops.matmul(slopes.transpose(-2, -1), query),
        ops.matmul(used.transpose(-2, -1), grad),
    ]
    if shared > 1:
        results[1:] = [t.unflatten(1, (groups, shared)).sum(2) for t in results[1:]]
    pairs = zip(results, dtypes, strict=True)
    return tuple(t if t.dtype is dtype else t.to(dtype) for t, dtype in pairs)


def efficient_gradients(
    grad, query, key, value, attn_bias, dropout_p, is_causal, scale, results, needs
):
    """By a device's units, or by operators that can be differentiated again."""
    out, log_mass, *positions = results
    if is_recording() or log_mass.shape != out.shape[:3]:
        dropout = attention_cuda.drawn_before(dropout_p, *positions)
        given = query, key, value, is_causal, attn_bias, scale, dropout
        return composed_gradients(grad, *given)
    wanted = [bool(needs & 1 << k) for k in range(3)]
    backward = ops._scaled_dot_product_efficient_attention_backward
    given = query, key, value, attn_bias, out, log_mass, *positions
    rest = dropout_p, [*wanted, False], is_causal
    return tuple(backward(grad, *given, *rest, scale=scale)[:3])


def attention_in_steps(query, key, value, mask, lead, fill, factor, divides):
    """``softmax(mask(query @ key * factor)) @ value`` of three batches of matrices.

    Args:
        key: with a column for each key.
        lead: sizes that the batch is made of, one or two, as the mask counts them.
        fill: what scores are where the mask, a truth value, holds; without it the mask
            is added.
        divides: whether scores are divided by the factor.
    """
    known = fill is None or fill == LOWEST
    if not known:
        scores = ops.bmm(query, key).unflatten(0, lead)
        if factor is not None:
            scores = scores / factor if divides else scores * factor
        if mask is not None:
            scores = scores + mask if fill is None else scores.masked_fill(mask, fill)
        return ops.bmm(ops._softmax(scores, -1, False).flatten(0, -3), value)
    if mask is not None:
        mask = ~mask if fill is not None else mask
        mask = _four(mask.expand(*lead, query.shape[1], key.shape[2]), lead)
    scale = 1.0 if factor is None else 1.0 / factor if divides else factor
    operands = query, key.transpose(1, 2), value
    four = [_four(t.unflatten(0, lead), lead) for t in operands]
    out, log_mass = attention_by_blocks(*four, 0.0, False, mask, scale)
    out = out.contiguous()
    out.masked_fill_((log_mass == LOWEST).unsqueeze(-1), math.nan)
    return out.view(query.shape[0], *out.shape[-2:])
