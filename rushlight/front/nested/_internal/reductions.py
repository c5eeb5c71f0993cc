"""Reductions and normalisations of ragged tensors."""

import math

import rushlight as rl
from rushlight._value_types import neutral_of
from rushlight.nested._internal.nested_tensor import values_of, wrapped
from rushlight.nested._internal.padding import (
    leading_rows,
    packed,
    padded,
    rows_of_same,
)
from rushlight.nested._internal.rules import Rules

RULES = Rules()


def _dims(nested, dim, name):
    """Dimensions as numbers from 0; None for all.

    Raises:
        RuntimeError: the batch is reduced without the ragged dimension, or the ragged
            dimension with another but without the batch.
    """
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    n, at = nested.dim(), nested._ragged_idx
    dims = [dim] if isinstance(dim, int) else list(dim)
    for d in dims:
        if not -n <= d < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], "
                f"but got {d})"
            )
    dims = sorted({d % n for d in dims})
    if 0 in dims and at not in dims:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension "
            "is not supported for nested tensors"
        )
    if at in dims and 0 not in dims and len(dims) > 1:
        raise RuntimeError(
            f"{name}(): reducing along a ragged and non-batch dimension is not "
            "supported for nested tensors"
        )
    return dims


def _call(op, name, value, dim, args):
    """The operator on a dense tensor, along some dimensions."""
    names = [each.name for each in op._schema.arguments]
    filled = list(args)
    filled[0], filled[names.index("dim")] = value, dim
    return op.redispatch(None, *filled)


def _each(results, function):
    if isinstance(results, rl.Tensor):
        return function(results)
    return type(results)(function(each) for each in results)


def _argument(op, args, name, default=None):
    names = [each.name for each in op._schema.arguments]
    return args[names.index(name)] if name in names else default


def reduce(op, *args):
    """Reduce: along the ragged dimension filled up rows, else the values."""
    nested, name = args[0], op._opname
    names = [each.name for each in op._schema.arguments]
    if "dim" not in names:
        return op.redispatch(None, leading_rows(nested), *args[1:])
    given, keep = _argument(op, args, "dim"), _argument(op, args, "keepdim", False)
    dims, at = _dims(nested, given, name), nested._ragged_idx
    if dims is None:
        nested = packed(nested) if nested._lengths is not None else nested
        out = _call(op, name, values_of(nested), given, args)
        return _each(out, lambda r: r.unsqueeze(0)) if keep else out
    single = isinstance(given, int)
    if at not in dims:
        inner = [d - 1 for d in dims]
        out = _call(op, name, values_of(nested), inner[0] if single else inner, args)
        if not keep:
            at -= sum(d < at for d in dims)
        offsets, lengths, _, cache = nested.raggedness
        return _each(out, lambda r: wrapped(r, offsets, lengths, at, cache))
    if 0 in dims:
        inner = sorted({max(d - 1, 0) if d else at - 1 for d in dims})
        nested = packed(nested) if nested._lengths is not None else nested
        out = _call(op, name, values_of(nested), inner, args)
        return _each(out, lambda r: r.unsqueeze(0)) if keep else out
    return _along_parts(op, nested, args, at, single)


def _along_parts(op, nested, args, at, single):
    """Each part reduced by itself: a dense result."""
    name = op._opname
    neutral = neutral_of(op, nested.dtype)
    if name == "mean":
        return _mean_of_parts(op, nested, args, at)
    if neutral is not None:
        rows = padded(nested, neutral)
        return _call(op, name, rows, at if single else [at], args)
    dim = at - 1
    parts = [
        _call(op, name, t, dim if single else [dim], args) for t in nested.unbind()
    ]
    if isinstance(parts[0], rl.Tensor):
        return rl.stack(parts)
    return type(parts[0])(rl.stack(each) for each in zip(*parts))


def _mean_of_parts(op, nested, args, at):
    keep, dtype = _argument(op, args, "keepdim"), _argument(op, args, "dtype")
    total = padded(nested, 0).sum(at, keepdim=keep, dtype=dtype)
    lengths = nested._offsets.diff() if nested._lengths is None else nested._lengths
    shape = [-1] + [1] * (total.dim() - 1)
    return total / lengths.view(shape).to(total.dtype)


@RULES("_softmax", "_log_softmax")
def _softmax(op, nested, dim, *rest):
    """Softmax: along the ragged dimension in rows filled up with what weighs nothing.

    Raises:
        RuntimeError: along the batch.
    """
    name = op._opname.strip("_")
    (dim,) = _dims_of_one(nested, dim, name)
    at = nested._ragged_idx
    if dim == 0:
        raise RuntimeError(
            f"{name}(): not supported when reducing across the batch dimension for "
            "NestedTensor"
        )
    if dim != at:
        found = op.redispatch(None, values_of(nested), dim - 1, *rest)
        return wrapped(found, *nested.raggedness)
    nested = packed(nested) if nested._lengths is not None else nested
    rows = op.redispatch(None, padded(nested, -math.inf), at, *rest)
    return wrapped(rows_of_same(rows, nested), *nested.raggedness)


def _dims_of_one(nested, dim, name):
    n = nested.dim()
    if isinstance(dim, (list, tuple)):
        raise RuntimeError(
            f"{name}(): not supported for dimensions of type 'tuple' for NestedTensor"
        )
    if not -n <= dim < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but "
            f"got {dim})"
        )
    return (dim % n,)


@RULES("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "flip")
def _scanned(op, nested, dim, *rest):
    """A scan, or what else keeps a dimension: along the ragged one part by part.

    Raises:
        RuntimeError: along the batch.
    """
    (dim,) = _dims_of_one(nested, dim, op._opname)
    if dim == 0:
        raise RuntimeError(f"{op._opname}(): not supported for NestedTensor on dim=0")
    at = nested._ragged_idx
    if dim != at:
        found = op.redispatch(None, values_of(nested), dim - 1, *rest)
    else:
        nested = packed(nested) if nested._lengths is not None else nested
        parts = [op.redispatch(None, t, dim - 1, *rest) for t in nested.unbind()]
        single = isinstance(parts[0], rl.Tensor)
        found = rl.cat(parts, at - 1) if single else tuple(
            rl.cat(each, at - 1) for each in zip(*parts)
        )  # fmt: skip
    return _each(found, lambda r: wrapped(r, *nested.raggedness))


@RULES("native_layer_norm")
def _layer_norm(op, nested, normalized_shape, *rest):
    """Normalise the last dimensions, part by part where the ragged one is among them.

    Raises:
        RuntimeError: there are too few dimensions, or the batch is among them.
    """
    if nested.dim() <= 2:
        raise RuntimeError(
            "layer_norm(): not supported for NestedTensor objects with 2 or fewer "
            "dimensions"
        )
    count, at = len(normalized_shape), nested._ragged_idx
    if count >= nested.dim():
        raise RuntimeError(
            "layer_norm(): not supported when normalizing over the batch dimension for "
            "NestedTensor"
        )
    if at < nested.dim() - count:
        found = op.redispatch(None, values_of(nested), normalized_shape, *rest)
        return _each(found, lambda r: wrapped(r, *nested.raggedness))
    nested = packed(nested) if nested._lengths is not None else nested
    parts = [
        op.redispatch(None, part, tuple(part.shape[part.dim() - count :]), *rest)
        for part in nested.unbind()
    ]
    out, *moments = zip(*parts)
    out = wrapped(rl.cat(out, at - 1), *nested.raggedness)
    return (out, *(rl.stack(each) for each in moments))


@RULES("_fused_rms_norm")
def _rms_norm(op, nested, normalized_shape, *rest):
    """The same by the root of the mean of squares.

    Raises:
        ValueError: the ragged dimension is among the last ones.
    """
    if nested.dim() - len(normalized_shape) <= nested._ragged_idx:
        raise ValueError(
            "rms_norm(): Normalization over the ragged dim not supported for nested "
            "tensors"
        )
    found = op.redispatch(None, values_of(nested), normalized_shape, *rest)
    return _each(found, lambda r: wrapped(r, *nested.raggedness))
