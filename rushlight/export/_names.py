"""What PyTorch calls the operators of exported graphs, in files."""

import operator

from rushlight._higher_order_ops.base import OPERATORS
from rushlight.core.tensor import Tensor
from rushlight.dispatch import named_overload
from rushlight.dispatch.dispatcher import Operator, find_packet
from rushlight.fx.node import Node
from rushlight.ir.sym_functions import sym_ite, sym_max, sym_min, sym_not

_FUNCTIONS = {
    f"_operator.{name}": getattr(operator, name)
    for name in (
        "add sub mul floordiv mod pow neg pos eq ne lt le gt ge truediv and_ or_ not_ "
        "lshift rshift getitem".split()
    )
}
COMPUTE = frozenset((*_FUNCTIONS.values(), sym_max, sym_min))  # with numbers
_FUNCTIONS |= {
    f"torch.{one.__name__}": one for one in (sym_ite, sym_max, sym_min, sym_not)
}
_ALIKE = {"detach_.default": "detach.default"}

# Steps that only check what is checked here in another way, or not at all.
CHECKS = frozenset(
    f"torch.ops.aten.{name}.default"
    for name in ("_assert_tensor_metadata", "sym_constrain_range",
                 "sym_constrain_range_for_size")
)  # fmt: skip


def name_of(node):
    """PyTorch's name of what a step calls.

    Args:
        node: the step.

    Raises:
        NotImplementedError: it is a function that files have no name for.
    """
    target = node.target
    if isinstance(target, Operator):
        return operator_name(overload_of(target, node.args))
    if getattr(target, "namespace", None) == "higher_order":
        return f"torch.ops.higher_order.{target.name()}"
    for name, function in _FUNCTIONS.items():
        if function is target:
            return name
    raise NotImplementedError(f"files have no name for {target}")


def operator_name(op):
    """PyTorch's name of an operator.

    Args:
        op: one of its overloads.
    """
    return f"torch.ops.{op.namespace}.{op._opname}.{op._overloadname}"


def overload_of(op, args):
    """The overload that files have for a step: PyTorch has one for tensors, one for numbers."""
    row = named_overload.row_for(op, args, _is_tensor, whole=True, filed=True)
    return op if row is None else named_overload.stand_in(op, row)


def _is_tensor(one):
    return isinstance(one, Tensor) or (
        isinstance(one, Node) and isinstance(one.meta.get("val"), Tensor)
    )


def function_named(name):
    """What a step of a file calls.

    Args:
        name: PyTorch's name.

    Raises:
        ValueError: there is nothing of that name that files may call.
    """
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    parts = name.split(".")
    if parts[:3] == ["torch", "ops", "higher_order"] and len(parts) == 4:
        if parts[3] in OPERATORS:
            return OPERATORS[parts[3]]
    elif parts[:2] == ["torch", "ops"] and len(parts) == 5:
        namespace, base, overload = parts[2:]
        base, _, overload = _ALIKE.get(
            f"{base}.{overload}", f"{base}.{overload}"
        ).partition(".")
        try:
            found = getattr(find_packet(namespace, base), overload, None)
        except KeyError:
            found = None
        if isinstance(found, Operator):
            return found
    raise ValueError(f"a program may not call {name!r}: there is no such operator")
