"""Operands aligned at their last dimension, behind the batch."""

import functools

from rushlight.autograd.levels.stack import each, follow, mapped, tensors
from rushlight.core.dtype import promote_types
from rushlight.core.dtypes import bool_
from rushlight.core.factories import is_wrapped_number
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
    if op.form == INPLACE and args[0].dim() < rank:
        return NotImplemented
    weak = _weak_types(found) if len({t.dtype for t in found}) > 1 else None

    def aligned(tensor):
        if not level.owns(tensor):
            # beside a batch of numbers, one for all promotes as they do
            single = weak is not None and not rank and not is_wrapped_number(tensor)
            return tensor.unsqueeze(0) if single else tensor
        value = level.front(tensor)
        if weak and not tensor.dim() and tensor.dtype in weak:
            value = value.to(weak[tensor.dtype])
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


def _weak_types(found):
    """What 0-dim tensors become, so that a batch of them promotes as little as they do.

    Beside tensors with dimensions a 0-dim one of the same category has no say in the
    result's type, and a real one beside complex ones has none in its precision.
    """
    wide = [t.dtype for t in found if t.dim()]
    if not wide:
        return {}
    into = functools.reduce(promote_types, wide)
    real = into.to_real() if into.is_complex else into
    weak = {}
    for kind in {t.dtype for t in found if not t.dim()}:
        if _category(kind) == _category(into):
            weak[kind] = into
        elif kind.is_floating_point and into.is_complex:
            weak[kind] = real
    return weak


def _category(dtype):
    """Booleans, integers, real and complex numbers, as they promote."""
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else int(dtype is not bool_)


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
