"""Gradient checks of functions that take or return sparse tensors."""

from __future__ import annotations

import functools

import rushlight as rl
from rushlight.core import layout as layouts
from rushlight.operators import call


def as_sparse_gradcheck(gradcheck):
    """A gradient check that sparse tensors can be given to.

    The values of sparse inputs are varied; sparse results are compared dense.

    Args:
        gradcheck: the check for dense tensors.

    >>> check = rl.sparse.as_sparse_gradcheck(rl.autograd.gradcheck)
    >>> eye = rl.eye(2, dtype=rl.float64).to_sparse().requires_grad_()
    >>> check(lambda x: x * 2, (eye,))
    True
    """

    @functools.wraps(gradcheck)
    def check(func, inputs, **kwargs):
        kwargs.pop("masked", None)
        listed = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        flat = [_values(each) for each in listed]

        def dense(*values):
            rebuilt = [_rebuilt(like, value) for like, value in zip(listed, values)]
            results = func(*rebuilt)
            if isinstance(results, (tuple, list)):
                return tuple(_dense(each) for each in results)
            return _dense(results)

        return gradcheck(dense, tuple(flat), **kwargs)

    return check


def _is_sparse(value):
    return isinstance(value, rl.Tensor) and value.layout is layouts.sparse_coo


def _values(value):
    if not _is_sparse(value):
        return value
    return value.detach()._values().clone().requires_grad_(value.requires_grad)


def _rebuilt(like, value):
    if not _is_sparse(like):
        return value
    return call._sparse_coo_tensor_unsafe(
        like._indices(), value, list(like.shape), is_coalesced=like.is_coalesced()
    )


def _dense(value):
    return value.to_dense() if _is_sparse(value) else value
