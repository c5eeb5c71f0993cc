"""Types of tensors that compute on values, above autograd: who answers to their key.

A type says ``_dispatch_keys = KEY`` and ``_run_operator(op, args)``. Operators with an
argument of it come there whole; what they call on values is recorded as it always is.
"""

import functools
import math

import rushlight as rl
from rushlight.autograd.function import Function
from rushlight.dispatch.declared import BATCHING, IMPLEMENTATION, KIND, says
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.python_kernels import PythonKernel, set_fallback

KEY = 1 << DispatchKey.ValueType


class Written(Function):
    """A tensor whose values are replaced in place; the gradient goes to the new ones.

    Its arguments are the tensor, the new values, the attribute that holds them, and a
    function that gives the values of a tensor of the type.
    """

    @staticmethod
    def forward(ctx, tensor, values, attribute, values_of):
        ctx.set_materialize_grads(False)
        ctx.mark_dirty(tensor)
        ctx.kind, ctx.values_of = type(tensor), values_of
        getattr(tensor, attribute).copy_(values)
        return tensor

    @staticmethod
    def backward(ctx, grad):
        own = isinstance(grad, ctx.kind)
        return None, ctx.values_of(grad) if own else grad, None, None


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


def is_reduction(op):
    """Whether an operator is declared to join elements, of dimensions or all."""
    entry = op.entry
    return bool(entry) and (
        entry[IMPLEMENTATION][KIND] == "reduction"
        or any(says(op, word) for word in (*_NEUTRAL, "otherwise"))
    )


def _least(dtype):
    if dtype.is_floating_point:
        return -math.inf
    return False if dtype is rl.bool else rl.iinfo(dtype).min


def _greatest(dtype):
    if dtype.is_floating_point:
        return math.inf
    return True if dtype is rl.bool else rl.iinfo(dtype).max


_NEUTRAL = {
    "zero": lambda dtype: 0,
    "one": lambda dtype: 1,
    "least": _least,
    "greatest": _greatest,
}


def neutral_of(op, dtype):
    """The element of a type that changes nothing about a reduction, as it is declared.

    Args:
        op: the operator; None where it has no such element.
        dtype: the type.
    """
    said = (element(dtype) for word, element in _NEUTRAL.items() if says(op, word))
    return next(said, None)


def writes(op):
    """Whether an operator writes into its first argument."""
    first = op._schema.arguments[0].alias_info
    return first is not None and first.is_write


def one_element(tensor, values):
    """The number that a tensor of one element holds.

    Raises:
        RuntimeError: there are more, or none.
    """
    if tensor.numel() != 1:
        raise RuntimeError(
            f"a Tensor with {tensor.numel()} elements cannot be converted to Scalar"
        )
    return values.item()


def dropped(values, p, train):
    """Values with some dropped; numbers are drawn whatever the probability is.

    Args:
        values: a dense tensor.
        p: the probability that one is dropped.
        train: whether any is.
    """
    if not train:
        return values
    kept = rl.empty_like(values).bernoulli_(1 - p)
    return values * (kept if p in (0, 1) else kept / (1 - p))


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
