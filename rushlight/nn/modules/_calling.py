"""What happens between ``module(input)`` and its ``forward``, and to its members' names.

Both happen in every layer of every step, so this is compiled. What a call finds is looked
up each time: hooks, the global tables of hooks and ``forward`` itself may be replaced.
"""

from __future__ import annotations

import functools
from types import MethodType

import cython
from cython.cimports.cpython.dict import PyDict_GetItemWithError
from cython.cimports.cpython.object import (
    PyObject_GenericGetDict,
    PyObject_IsTrue,
)
from cython.cimports.rushlight.core._python import (
    PyObject_Vectorcall,
    PyTypeObject,
    PyVectorcall_NARGS,
    p_object,
    pp_object,
)
from cython.cimports.rushlight.core.descriptors import Py_TYPE, _PyType_Lookup
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.dispatch.calling import enable_vectorcall

_OWN = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
_GLOBAL = tuple(["_global" + name for name in _OWN])
_own = cython.declare(tuple, _OWN)
_global = cython.declare(tuple, _GLOBAL)
_home = cython.declare(dict, {})
_TABLES = cython.declare(tuple, ("_parameters", "_modules", "_buffers"))
_IMPL = cython.declare(str, "_compiled_call_impl")


@cython.cclass
class Follower:
    """Takes calls of modules while a thread's operators are followed."""

    @cython.cfunc
    def call(self, module: object, fields: dict, args: tuple) -> object:
        """What ``module.forward(*args)`` gives; ``fields`` is the module's dictionary."""
        return module.forward(*args)


_follower = cython.declare(Follower, None)


@cython.cfunc
def set_follower(follower: Follower):
    """Has calls go to a follower from here on."""
    global _follower
    _follower = follower


def settle(names: dict):
    """Has the global tables of hooks be found among a module's names."""
    global _home
    _home = names


@cython.cfunc
@cython.exceptval(-1)
def is_watched(module: object, fields: dict) -> cython.bint:
    """Whether anything is called beside ``forward``, or instead of it."""
    table: p_object
    i: cython.int
    for i in range(4):
        table = PyDict_GetItemWithError(_home, _global[i])
        if table == cython.NULL or PyObject_IsTrue(cython.cast(object, table)):
            return True
    return has_own(module, fields)


@cython.cfunc
@cython.exceptval(-1)
def has_own(module: object, fields: dict) -> cython.bint:
    """The same, of what this module has alone."""
    table: p_object
    i: cython.int
    for i in range(4):
        table = PyDict_GetItemWithError(fields, _own[i])
        if table == cython.NULL:
            if getattr(module, _own[i]):  # which says that __init__ has not run
                return True
        elif PyObject_IsTrue(cython.cast(object, table)):
            return True
    table = PyDict_GetItemWithError(fields, _IMPL)
    if table == cython.NULL:
        table = class_attribute(module, _IMPL)
    return table != cython.NULL and cython.cast(object, table) is not None


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def class_attribute(item: object, name: str) -> p_object:
    """What the class of an object has by a name, as it lies there."""
    kind: p_object = Py_TYPE(cython.cast(p_object, item))
    return _PyType_Lookup(
        cython.cast(cython.pointer(PyTypeObject), kind), cython.cast(p_object, name)
    )


@cython.final
@cython.cclass
class ModuleCall:
    """A ``__call__`` of modules: a method by vectorcall, to which nobody packs arguments."""

    def __get__(self, owner, kind):
        return self if owner is None else MethodType(self, owner)


@cython.cfunc
def module_call(entry: cython.p_void, documented: object) -> ModuleCall:
    """The ``__call__`` that goes to a vectorcall function.

    Args:
        documented: a function with its signature and words.
    """
    made: ModuleCall = ModuleCall()
    made.vectorcall = entry
    functools.update_wrapper(made, documented)
    return made


@cython.cfunc
def packed(args: pp_object, n: cython.Py_ssize_t, kwnames: p_object) -> tuple:
    """The arguments of a vectorcall as a tuple and a dict."""
    i: cython.Py_ssize_t
    kwargs: dict = {}
    if kwnames != cython.NULL:
        names: tuple = cython.cast(tuple, cython.cast(object, kwnames))
        for i in range(len(names)):
            kwargs[names[i]] = cython.cast(object, args[n + i])
    return tuple([cython.cast(object, args[i]) for i in range(n)]), kwargs


@cython.cfunc
def call_module(
    self: p_object, args: pp_object, nargsf: cython.size_t, kwnames: p_object
) -> object:
    n: cython.Py_ssize_t = PyVectorcall_NARGS(nargsf)
    if n < 1:
        raise TypeError("Module.__call__() needs the module that it is a method of")
    module: object = cython.cast(object, args[0])
    fields: dict = PyObject_GenericGetDict(module, cython.NULL)
    if is_watched(module, fields):
        return module._watched_call(*packed(args + 1, n - 1, kwnames))
    if _follower is not None and state().included & RECORDING and not kwnames:
        return _follower.call(module, fields, packed(args + 1, n - 1, kwnames)[0])
    return call_forward(module, args, n, kwnames)


@cython.cfunc
def call_forward(
    module: object, args: pp_object, n: cython.Py_ssize_t, kwnames: p_object
) -> object:
    """What a module's ``forward`` gives for a call's arguments, of which it is the first."""
    forward: object = module.forward
    return PyObject_Vectorcall(cython.cast(p_object, forward), args + 1, n - 1, kwnames)


def _wrapped_call_impl(self, *args, **kwargs):
    """What ``forward`` gives, with the hooks around it if there are any."""


def _install_vectorcall():
    made: ModuleCall = module_call(
        cython.cast(cython.p_void, call_module), _wrapped_call_impl
    )
    enable_vectorcall(
        ModuleCall, made, cython.address(made.vectorcall), (1 << 11) | (1 << 17)
    )
    return made


call = _install_vectorcall()


def find_member(self, name):
    """A parameter, module or buffer: what is no attribute of the object's own."""
    fields: dict = PyObject_GenericGetDict(self, cython.NULL)
    table: p_object
    found: p_object
    i: cython.int
    for i in range(3):
        table = PyDict_GetItemWithError(fields, _TABLES[i])
        if table == cython.NULL:
            break  # __init__ has not run
        if isinstance(cython.cast(object, table), dict):
            found = PyDict_GetItemWithError(cython.cast(object, table), name)
            if found != cython.NULL:
                return cython.cast(object, found)
        elif name in cython.cast(object, table):
            return cython.cast(object, table)[name]
    raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
