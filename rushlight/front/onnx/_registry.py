"""Which function writes which operator in ONNX."""

import functools
import inspect

from rushlight.onnx.errors import OnnxExporterError

__all__ = ["LOWERINGS", "Unsupported", "bound_arguments", "lowering_of", "lowers"]

# By namespace and name: one function for all overloads of an operator.
LOWERINGS: dict = {}
# What a graph does not say: where tensors lie, and from where their random numbers come.
UNSAID = frozenset(
    ("device", "layout", "pin_memory", "memory_format", "non_blocking", "copy",
     "requires_grad", "generator", "cudnn_enabled", "cudnn_enable", "benchmark",
     "deterministic", "allow_tf32", "sparse_grad", "implicit", "scale_grad_by_freq",
     "sparse", "stable", "sorted")
)  # fmt: skip


class Unsupported(OnnxExporterError):
    """An operator, in the form in which it is called, cannot be written."""


def lowers(*packets):
    """Says that a function writes operators, in all their overloads.

    The function is called with the graph and the operator's arguments by their names:
    values for tensors and for integers that the program computes, else what the program
    has. It takes those that it needs; others have to be what they are by default.

    Args:
        packets: the operators.
    """

    def register(function):
        for packet in packets:
            op = packet.overloads[0]
            LOWERINGS[op.namespace, op._opname] = function
        return function

    return register


def lowering_of(op):
    """The function that writes an operator, or None."""
    name = getattr(op, "_opname", None)  # a function of functions has none
    return None if name is None else LOWERINGS.get((op.namespace, name))


@functools.cache
def _parameters(function):
    rows = list(inspect.signature(function).parameters.values())[1:]
    takes_all = any(row.kind is row.VAR_KEYWORD for row in rows)
    return {row.name for row in rows}, takes_all


def bound_arguments(function, op, args, kwargs):
    """The arguments of a call by name, those that a function asks for.

    Args:
        function: the one that writes the operator.
        op: the operator.
        args: the call's arguments, ``kwargs`` too.

    Raises:
        Unsupported: the call has an argument that the function does not take.
    """
    wanted, takes_all = _parameters(function)
    found = {}
    for at, row in enumerate(op.signature.rows):
        name, default = row[0], row[2]
        value = args[at] if at < len(args) else kwargs.get(name, default)
        if name in wanted or takes_all:
            if value is not ...:
                found[name] = value
        elif name not in UNSAID and not _same(value, default):
            raise Unsupported(f"with {name}={value} it has no form in ONNX")
    return found


def _same(value, default):
    """Whether an argument is as if it were left out."""
    if value is None or value is default:
        return True
    if isinstance(value, (list, tuple)):
        if not isinstance(default, (list, tuple)):
            default = [default] * len(value)
        return list(value) == list(default)
    return value == default
