"""Operators that tensors look up: their names, what is bound to them, how it is called.

A tensor knows no operator: the room of operators binds its callables to the names, in
``bind_slots``, and methods such as ``__add__`` call what is there by its number.
"""

from __future__ import annotations

import cython
from cython.cimports.rushlight.core._python import PyObject_Vectorcall, p_object


class _PassBy:
    """What is answered of a call that neither types nor modes take."""

    def __repr__(self):
        return "PASS_BY"


PASS_BY = _PassBy()

SLOT_NAMES = (
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "truediv",
    "rtruediv",
    "floordiv",
    "rfloordiv",
    "mod",
    "rmod",
    "pow",
    "rpow",
    "matmul",
    "rmatmul",
    "and",
    "rand",
    "or",
    "ror",
    "xor",
    "rxor",
    "lshift",
    "rlshift",
    "rshift",
    "rrshift",
    "lt",
    "le",
    "eq",
    "ne",
    "gt",
    "ge",
    "neg",
    "invert",
    "abs",
    "pos",
    "iadd",
    "isub",
    "imul",
    "itruediv",
    "ifloordiv",
    "imod",
    "ipow",
    "iand",
    "ior",
    "ixor",
    "ilshift",
    "irshift",
    "getitem",
    "setitem",
    "repr",
    "reduce",
    "deepcopy",
    "legacy",
    "contains",
    "grad_fn",
    "set_data",
    "format",
    "array",
    "dlpack",
    "iter",
    "item",
    "taken",
    "set_grad",
    "require_grad",
    "data",
)

_SLOTS = cython.declare(p_object[72])
_KEEP = cython.declare(list, [None] * 72)


def bind_slots(table):
    """Point Python's operators on tensors at the callables in ``table``."""
    for name, function in table.items():
        i: cython.int = SLOT_NAMES.index(name)
        _KEEP[i] = function
        _SLOTS[i] = cython.cast(p_object, function)


@cython.cfunc
def bound(slot: cython.int) -> object:
    """What is bound to a slot."""
    if _SLOTS[slot] == cython.NULL:
        raise TypeError(f"no operator is bound to '{SLOT_NAMES[slot]}'")
    return cython.cast(object, _SLOTS[slot])


@cython.cfunc
def unary(slot: cython.int, a: object) -> object:
    """A slot's callable on one operand."""
    args: p_object[2]
    if _SLOTS[slot] == cython.NULL:
        raise TypeError(f"no operator is bound to '{SLOT_NAMES[slot]}'")
    args[0] = cython.NULL
    args[1] = cython.cast(p_object, a)
    return PyObject_Vectorcall(_SLOTS[slot], cython.address(args[1]), 1, cython.NULL)


@cython.cfunc
def binary_slot(slot: cython.int, a: object, b: object) -> object:
    """A slot's callable on two operands; ``NotImplemented`` where nothing is bound."""
    args: p_object[3]
    if _SLOTS[slot] == cython.NULL:
        return NotImplemented
    args[0] = cython.NULL
    args[1] = cython.cast(p_object, a)
    args[2] = cython.cast(p_object, b)
    return PyObject_Vectorcall(_SLOTS[slot], cython.address(args[1]), 2, cython.NULL)


@cython.cfunc
def taken(name: str, args: tuple) -> object:
    """What the tensor's type, or a mode, makes of a method."""
    if _SLOTS[SLOT_TAKEN] == cython.NULL:
        return PASS_BY
    return cython.cast(object, _SLOTS[SLOT_TAKEN])(name, args)
