"""Operators whose results have a type that a program says."""

from rushlight._higher_order_ops.base import HigherOrderOperator, unrecorded, written
from rushlight.core.dtype import promote_types
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dispatcher import Operator

__all__ = ["out_dtype"]


def _checked(op):
    """Raises:
    ValueError: it is no operator of one new tensor.
    """
    if not isinstance(op, Operator):
        raise ValueError("out_dtype's first argument must be an OpOverload")
    if op._schema.is_mutable:
        raise ValueError("out_dtype's first argument needs to be a functional operator")
    returns = [str(one.type) for one in op._schema.returns]
    if returns != ["Tensor"]:
        raise ValueError(
            "out_dtype's can only apply to ops that return a single tensor"
            f"Instead got {returns}"
        )


def _run(op, output_dtype, *args):
    """Computes in the type that holds what comes in and what is asked for."""
    _checked(op)
    common = output_dtype
    for value in args:
        if isinstance(value, Tensor):
            common = promote_types(common, value.dtype)
    args = [one.to(common) if isinstance(one, Tensor) else one for one in args]
    return op(*args).to(output_dtype)


def _record(tracer, op, output_dtype, *args):
    with unrecorded():
        result = _run(op, output_dtype, *args)
    steps = [tracer.node_of(one) if isinstance(one, Tensor) else one for one in args]
    return written(tracer, out_dtype, (op, output_dtype, *steps), result)


out_dtype = HigherOrderOperator("out_dtype", _run, _record)
