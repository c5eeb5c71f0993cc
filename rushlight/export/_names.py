"""What PyTorch calls the operators of exported graphs, in files."""

from __future__ import annotations

import operator

from rushlight._higher_order_ops.base import OPERATORS
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dispatcher import Operator, find_packet
from rushlight.fx.node import Node

# Operators of one overload here where PyTorch has one for numbers, too.
_NUMBERS = {
    **dict.fromkeys(
        "gt ge lt le eq ne remainder fmod bitwise_and bitwise_or bitwise_xor "
        "bitwise_left_shift bitwise_right_shift fill floor_divide true_divide".split(),
        {"Tensor": "Scalar", "number": "Scalar", "default": "Scalar"},
    ),
    "masked_fill": {"Tensor": "Scalar", "default": "Scalar"},
    "index_fill": {"int_Tensor": "int_Scalar", "default": "int_Scalar"},
}
_TENSORS = {"fill": {"default": "Tensor"}, "masked_fill": {"default": "Tensor"},
            "index_fill": {"default": "int_Tensor"}}  # fmt: skip
_SYMBOLIC = {"number": "Tensor", "number_mode": "Tensor_mode"}
_WHERE = {
    (False, False): "self", (False, True): "ScalarOther", (True, False): "ScalarSelf",
    (True, True): "Scalar",
}  # fmt: skip
_FUNCTIONS = {
    f"_operator.{name}": getattr(operator, name)
    for name in (
        "add sub mul floordiv mod pow neg pos eq ne lt le gt ge truediv and_ or_ not_ "
        "lshift rshift getitem".split()
    )
}
_ALIKE = {"detach_.default": "detach.default"}

# Steps that only check what is checked here in another way, or not at all.
CHECKS = frozenset(
    f"torch.ops.aten.{name}.default"
    for name in ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range",
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
        overload = overload_name(target, node.args, node.kwargs)
        return f"torch.ops.{target.namespace}.{target._opname}.{overload}"
    if getattr(target, "namespace", None) == "higher_order":
        return f"torch.ops.higher_order.{target.name()}"
    for name, function in _FUNCTIONS.items():
        if function is target:
            return name
    raise NotImplementedError(f"files have no name for {target}")


def overload_name(op, args, kwargs=None):
    """PyTorch's name of an overload: it has one for tensors, and one for numbers."""
    own = op._overloadname
    if op._opname == "where" and own == "self" and len(args) == 3:
        plain = tuple(not _is_tensor(one) for one in args[1:])
        return _WHERE[plain]
    base = op._opname.removesuffix("_")
    if base in ("clamp_max", "clamp_min") and len(args) > 1 and _is_tensor(args[1]):
        return "Tensor"
    if base == "meshgrid":
        return "indexing" if kwargs else own
    numbers = [
        one
        for row, one in zip(op.signature.rows, args)
        if row[1] == 4 and not _is_tensor(one)
    ]
    if numbers:
        own = _NUMBERS.get(base, {}).get(own, own)
    else:
        own = _TENSORS.get(base, {}).get(own, own)
    return _SYMBOLIC.get(own, own)


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
