"""Dimensions counted from behind the batch, and views of sizes."""

import functools
import math

from rushlight.autograd.levels.stack import each, mapped, tensors
from rushlight.core.dtype import promote_types
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import (
    ARGUMENTS,
    IMPLEMENTATION,
    INPLACE,
    KIND,
    NAME,
)


def in_place(rule):
    """Marks a rule that takes the forms of an operator that write, too."""
    rule.in_place = True
    return rule


def along_dim(level, op, args):
    """Dimensions are counted from behind the batch."""
    names = [row[0] for row in op.entry[ARGUMENTS]]
    rank = args[0].dim()
    base = op.entry[NAME]
    if any(t.dim() != rank for t in tensors(args)):
        return NotImplemented
    if base == "squeeze" and "dim" not in names:
        sizes = args[0].shape
        dims = [d + 1 for d in range(rank) if sizes[d] == 1]
        return level.wrap(level.front(args[0]).squeeze(dims))
    values = each(level.filled, args)
    single = rank == 0 and base != "unsqueeze"
    if single:
        values = each(lambda t: t.unsqueeze(1), values)
    whole = 1 if single else rank + (base == "unsqueeze")
    shifted = False
    for i, name in enumerate(names):
        if name in ("dim", "dims", "dim0", "dim1", "dim2", "dimension"):
            if values[i] is None or (values[i] == [] and base != "flip"):
                return NotImplemented
            values[i] = shift(values[i], whole)
            shifted = True
    if not shifted and (
        op.entry[IMPLEMENTATION][KIND] != "view" or base not in ("detach", "alias")
    ):
        return NotImplemented
    result = op.redispatch(None, *values)
    if op.form == INPLACE:
        return args[0]
    if single:
        # the one element was a row of its own
        result = mapped(lambda t: t.squeeze(1) if t.dim() > 1 else t, result)
    return mapped(level.wrap, result)


def shift(dim, rank):
    if isinstance(dim, (list, tuple)):
        return [shift(d, rank) for d in dim]
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], "
            f"but got {dim})"
        )
    return dim % rank + 1


# -- views with sizes --------------------------------------------------------------------


def sized(level, op, args):
    x, size = args[0], list(args[1])
    if -1 in size:
        known = math.prod(n for n in size if n != -1)
        if size.count(-1) > 1 or not known or x.numel() % known:
            return NotImplemented
        size[size.index(-1)] = x.numel() // known
    return level.wrap(op.redispatch(None, level.front(x), [level.size, *size]))


def created(level, op, args):
    """A new tensor of given sizes for each example, and of given strides."""
    size, *rest = args[1:]
    if op.entry[NAME] == "new_empty_strided":
        spans = [(n - 1) * stride for n, stride in zip(size, rest[0])]
        rest[0] = [1 + sum(spans), *rest[0]]
    sizes = [level.size, *size]
    return level.wrap(op.redispatch(None, level.front(args[0]), sizes, *rest))


def unsafe_sized(level, op, args):
    """The examples may lie in memory as no view of the batch could: copied, then."""
    x, size = args[0], args[1]
    return level.wrap(level.front(x).reshape([level.size, *size]))


def expand(level, op, args):
    x, size = args[0], list(args[1])
    extra = len(size) - x.dim()
    if extra < 0:
        return NotImplemented
    value = level.front(x)
    for _ in range(extra):
        value = value.unsqueeze(1)
    for i in range(extra, len(size)):
        if size[i] == -1:
            size[i] = x.shape[i - extra]
    return level.wrap(value.expand(level.size, *size))


def permute(level, op, args):
    x = args[0]
    return level.wrap(level.front(x).permute(0, *shift(args[1], x.dim())))


def batch_last(level, op, args):
    """What concerns the last dimensions only."""
    if any(level.owns(t) for t in tensors(args[1:])):
        return NotImplemented
    return mapped(level.wrap, op.redispatch(None, level.front(args[0]), *args[1:]))


def bytes_of(level, op, args):
    """``view`` as another dtype: of widths that differ, examples have a last dimension."""
    x, dtype = args
    if x.dim() == 0 and x.dtype.itemsize != dtype.itemsize:
        return NotImplemented
    return batch_last(level, op, args)


def t(level, op, args):
    x = args[0]
    if x.dim() > 2:
        return NotImplemented
    value = level.front(x)
    return level.wrap(value.transpose(1, 2) if x.dim() == 2 else value)


def embedded(level, op, args):
    """``diag_embed``, whose result has a dimension more."""
    x, offset, *dims = args
    return level.wrap(
        op.redispatch(None, level.front(x), offset, *shift(dims, x.dim() + 1))
    )


def rolled(level, op, args):
    """``roll``, of all elements in a row where no dimension is named."""
    x, shifts, dims = args
    value = level.front(x)
    if dims and x.dim():
        return level.wrap(op.redispatch(None, value, shifts, shift(dims, x.dim())))
    if not x.dim():
        return level.wrap(value.clone())
    rows = op.redispatch(None, value.flatten(1), shifts, [1])
    return level.wrap(rows.view(value.shape))


def written_part(level, op, args):
    """A part of a tensor replaced; a slice has a dimension less."""
    names = [row[0] for row in op.entry[ARGUMENTS]]
    rank = args[0].dim()
    values = [
        shift(value, rank) if name in ("dim", "dim1", "dim2") else value
        for name, value in zip(names, each(level.filled, args), strict=True)
    ]
    return level.wrap(op.redispatch(None, *values))


def put_back(level, op, args):
    """The gradients of views that leave elements out: the sizes of all are given."""
    names = [row[0] for row in op.entry[ARGUMENTS]]
    grad, sizes, *rest = args
    whole = list(sizes) or [1]  # the one element is a row of its own
    rest = [
        shift(value, len(whole)) if name.startswith("dim") else value
        for name, value in zip(names[2:], rest)
    ]
    value = level.front(grad) if sizes else level.front(grad).unsqueeze(1)
    result = op.redispatch(None, value, [level.size, *whole], *rest)
    return level.wrap(result if sizes else result.squeeze(1))


def as_strided(level, op, args):
    x, size, stride, offset = args
    value = level.front(x)
    offset = value.storage_offset() if offset is None else offset
    return level.wrap(
        value.as_strided([level.size, *size], [value.stride(0), *stride], offset)
    )


def joined(level, op, args):
    """``cat`` and ``stack``."""
    parts, dim = args
    if not all(isinstance(t, Tensor) for t in parts):
        return NotImplemented
    if op.entry[NAME] == "cat":
        # empty vectors are passed over, whatever they are joined to
        parts = [t for t in parts if t.shape != (0,)] or parts[:1]
    rank = max(t.dim() for t in parts) + (op.entry[NAME] == "stack")
    if rank == 0 or len({t.dim() for t in parts}) > 1:
        return NotImplemented
    values = [level.filled(t) for t in parts]
    if len({t.dtype for t in args[0]}) > 1:
        into = functools.reduce(promote_types, [t.dtype for t in args[0]])
        values = [value.to(into) for value in values]
    return level.wrap(op.redispatch(None, values, shift(dim, rank)))


def repeat(level, op, args):
    x, repeats = args
    value = level.front(x)
    for _ in range(len(repeats) - x.dim()):
        value = value.unsqueeze(1)
    return level.wrap(value.repeat(1, *repeats))


def of_all_examples(level, op, args):
    """A question about the whole batch, whose answer is no batch."""
    return op.redispatch(None, level.front(args[0]))


PLEASE_FILE = (
    "Please file an issue at https://github.com/pytorch/pytorch/issues if you need this "
    "feature."
)


def data_dependent(level, op, args):
    """Refuses results whose shapes would differ from example to example."""
    name = op.entry[NAME]
    if name == "masked_select":
        if level.shares(args[1]):
            return NotImplemented
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We "
            "cannot support this because for each batch this would return a differently "
            f"shaped Tensor. {PLEASE_FILE}"
        )
    raise RuntimeError(
        "vmap: We do not support batching operators that can output dynamic shape. "
        f"Attempted to vmap over aten::{SHOWN.get(name, name)}. {PLEASE_FILE}"
    )


# whom users have called
SHOWN = {"nonzero_numpy": "where", "_unique_consecutive": "unique_consecutive"}
