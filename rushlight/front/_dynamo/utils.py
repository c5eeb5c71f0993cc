"""Counters of compiled functions, and small helpers, by PyTorch's names."""

import contextlib
import sys
import warnings

from rushlight._dynamo import config
from rushlight.core.device import Device
from rushlight.core.logs import counters
from rushlight.core.tensor import Tensor
from rushlight.graph.compile_times import seconds as compilation_time_metrics
from rushlight.graph.compile_times import timed
from rushlight.operators import call as ops
from rushlight.utils._pytree import tree_flatten

__all__ = [
    "bitwise_same",
    "calculate_time_spent",
    "clone_inputs",
    "compilation_time_metrics",
    "compile_times",
    "copy_dynamo_tensor_attributes",
    "counters",
    "disable_cache_limit",
    "dynamo_timed",
    "is_compile_supported",
    "print_time_report",
    "same",
    "warn_once",
]

NOTED = (
    "_dynamo_dynamic_indices",
    "_dynamo_static_indices",
    "_dynamo_strict_unbacked_indices",
    "_dynamo_unbacked_indices",
    "_dynamo_weak_dynamic_indices",
)
_said: set = set()


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


def copy_dynamo_tensor_attributes(src, dst):
    """Gives a tensor what was noted on another about sizes that change.

    Args:
        src: the tensor that `mark_dynamic` and its like were called with.
        dst: the other; what only it has noted is forgotten.
    """
    for name in NOTED:
        if name in src.__dict__:
            setattr(dst, name, src.__dict__[name])
        else:
            dst.__dict__.pop(name, None)


def bitwise_same(ref, res, equal_nan=False):
    """Whether results have the same numbers, to the last digit.

    Args:
        ref: a tensor, a number, or sequences and dicts of them.
        res: what is compared with it.
        equal_nan: whether NaN is like NaN.
    """
    return same(ref, res, tol=0.0, equal_nan=equal_nan)


def is_compile_supported(device_type):
    """Whether programs of a device are compiled."""
    return Device(device_type).type in ("cpu", "cuda")


def warn_once(msg, stacklevel=1):
    """Warns, if that has not been said before.

    Args:
        msg: the text.
        stacklevel: as of ``warnings.warn``.
    """
    if msg not in _said:
        _said.add(msg)
        warnings.warn(msg, stacklevel=stacklevel + 1)


@contextlib.contextmanager
def disable_cache_limit():
    """A block in which functions may have any number of programs."""
    most = sys.maxsize
    with config.patch(recompile_limit=most, accumulated_recompile_limit=most):
        yield


@contextlib.contextmanager
def dynamo_timed(key, **more):
    """A block, or a function, whose seconds are in `compile_times`.

    Args:
        key: what they are called there.
        more: kept for PyTorch's programs.
    """
    with timed(key):
        yield


def calculate_time_spent():
    """The seconds that compiling took, by what it was for, and in all.

    >>> "total_wall_time" in calculate_time_spent()
    True
    """
    found = {key: sum(seconds) for key, seconds in compilation_time_metrics.items()}
    parts = "entire_frame_compile", "entire_backward_compile"
    return {**found, "total_wall_time": sum(found.get(part, 0) for part in parts)}


def print_time_report():
    """Prints `calculate_time_spent` in a line."""
    found = calculate_time_spent().items()
    print("TIMING:" + " ".join(f"{key}:{round(one, 5)}" for key, one in found))


def compile_times(repr="str", aggregate=False):
    """A table of the seconds that compiling took, by what it was for.

    Args:
        repr: ``"str"`` for text, ``"csv"`` for names and for their numbers.
        aggregate: whether the seconds of several compilations are summed.
    """
    digits = 4 if repr == "str" else 6
    rows = {
        key: ", ".join(
            f"{one:.{digits}f}" for one in ([sum(all)] if aggregate else all)
        )
        for key, all in compilation_time_metrics.items()
    }
    if repr == "csv":
        return list(rows), list(rows.values())
    width = max(map(len, ("Function", *rows)))
    lines = [f"{key:<{width}}  {one}".rstrip() for key, one in rows.items()]
    head = f"{'Function':<{width}}  Runtimes (s)"
    rule = f"{'-' * width}  {'-' * 12}"
    return "\n".join(["TorchDynamo compilation metrics:", head, rule, *lines])
