"""What a function does, as far as it can be given another of: its code and defaults."""

from __future__ import annotations

import cython
from cython.cimports.rushlight.core._python import p_object


def facts_of(function):
    """Code and defaults of a function, and the values of those that go by name."""
    named = function.__kwdefaults__
    kept = None if named is None else tuple(named.values())
    return function.__code__, function.__defaults__, named, kept


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_object(found: p_object, expected: object) -> cython.bint:
    """Whether it is that object; nothing stands for None."""
    if found == cython.NULL:
        return expected is None
    return found == cython.cast(p_object, expected)


@cython.cfunc
@cython.exceptval(-1, check=False)
def same_function(function: object, facts: tuple) -> cython.bint:
    """Whether a function has the code and the defaults that it had."""
    i: cython.Py_ssize_t
    code, defaults, named, kept = facts
    if not (
        is_object(PyFunction_GetCode(function), code)
        and is_object(PyFunction_GetDefaults(function), defaults)
        and is_object(PyFunction_GetKwDefaults(function), named)
    ):
        return False
    if kept is None:
        return True
    values = tuple(cython.cast(dict, named).values())
    if len(values) != len(kept):
        return False
    for i in range(len(values)):
        if values[i] is not kept[i]:
            return False
    return True
