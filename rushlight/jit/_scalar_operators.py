"""Operators on integers, floats and truth values as expressions of the compiler.

Each entry takes the step in the making, the node and the operands' expressions; results
are what PyTorch's interpreter computes: integers wrap at 64 bits, floats divide by zero,
functions are the C library's.
"""

import math

from rushlight.ir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Unary,
    boolean,
    cast,
    f64,
    i64,
    load,
    select,
)

BY_ZERO = "division by 0"
LEAST = -(2**63)
_REAL = (
    "exp log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh lgamma erf erfc"
).split()


def as_float(value):
    """The operand as a float."""
    return cast(f64, value)


def _wider(a, b):
    if a.type == b.type and not a.type.is_bool:
        return a, b
    kind = f64 if f64 in (a.type, b.type) else i64
    return cast(kind, a), cast(kind, b)


def _arithmetic(op):
    return lambda step, node, a, b: Binary(op, *_wider(a, b))


def _divide(step, node, a, b):
    return as_float(a) / as_float(b)


def _floor_divide(step, node, a, b):
    a, b = _wider(a, b)
    if a.type == f64:
        return Call("floor", f64, a / b)
    step.fault_where(b == 0, BY_ZERO, node)
    return a // b


def _remainder(step, node, a, b):
    a, b = _wider(a, b)
    if a.type == f64:
        return Call("c_fmod", f64, b + Call("c_fmod", f64, a, b), b)
    step.fault_where(
        b == 0, "ZeroDivisionError: integer division or modulo by zero", node
    )
    return a % b


def _quotient_and_rest(step, node, a, b):
    a, b = _wider(a, b)
    rest = step.named(_remainder(step, node, a, b))
    if a.type == f64:
        return (a - rest) / b, rest
    return a // b, rest


def _power(step, node, a, b):
    a, b = as_float(a), as_float(b)
    step.fault_where(
        (a == 0.0) & (b < 0.0), "0.0 cannot be raised to a negative power", node
    )
    return Call("c_pow", f64, a, b)


def _shift(op):
    return lambda step, node, a, b: Binary(op, a, b & 63)


def _least(step, node, a, b):
    a, b = _wider(a, b)
    return select(a < b, a, b)


def _greatest(step, node, a, b):
    a, b = _wider(a, b)
    return select(a > b, a, b)


def _whole(value):
    """The integer part as the processor converts it: what does not fit is the least."""
    fits = (value >= -(2.0**63)) & (value < 2.0**63)
    return select(
        fits, Cast(i64, select(fits, value, Const(f64, 0.0))), Const(i64, LEAST)
    )


def _to_int(step, node, a):
    return _whole(a) if a.type == f64 else cast(i64, a)


def _rounded(name):
    def way(step, node, a):
        if a.type != f64:
            return a
        value = step.named(Call(name, f64, a))
        fits = (value >= -(2.0**63)) & (value < 2.0**63)
        step.fault_where(~fits, "Cannot convert float {} to integer", node, a)
        return _whole(value)

    return way


def _function(name):
    return lambda step, node, a: Call(f"c_{name}", f64, as_float(a))


def _function_of_two(name):
    return lambda step, node, a, b: Call(f"c_{name}", f64, as_float(a), as_float(b))


def _logarithm(step, node, a, b):
    return Call("c_log", f64, as_float(a)) / Call("c_log", f64, as_float(b))


def _scaled(factor):
    return lambda step, node, a: as_float(a) * factor


def _absolute(step, node, a):
    return select(a < 0, -a, a) if a.type == i64 else abs(a)


def _not_finite(step, node, a):
    return abs(a) == math.inf


def _finite(step, node, a):
    return abs(a) < math.inf


def _range_length(step, node, low, high, stride):
    step.fault_where(stride == 0, "range() arg 3 must not be zero", node)
    up = select(low < high, (high - low - 1) // stride + 1, Const(i64, 0))
    down = select(low > high, (low - high - 1) // (-stride) + 1, Const(i64, 0))
    return select(stride > 0, up, down)


def _derived(step, node, index, start, stride):
    return start + index * stride


def _place(step, node, held, index):
    """The place of an item, which may be counted from the end."""
    place = step.named(select(index < 0, index + held.size, index))
    step.fault_where(
        (place < 0) | (place >= held.size), "list index out of range", node
    )
    return place


def _item(step, node, held, index):
    value = load(held.start, _place(step, node, held, index))
    return value != 0 if held.element.is_bool else value


def _set_item(step, node, held, index, value):
    held.written = True
    place = _place(step, node, held, index)
    value = cast(i64, value) if held.element.is_bool else cast(held.element, value)
    step.build.store(held.start, place, value)
    return held


def _length(step, node, held):
    return held.size


def _table():
    pairs = ("", ".int", ".float", ".int_float", ".float_int")
    found = {}

    def entry(name, way, endings=pairs):
        for ending in endings:
            found[f"{name}{ending}"] = way

    for name in ("add", "sub", "mul"):
        entry(f"aten::{name}", _arithmetic(name))
    entry("aten::div", _divide)
    entry("aten::floordiv", _floor_divide)
    entry("aten::remainder", _remainder)
    entry("aten::fmod", _function_of_two("fmod"))
    entry("aten::divmod", _quotient_and_rest, pairs[1:])
    entry("aten::pow", _power, (*pairs[1:], ".Scalar_Scalar"))
    entry("prim::min", _least)
    entry("prim::max", _greatest)
    entry("aten::neg", lambda step, node, a: -a, (".int", ".float", ".Scalar"))
    entry("prim::abs", _absolute, (".int", ".float", ".Scalar"))
    found["aten::bitwise_not.int"] = lambda step, node, a: ~a
    found["aten::__not__"] = lambda step, node, a: Unary("not", a)
    for name in ("and", "or", "xor"):
        entry(f"aten::__{name}__", _arithmetic_of_bits(name), (".int", ".bool"))
    found["aten::__lshift__.int"] = _shift("shl")
    found["aten::__rshift__.int"] = _shift("shr")
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        kinds = (
            "int_int float_float int_float float_int Scalar_Scalar bool_bool".split()
        )
        entry(f"aten::{name}", _arithmetic(name), [f".{kind}" for kind in kinds])
    found |= _conversions() | _functions()
    return found


def _arithmetic_of_bits(op):
    return lambda step, node, a, b: Binary(op, a, b)


def _conversions():
    found = {f"aten::Int.{kind}": _to_int for kind in ("Scalar", "float", "bool")}
    for kind in ("Scalar", "int", "bool"):
        found[f"aten::Float.{kind}"] = lambda step, node, a: as_float(a)
    for kind in ("int", "float"):
        found[f"aten::Bool.{kind}"] = lambda step, node, a: a != 0
        found[f"aten::round.{kind}"] = lambda step, node, a: Call(
            "round", f64, as_float(a)
        )
    return found


def _functions():
    found = {}
    for kind in ("int", "float"):
        for name in ("floor", "ceil"):
            found[f"aten::{name}.{kind}"] = _rounded(name)
        for name in _REAL:
            found[f"aten::{name}.{kind}"] = _function(name)
        found[f"aten::gamma.{kind}"] = _function("tgamma")
        found[f"aten::sqrt.{kind}"] = lambda step, node, a: Call(
            "sqrt", f64, as_float(a)
        )
        found[f"aten::fabs.{kind}"] = lambda step, node, a: abs(as_float(a))
        found[f"aten::degrees.{kind}"] = _scaled(180.0 / math.pi)
        found[f"aten::radians.{kind}"] = _scaled(math.pi / 180.0)
        for other in ("int", "float"):
            found[f"aten::log.{kind}_{other}"] = _logarithm
            for name in ("atan2", "copysign"):
                found[f"aten::{name}.{kind}_{other}"] = _function_of_two(name)
    found["aten::isnan.float"] = lambda step, node, a: a != a
    found["aten::isinf.float"] = _not_finite
    found["aten::isfinite.float"] = _finite
    found["aten::__range_length"] = _range_length
    found["aten::__derive_index"] = _derived
    found["aten::__getitem__.t"] = _item
    found["aten::_set_item.t"] = _set_item
    found["aten::len.t"] = _length
    return found


WAYS = _table()
TYPES = {"int": i64, "float": f64, "bool": boolean}
