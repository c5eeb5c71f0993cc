"""Attention by the matrix units of other devices, where their kernels take the operands.

A device is asked through `rushlight.core.device.Backend.attends`. Its kernels read rows in
runs of 16 bytes: heads of other sizes have zeros put behind them, as PyTorch does, and what
is laid out in another way is copied first.
"""

from __future__ import annotations

import rushlight
from rushlight.core.device import backend_for
from rushlight.core.window import address_of
from rushlight.ops import call as ops

RUN = 8  # elements of a run


def serves(query, key, value, attn_mask, dropout_p):
    """Whether a device has a kernel for operands that fit one another."""
    device = query.device
    if device.on_host or query.is_meta or dropout_p > 0:
        return False
    masked = attn_mask is not None
    tensors = query, key, value, *((attn_mask,) if masked else ())
    sizes = query.shape[-1], value.shape[-1]
    return all(t.device == device and t.numel() for t in tensors) and (
        backend_for(device).attends(device, query.dtype, *sizes, masked)
    )


def padded(tensor):
    """The tensor with zeros behind its rows, up to whole runs.

    >>> import rushlight as rl
    >>> padded(rl.ones(2, 13)).shape
    rushlight.Size([2, 16])
    """
    more = -tensor.shape[-1] % RUN
    return ops.constant_pad_nd(tensor, (0, more)) if more else tensor


def in_runs(tensor):
    """The tensor, or a copy whose rows are runs that begin at multiples of 16 bytes."""
    steps = zip(tensor.stride()[:-1], tensor.shape[:-1], strict=True)
    whole = (
        tensor.stride(-1) == 1
        and address_of(tensor) % (RUN * tensor.element_size()) == 0
        and all(step % RUN == 0 for step, size in steps if size > 1)
    )
    return tensor if whole else tensor.clone(memory_format=rushlight.contiguous_format)


def attend(out, operands, attn_mask, log_mass, is_causal, scale):
    """Has the device of operands attend.

    Raises:
        RuntimeError: heads are not made of runs.
    """
    query, _, value = operands
    if not made_of_runs(query, value):
        raise RuntimeError(
            f"attention: elements of heads come in runs of {RUN}, but queries have "
            f"{query.shape[-1]} and values {value.shape[-1]}"
        )
    operands = *map(in_runs, operands), attn_mask
    backend = backend_for(query.device)
    backend.run_attention(out, operands, log_mass, is_causal, scale)


def made_of_runs(query, value):
    """Whether heads are of whole runs."""
    return query.shape[-1] % RUN == 0 == value.shape[-1] % RUN


def differentiate(results, grad, out, operands, attn_mask, log_mass, is_causal, scale):
    """Has the device write gradients; whether it has kernels for them.

    Args:
        results: where those of queries, keys and values are written, or None.
        log_mass: dense.
    """
    query, _, value = operands
    if query.device.on_host or not made_of_runs(query, value):
        return False
    operands = *map(in_runs, operands), attn_mask
    backend = backend_for(query.device)
    grad, out = in_runs(grad), in_runs(out)
    rest = operands, log_mass, is_causal, scale
    return backend.run_attention_gradients(results, grad, out, *rest)
