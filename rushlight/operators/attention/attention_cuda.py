"""Attention by the matrix units of other devices, where their kernels take the operands.

A device is asked through `rushlight.core.device_roles.Libraries.attends`. Its kernels read rows in
runs of 16 bytes: heads of other sizes have zeros put behind them, as PyTorch does, and what
is laid out in another way is copied first.
"""

from rushlight.core.device import backend_for
from rushlight.core.layout import contiguous_format
from rushlight.core.state import included_keys
from rushlight.core.window import address_of
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.dispatch.keys import DispatchKey
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import fresh
from rushlight.operators.random import philox
from rushlight.operators.shared import followed, intercepted

RUN = 16  # bytes of a run
MOST_CHANCE = 1 - 2.0**-24  # the largest number in single precision below 1


def serves(query, key, value, attn_mask, dropout_p):
    """Whether a device has a kernel for operands that fit one another."""
    device, drops = query.device, dropout_p != 0
    if drops and not draws(query, dropout_p):
        return False
    masked = attn_mask is not None
    tensors = query, key, value, *((attn_mask,) if masked else ())
    sizes = query.shape[-1], value.shape[-1]
    return all(t.device == device and t.numel() for t in tensors) and (
        backend_for(device).libraries.attends(
            device, query.dtype, *sizes, masked, drops
        )
    )


def draws(query, chance):
    """Whether kernels may draw which weights are left out.

    Not where a program is made of what is called, or a batch has draws of its own: only
    operators that draw are known there.
    """
    batched = included_keys() >> DispatchKey.Batched & 1
    return 0 < chance <= MOST_CHANCE and not (
        batched or followed() or intercepted(query)
    )


def drawn(query, keys, chance):
    """The chance, and where words for all weights begin; None without dropout.

    That is a pair of seed and offset. Where a graph is written down they are known when it
    is launched: then it is a tensor of both, which the graph fills.

    Raises:
        RuntimeError: the chance is none that kernels draw by.
    """
    if not chance:
        return None
    if not 0 < chance <= MOST_CHANCE:
        raise RuntimeError(
            "attention: the probability of dropout has to be at least 0 and below 1, but "
            f"got {chance}"
        )
    return chance, _draw(query.device, query, keys)


def _draw_on_device(device, query, keys):
    generator = backend_for(query.device).generator(query.device)
    steps = query.shape[:3].numel() * keys
    seed, offset, state = philox.place_for(query.device, generator, steps)
    return (seed, offset) if state is None else philox.place_in(state, offset)


_draw = KernelTable(cpu=_draw_on_device, meta=lambda *_: (0, 0))


def drawn_before(chance, seed, offset):
    """What `drawn` gave, of the seed and the offset that an operator has given since."""
    if not chance:
        return None
    return chance, _place_before(seed.device, seed, offset)


_place_before = KernelTable(
    cpu=lambda device, seed, offset: (seed.item(), offset.item()),
    cuda=lambda device, seed, offset: ops.stack([seed, offset]),
    meta=lambda device, seed, offset: ops.stack([seed, offset]),
)


def growths(dropout, like):
    """What weights are multiplied by, as kernels draw it: zeros, or more than one.

    Args:
        dropout: as `drawn` gives it.
        like: a tensor of float32 with an element for each weight.
    """
    chance, place = dropout
    captured = not isinstance(place, tuple)
    seed, offset = (0, 0) if captured else place
    numbers = fresh(like, like.shape)
    if like.numel():  # a width of 1: the words of one thread, in order
        count, where = like.numel(), (seed, offset, place if captured else None)
        philox.launch(numbers, where, 1, count, -(-count // 4), philox.UNIFORM)
    kept = ops.gt(numbers, ops.full((), chance, dtype=like.dtype, device=like.device))
    return ops.mul(ops.to(kept, like.dtype), 1.0 / (1.0 - chance))


def padded(tensor):
    """The tensor with zeros behind its rows, up to whole runs.

    >>> import rushlight as rl
    >>> padded(rl.ones(2, 13)).shape
    rushlight.Size([2, 16])
    """
    more = -tensor.shape[-1] % (RUN // tensor.element_size())
    return ops.constant_pad_nd(tensor, (0, more)) if more else tensor


def in_runs(tensor):
    """The tensor, or a copy whose rows are runs that begin at multiples of 16 bytes."""
    size = tensor.element_size()
    steps = zip(tensor.stride()[:-1], tensor.shape[:-1], strict=True)
    whole = (
        tensor.stride(-1) == 1
        and address_of(tensor) % RUN == 0
        and all(step * size % RUN == 0 for step, count in steps if count > 1)
    )
    return tensor if whole else tensor.clone(memory_format=contiguous_format)


def attend(out, operands, attn_mask, log_mass, is_causal, scale, dropout):
    """Has the device of operands attend.

    Raises:
        RuntimeError: heads are not made of runs.
    """
    query, _, value = operands
    if not made_of_runs(query, value):
        raise RuntimeError(
            "attention: elements of heads come in runs of "
            f"{RUN // query.element_size()}, but queries have "
            f"{query.shape[-1]} and values {value.shape[-1]}"
        )
    operands = *map(in_runs, operands), attn_mask
    backend = backend_for(query.device)
    backend.libraries.run_attention(out, operands, log_mass, is_causal, scale, dropout)


def made_of_runs(query, value):
    """Whether heads are of whole runs."""
    size = query.element_size()
    return query.shape[-1] * size % RUN == 0 == value.shape[-1] * size % RUN


def differentiate(
    results, grad, out, operands, attn_mask, log_mass, is_causal, scale, dropout
):
    """Has the device write gradients; whether it has kernels for them.

    Args:
        results: where those of queries, keys and values are written, or None.
        log_mass: dense.
    """
    query, _, value = operands
    if not made_of_runs(query, value):
        return False
    operands = *map(in_runs, operands), attn_mask
    backend = backend_for(query.device)
    grad, out = in_runs(grad), in_runs(out)
    rest = operands, log_mass, is_causal, scale, dropout
    return backend.libraries.run_attention_gradients(results, grad, out, *rest)
