"""Products with ragged tensors."""

import rushlight as rl
from rushlight.nested._internal.nested_tensor import NestedTensor, values_of, wrapped
from rushlight.nested._internal.rules import Rules
from rushlight.nested._internal.views import parts

RULES = Rules()


@RULES("linear")
def _linear(op, nested, weight, bias):
    if nested._ragged_idx == nested.dim() - 1:
        raise RuntimeError(
            f"linear(): not supported along the ragged dimension, of {nested._size}"
        )
    found = op.redispatch(None, values_of(nested), weight, bias)
    return wrapped(found, *nested.raggedness)


def _refuse(one, other):
    raise RuntimeError(
        f"matmul(): not supported between inputs of shapes {tuple(one.shape)} and "
        f"{tuple(other.shape)}"
    )


def _by_parts(one, other):
    """Products of parts, one by one."""
    ones = parts(one) if isinstance(one, NestedTensor) else one.unbind()
    others = parts(other) if isinstance(other, NestedTensor) else other.unbind()
    return [a @ b for a, b in zip(ones, others)]


def _nested_by_dense(one, other):
    if one._ragged_idx >= one.dim() - 1:
        _refuse(one, other)
    if other.dim() == 2 and one.dim() > 2:
        return wrapped(values_of(one) @ other, *one.raggedness)
    if other.dim() != one.dim() or len(other) != len(one):
        _refuse(one, other)
    found = rl.cat(_by_parts(one, other), one._ragged_idx - 1)
    return wrapped(found, *one.raggedness)


def _dense_by_nested(one, other):
    if other._ragged_idx < 2 or (other._ragged_idx == other.dim() - 2):
        _refuse(one, other)
    if one.dim() == 2 and other.dim() > 2:
        return wrapped(one @ values_of(other), *other.raggedness)
    if other.dim() != one.dim() or len(other) != len(one):
        _refuse(one, other)
    found = rl.cat(_by_parts(one, other), other._ragged_idx - 1)
    return wrapped(found, *other.raggedness)


def _nested_by_nested(one, other):
    if one._ragged != other._ragged:
        _refuse(one, other)
    n = one.dim()
    if n == other.dim() == 3 and (one._ragged_idx, other._ragged_idx) == (2, 1):
        return rl.stack(_by_parts(one, other))
    same = one._ragged_idx == other._ragged_idx < n - 2
    if n > 3 and n == other.dim() and same:
        return wrapped(values_of(one) @ values_of(other), *one.raggedness)
    if n == other.dim() > 3 and (one._ragged_idx, other._ragged_idx) == (n - 1, n - 2):
        return rl.stack(_by_parts(one, other))
    return _refuse(one, other)


@RULES("matmul")
def _matmul(op, one, other):
    """Products: by values where the ragged dimension is one of rows, else part by part.

    Raises:
        RuntimeError: the ragged dimension is summed over with another one.
    """
    if not isinstance(other, NestedTensor):
        return _nested_by_dense(one, other)
    if not isinstance(one, NestedTensor):
        return _dense_by_nested(one, other)
    return _nested_by_nested(one, other)


@RULES("bmm")
def _bmm(op, one, other):
    if one.dim() != 3:
        raise ValueError("bmm(): input must be 3D")
    if other.dim() != 3:
        raise ValueError("bmm(): mat2 must be 3D")
    return _matmul(op, one, other)
