"""Decorators for functions that write operators in ONNX."""

import functools

from rushlight.onnx._graph import Value
from rushlight.onnx.errors import SymbolicValueError

__all__ = ["parse_args", "quantized_args"]

_KINDS = {"i": int, "f": float, "b": bool, "s": str}


def _parsed(value, descriptor):
    """An argument as its descriptor has it: numbers of constants, in their type."""
    if descriptor in ("v", "none") or value is None:
        return value
    if isinstance(value, Value):
        if value.constant is None:
            raise SymbolicValueError(
                f"expected a constant for an argument described as {descriptor!r}",
                value,
            )
        value = value.constant.tolist()
    if descriptor in ("is", "fs"):
        kind = _KINDS[descriptor[0]]
        return [
            kind(one)
            for one in (value if isinstance(value, (list, tuple)) else [value])
        ]
    return _KINDS[descriptor](value) if descriptor in _KINDS else value


def parse_args(*arg_descriptors):
    """Notes which arguments of such a function are values of the graph and which not.

    Args:
        arg_descriptors: for each argument "v" for a value of the graph, "i", "f", "s",
            "b", "t" for a number, text, truth value or tensor, "is", "fs" for lists,
            "none" for what is left out.
    """

    def decorator(fn):
        fn._arg_descriptors = arg_descriptors

        @functools.wraps(fn)
        def wrapper(g, *args, **kwargs):
            if len(arg_descriptors) < len(args):
                raise AssertionError(
                    f"A mismatch between the number of arguments ({len(args)}) and their "
                    f"descriptors ({len(arg_descriptors)}) was found at symbolic "
                    f"function '{fn.__name__}'."
                )
            args = map(_parsed, args, arg_descriptors)
            return fn(g, *args, **kwargs)

        return wrapper

    return decorator


def quantized_args(
    *arg_q_descriptors, scale=None, zero_point=None, quantize_output=True
):
    """Notes which arguments of such a function may be quantized."""

    def decorator(fn):
        fn._arg_q_descriptors = arg_q_descriptors
        return fn

    return decorator
