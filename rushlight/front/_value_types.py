"""Types of tensors that compute on values, above autograd: who answers to their key.

A type says ``_dispatch_keys = KEY`` and ``_run_operator(op, args)``. Operators with an
argument of it come there whole; what they call on values is recorded as it always is.
"""

from __future__ import annotations

import functools

import rushlight as rl
from rushlight.dispatch.declared import BATCHING, IMPLEMENTATION, KIND
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.python_kernels import PythonKernel, set_fallback

__all__ = ["KEY", "among", "is_elementwise", "keep_whole", "writes"]

KEY = 1 << DispatchKey.ValueType


def among(kind, args):
    """The tensors of a type among arguments and in their lists.

    Args:
        kind: the type.
        args: the arguments.
    """
    for each in args:
        if isinstance(each, kind):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from among(kind, each)


def is_elementwise(op):
    """Whether an operator is declared to compute each element for itself."""
    entry = op.entry
    return bool(entry) and (
        entry[IMPLEMENTATION][KIND] == "pointwise" or entry[BATCHING] == "elementwise"
    )


def writes(op):
    """Whether an operator writes into its first argument."""
    first = op._schema.arguments[0].alias_info
    return first is not None and first.is_write


def _run(op, *args):
    for each in among(rl.Tensor, args):
        answer = getattr(type(each), "_run_operator", None)
        if answer is not None:
            return answer(op, args)
    raise NotImplementedError(f"{op}: no type of its arguments answers to the operator")


def keep_whole(names):
    """Hand compositions to types as they are called, not in their parts.

    Args:
        names: the operators.
    """
    for name in names:
        op = getattr(rl.ops.aten, name).default
        kernel = PythonKernel(functools.partial(_run, op))
        op.set_kernel(DispatchKey.ValueType, kernel)


set_fallback(DispatchKey.ValueType, _run)
