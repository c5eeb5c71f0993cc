"""Counters of compiled functions, and small helpers, by PyTorch's names."""

from __future__ import annotations

from rushlight.core.logs import counters
from rushlight.core.tensor import Tensor
from rushlight.operators import call as ops
from rushlight.utils._pytree import tree_flatten

__all__ = ["clone_inputs", "compile_times", "counters", "same"]


def same(
    ref,
    res,
    fp64_ref=None,
    cos_similarity=False,
    tol=1e-4,
    equal_nan=False,
    exact_dtype=True,
    **more,
):
    """Whether results are the same, tensors within a tolerance.

    Args:
        ref: a tensor, a number, or sequences and dicts of them.
        res: what is compared with it.
        tol: relative and absolute tolerance.
        equal_nan: whether NaN is like NaN.
        exact_dtype: whether types have to be the same.

    >>> import rushlight as rl
    >>> same([rl.ones(2), 3], [rl.ones(2), 3]), same(rl.ones(2), rl.zeros(2))
    (True, False)
    """
    ours, shape = tree_flatten(ref)
    theirs, other = tree_flatten(res)
    return shape == other and all(
        is_alike(one, two, tol, equal_nan, exact_dtype)
        for one, two in zip(ours, theirs, strict=True)
    )


def is_alike(one, two, tol, equal_nan, exact_dtype):
    """Whether two leaves are the same."""
    if not isinstance(one, Tensor) or not isinstance(two, Tensor):
        return one == two
    if one.shape != two.shape or exact_dtype and one.dtype is not two.dtype:
        return False
    two = two.to(one.dtype)
    if not one.is_floating_point() and not one.is_complex():
        return ops.equal(one, two)
    return ops.allclose(one, two, tol, tol, equal_nan)


def clone_inputs(example_inputs):
    """Copies of tensors with the same wish for gradients.

    Args:
        example_inputs: a sequence or a dict of tensors.
    """
    if isinstance(example_inputs, dict):
        return {name: clone_input(one) for name, one in example_inputs.items()}
    return [clone_input(one) for one in example_inputs]


def clone_input(x):
    """A copy of a tensor with the same wish for gradients; other things as they are."""
    if not isinstance(x, Tensor):
        return x
    return x.detach().clone().requires_grad_(x.requires_grad)


def compile_times(repr="str", aggregate=False):
    """A table of how many graphs were made: nothing here measures their making.

    Args:
        repr: ``"str"`` for text, ``"csv"`` for rows of names and rows of numbers.
    """
    rows = sorted(counters["stats"].items())
    if repr == "csv":
        return [name for name, _ in rows], [[number] for _, number in rows]
    return "\n".join(f"{name}: {number}" for name, number in rows)
