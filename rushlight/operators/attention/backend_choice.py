"""Which of PyTorch's ways to attend a program allows on the host, and whether one fits.

There, too, the switches decide: ``nn.attention.sdpa_kernel`` and
``backends.cuda.enable_flash_sdp`` and its kind.
"""

from rushlight.core.dtype import FLOATING
from rushlight.core.switches import switch
from rushlight.core.warning import warn
from rushlight.dispatch.outputs import spelled


def may_use_blocks(query, key, value, attn_mask, dropout_p, enable_gqa):
    """Whether attention by blocks is allowed, or only step by step.

    Raises:
        RuntimeError: the switches leave nothing that can run the call.
    """
    blocks, steps = switch("flash_sdp"), switch("math_sdp")
    operands = query, key, value
    if blocks and steps or not all(t.numel() for t in operands):
        return True
    if not blocks and not steps:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely "
            "due to turning off both the math kernel and the fused kernels."
        )
    if not blocks:
        return False
    reason = _why_not(*operands, attn_mask, dropout_p, enable_gqa)
    if reason is None:
        return True
    warn("Flash attention kernel not used because:")
    if reason:
        warn(reason)
    raise RuntimeError("No available kernel.  Aborting execution.")


def _why_not(query, key, value, attn_mask, dropout_p, enable_gqa):
    """Why PyTorch's fused kernel does not take operands; None where it does.

    It says nothing of masks that learn or have sizes that do not fit.
    """
    operands = query, key, value
    kinds = [spelled(t.dtype) for t in operands]
    shapes = [list(t.shape) for t in operands]
    if query.dtype.category != FLOATING:
        return (
            "Expected query, key and value to all be of dtype: {Float, Double, BFloat16, "
            f"Half}}. Got Query dtype: {kinds[0]}, Key dtype: {kinds[1]}, and Value dtype: "
            f"{kinds[2]} instead."
        )
    if dropout_p > 0:
        return "Both fused kernels do not support non-zero dropout."
    if {t.ndim for t in operands} != {4}:
        return (
            "All fused kernels requires query, key and value to be 4 dimensional, but got "
            f"Query dim: {query.ndim}, Key dim: {key.ndim}, Value dim: {value.ndim} "
            "instead."
        )
    return _why_not_sizes(shapes, enable_gqa) or _why_not_layout(operands, attn_mask)


def _why_not_sizes(shapes, enable_gqa):
    """The same of batches and heads."""
    remedy = (
        "instead. To broadcast dense inputs, try using unsqueeze and expand_to before "
        "passing them into the kernel."
    )
    q, k, v = shapes
    if not q[0] == k[0] == v[0]:
        return (
            "For dense inputs, both fused kernels require query, key and value to have the "
            f"same batch_size. Query.sizes(): {q}, Key.sizes(): {k}, Value.sizes(): {v} "
            f"{remedy}"
        )
    if enable_gqa and (k[1] != v[1] or q[1] % k[1]):
        return (
            "The number of heads in key/value must divide number of heads in query.Got "
            f"input Key sizes(): {k[1]}, Value sizes(): {v[1]}, Query sizes(): {q[1]} "
            "instead."
        )
    if not enable_gqa and not q[1] == k[1] == v[1]:
        return (
            "For dense input, both fused kernels require query, key and value to have the "
            f"same num_heads. Query.sizes(): {q}, Key sizes(): {k}, Value sizes(): {v} "
            f"{remedy}"
        )
    return None


def _why_not_layout(operands, attn_mask):
    """The same of masks, lengths of heads and strides."""
    q, k, v = (t.shape for t in operands)
    if attn_mask is not None and attn_mask.ndim not in (2, 4):
        return (
            "Please use the following attn mask shapes: 2d - ({Q_seq_len, 1}  x "
            "{KV_seq_len, 1}); 4d - ({Batch, 1} x {Num_heads, 1} x {Q_seq_len, 1}  x "
            "{KV_seq_len, 1})"
        )
    if attn_mask is not None:
        full = (q[0], q[1], q[2], k[2])[-attn_mask.ndim :]
        fits = all(n in (1, m) for n, m in zip(attn_mask.shape, full, strict=True))
        if attn_mask.requires_grad or not fits:
            return ""
    if not q[3] == k[3] == v[3]:
        return (
            "Flash attention requires q,k,v to have the same last dimension. Got "
            f"Query.size(-1): {q[3]}, Key.size(-1): {k[3]}, Value.size(-1): {v[3]} instead."
        )
    steps = [t.stride(-1) for t in operands]
    if steps != [1, 1, 1]:
        return (
            "All fused kernels require the last dimension of the input to have stride 1. "
            f"Got Query.stride(-1): {steps[0]}, Key.stride(-1): {steps[1]}, "
            f"Value.stride(-1): {steps[2]}"
        )
    return None
