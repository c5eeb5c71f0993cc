"""Decorators for functions that write operators in ONNX."""

from __future__ import annotations

import functools

__all__ = ["parse_args", "quantized_args"]


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
