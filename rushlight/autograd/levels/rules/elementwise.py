"""Operands aligned at their last dimension, behind the batch."""

from __future__ import annotations

from rushlight.autograd.levels.stack import each, follow, mapped, tensors
from rushlight.core.layout import (
    MemoryFormat,
    channels_last,
    channels_last_3d,
    contiguous_format,
)
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import INPLACE

CHANNELS_LAST = (channels_last, channels_last_3d)


def elementwise(level, op, args):
    """Operands are aligned at their last dimension, behind the batch."""
    found = list(tensors(args))
    rank = max(t.dim() for t in found)
    if len({t.dtype for t in found}) > 1:
        # a 0-dim tensor promotes less than a batch of them, beside what has no batch
        if rank and any(t.dim() == 0 and level.owns(t) for t in found):
            return NotImplemented
        if not rank and not all(level.owns(t) for t in found):
            return NotImplemented
    if op.form == INPLACE and args[0].dim() < rank:
        return NotImplemented

    def aligned(tensor):
        if not level.owns(tensor):
            return tensor
        value = level.front(tensor)
        for _ in range(rank - tensor.dim()):
            value = value.unsqueeze(1)
        return value

    values = each(aligned, args)
    if any(value in CHANNELS_LAST for value in values if type(value) is MemoryFormat):
        # the format of one example: a batch of them has a rank that it is not for
        values = [
            contiguous_format if type(v) is MemoryFormat and v in CHANNELS_LAST else v
            for v in values
        ]
    result = op.redispatch(None, *values)
    return args[0] if op.form == INPLACE else mapped(level.wrap, result)


def filled_in(level, op, args):
    """One number for all, or one for each example: what is copied broadcasts."""
    target, value = args
    if isinstance(value, Tensor) and level.owns(value) and not value.dim():
        spread = level.front(value)
        for _ in range(target.dim()):
            spread = spread.unsqueeze(-1)
        level.front(target).copy_(spread)
        return target
    if isinstance(value, Tensor) and level.owns(value):
        return NotImplemented
    op.redispatch(None, level.front(target), value)
    return target


def resized(level, op, args):
    """The memory of all examples, read anew with other sizes of one.

    Raises:
        RuntimeError: another format is asked for, or the examples do not come first.
    """
    target, size, memory_format = args
    if memory_format not in (None, contiguous_format):
        raise RuntimeError(
            "resize_: batching rule only supports None or Contiguous MemoryFormat"
        )
    stand = target._stand
    if stand.dim != 0:
        raise RuntimeError("NYI: resize_ batch rule for batch dim != 0")
    op.redispatch(None, stand.value, [level.size, *size], None)
    follow(target, stand.value, 0)
    return target
