"""What a graph gives, as its signature has it."""

from rushlight.export.graph_signature import (
    ConstantArgument,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from rushlight.fx.node import Node
from rushlight.ir.symbolic import SymInt
from rushlight.ir.truths import SymBool
from rushlight.ir.unbacked import SymFloat

_KINDS = (
    (SymFloat, SymFloatArgument),
    ((SymBool, bool), SymBoolArgument),
    ((SymInt, int), SymIntArgument),
)


def argument_of(one):
    """A result of the graph.

    Args:
        one: a step, or a constant.
    """
    if not isinstance(one, Node):
        return ConstantArgument("", one)
    value = one.meta.get("val")
    for kind, argument in _KINDS:
        if isinstance(value, kind):
            return argument(one.name)
    return TensorArgument(one.name)
