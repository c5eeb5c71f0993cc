"""What PyTorch calls the operators of exported graphs, in files."""

from __future__ import annotations

import operator

from rushlight._higher_order_ops.base import OPERATORS
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dispatcher import Operator, find_packet
from rushlight.fx.node import Node
from rushlight.ir.sym_functions import sym_ite, sym_not

# Operators of one overload here where PyTorch has one for numbers, too.
_NUMBERS = {
    **dict.fromkeys(
        "gt ge lt le eq ne greater greater_equal less less_equal not_equal remainder "
        "fmod bitwise_and bitwise_or bitwise_xor fill rsub copysign "
        "__and__ __or__ __xor__ __lshift__ __rshift__ "
        "__iand__ __ior__ __ixor__ __ilshift__ __irshift__".split(),
        {"Tensor": "Scalar", "default": "Scalar"},
    ),
    "masked_fill": {"Tensor": "Scalar", "default": "Scalar"},
    "index_fill": {"int_Tensor": "int_Scalar", "default": "int_Scalar"},
    "bitwise_left_shift": {"Tensor": "Tensor_Scalar"},
    "bitwise_right_shift": {"Tensor": "Tensor_Scalar"},
    "float_power": {"Tensor_Tensor": "Tensor_Scalar"},
    "xlogy": {"Tensor": "Scalar_Other"},
}
# The same where the number comes first.
_NUMBERS_FIRST = {
    **dict.fromkeys(
        "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift "
        "remainder".split(),
        "Scalar_Tensor",
    ),
    "float_power": "Scalar",
    "xlogy": "Scalar_Self",
    "pow": "Scalar",
    "floor_divide": "default",
}
# In place there are fewer.
_IN_PLACE = {
    "pow_": {"Tensor_Tensor": "Tensor", "Tensor_Scalar": "Scalar"},
    "float_power_": {"Tensor_Tensor": "Tensor", "Tensor_Scalar": "Scalar"},
    "ldexp_": {"Tensor": "default"},
    "floor_divide_": {"default": "Tensor"},
}
_TENSORS = {"fill": {"default": "Tensor"}, "masked_fill": {"default": "Tensor"},
            "index_fill": {"default": "int_Tensor"}}  # fmt: skip
_SYMBOLIC = {"number": "Tensor", "number_mode": "Tensor_mode"}
# Operators whose one overload has a name there.
_RESAMPLING = (
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d "
    "upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d "
    "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
    "_upsample_bicubic2d_aa _upsample_lanczos2d_aa"
).split()
_NAMED = {
    **dict.fromkeys(_RESAMPLING, "vec"),
    "conv_transpose2d": "input", "conv_transpose3d": "input",
    "empty": "memory_format",
}  # fmt: skip
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
COMPUTE = frozenset(_FUNCTIONS.values())  # steps that compute with numbers
_FUNCTIONS |= {f"torch.{one.__name__}": one for one in (sym_ite, sym_not)}
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
    if op._opname == "isin":
        return "_".join("Tensor" if _is_tensor(one) else "Scalar" for one in args[:2])
    if own == "default" and op._opname in _NAMED:
        return _NAMED[op._opname]
    base = op._opname
    base = base if base.endswith("__") else base.removesuffix("_")
    if base in ("squeeze", "squeeze_copy") and own == "dims" and type(args[1]) is int:
        return "dim"
    if base in ("clamp_max", "clamp_min") and len(args) > 1 and _is_tensor(args[1]):
        return "Tensor"
    if base in _NUMBERS_FIRST and args and not _is_tensor(args[0]):
        return _NUMBERS_FIRST[base]
    number = any(
        row[1] == 4 and not _is_tensor(one) for row, one in zip(op.signature.rows, args)
    )
    own = (_NUMBERS if number else _TENSORS).get(base, {}).get(own, own)
    own = _IN_PLACE.get(op._opname, {}).get(own, own)
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
