"""What ``compile`` gives back: functions and modules whose calls are followed, or not.

Both are called by vectorcall, without a frame of Python's around the user's own: where
following does not pay, a call goes on to the function with the arguments as they lie.
"""

from __future__ import annotations

import functools
from types import FunctionType, MethodType

import cython
from cython.cimports.cpython.object import PyObject_GenericGetDict
from cython.cimports.libc.stdint import INT64_MAX, int64_t
from cython.cimports.rushlight.core._python import (
    PyObject_Vectorcall,
    PyVectorcall_NARGS,
    p_object,
    pp_object,
)
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.calling import enable_vectorcall
from cython.cimports.rushlight.graph.tape import Owner
from cython.cimports.rushlight.nn.modules._calling import is_watched

from rushlight.nn.modules._calling import call

_VECTORCALL = cython.declare(cython.ulong, 1 << 11)  # flags of types
_METHOD_DESCRIPTOR = cython.declare(cython.ulong, 1 << 17)
_stances = cython.declare(cython.bint, False)


def heed_stances():
    """A thread has set a stance: calls are asked for theirs from here on."""
    global _stances
    _stances = True


# -- whether a call is followed --------------------------------------------------------


@cython.cfunc
@cython.exceptval(-2, check=False)
def elements_of(item: object) -> int64_t:
    """How many elements an argument has: none of a number's, and no end of a list's."""
    if isinstance(item, Tensor):
        return cython.cast(Tensor, item).numel_
    if item is None or isinstance(item, (int, float, str)):
        return 0
    return INT64_MAX


@cython.cfunc
@cython.exceptval(-2, check=False)
def most_of(items: object) -> int64_t:
    """How many elements the largest of some arguments has."""
    most: int64_t = 0
    for item in items:
        most = max(most, elements_of(item))
    return most


@cython.cfunc
@cython.exceptval(-1, check=False)
def takes_pass(owner: Owner, args: pp_object, count: cython.Py_ssize_t) -> cython.bint:
    """Whether following a call does not pay, as it did not for others as large."""
    i: cython.Py_ssize_t
    if owner.passing <= 0 or _stances or owner.frozen is not None:
        return False
    for i in range(count):
        if elements_of(cython.cast(object, args[i])) > owner.most:
            return False
    owner.passing -= 1
    return True


@cython.cfunc
def positional(args: pp_object, count: cython.Py_ssize_t) -> tuple:
    """The first arguments of a call."""
    return tuple([cython.cast(object, args[i]) for i in range(count)])


# -- functions -------------------------------------------------------------------------


@cython.cclass
class CompiledFunction:
    """A function whose calls are followed; for all that ask, a function itself.

    Args:
        function: what is called.
        runner: the `Runner` that follows it, or None.
        follow: ``follow(runner, function, args, kwargs)`` where a call does not pass.
    """

    vectorcall: cython.p_void
    function: object
    runner: Owner
    follow: object
    __dict__: dict
    __weakref__: object

    def __init__(self, function, runner, follow):
        self.vectorcall = cython.cast(cython.p_void, call_function)
        self.function, self.runner, self.follow = function, runner, follow
        functools.update_wrapper(self, function)
        self._torchdynamo_orig_callable = function
        self._runner = runner

    @property
    def __class__(self):
        """What `isinstance` is told: PyTorch's are functions, and programs ask."""
        return FunctionType

    def __getattr__(self, name):
        return getattr(self.function, name)

    def __get__(self, owner, kind):
        return self if owner is None else MethodType(self, owner)

    def __repr__(self):
        return f"<function {self.__qualname__} at {id(self):#x}>"

    def __reduce__(self):
        return self.__qualname__


@cython.cfunc
def call_function(
    self: p_object, args: pp_object, nargsf: cython.size_t, kwnames: p_object
) -> object:
    compiled: CompiledFunction = cython.cast(CompiledFunction, self)
    count: cython.Py_ssize_t = PyVectorcall_NARGS(nargsf)
    total: cython.Py_ssize_t = count
    names: tuple = ()
    if kwnames != cython.NULL:
        names = cython.cast(tuple, cython.cast(object, kwnames))
        total += len(names)
    if compiled.runner is None or takes_pass(compiled.runner, args, total):
        function = cython.cast(p_object, compiled.function)
        return PyObject_Vectorcall(function, args, nargsf, kwnames)
    kwargs: dict = {}
    for i in range(len(names)):
        kwargs[names[i]] = cython.cast(object, args[count + i])
    packed: tuple = positional(args, count)
    return compiled.follow(compiled.runner, compiled.function, packed, kwargs)


# -- modules ---------------------------------------------------------------------------


@cython.cclass
class CallOfModule:
    """The ``__call__`` of compiled modules."""

    vectorcall: cython.p_void
    __dict__: dict

    def __init__(self):
        self.vectorcall = cython.cast(cython.p_void, call_module)
        functools.update_wrapper(self, call)

    def __get__(self, owner, kind):
        return self if owner is None else MethodType(self, owner)


@cython.cfunc
def call_module(
    self: p_object, args: pp_object, nargsf: cython.size_t, kwnames: p_object
) -> object:
    count: cython.Py_ssize_t = PyVectorcall_NARGS(nargsf)
    outer: object = cython.cast(object, args[0])
    fields: dict = PyObject_GenericGetDict(outer, cython.NULL)
    runner: Owner = fields.get("_runner")
    if (
        kwnames == cython.NULL
        and runner is not None
        and fields["_integers"] is None
        and not is_watched(outer, fields)
        and takes_pass(runner, args + 1, count - 1)
    ):
        module = fields["_modules"]["_orig_mod"]
        called = module
        if type(module).__call__ is call:
            fields = PyObject_GenericGetDict(module, cython.NULL)
            if not is_watched(module, fields):
                called = module.forward
        return PyObject_Vectorcall(
            cython.cast(p_object, called), args + 1, count - 1, cython.NULL
        )
    kwargs: dict = {}
    if kwnames != cython.NULL:
        for i, name in enumerate(cython.cast(object, kwnames)):
            kwargs[name] = cython.cast(object, args[count + i])
    return call(*positional(args, count), **kwargs)


def _install_vectorcalls():
    function: CompiledFunction = CompiledFunction(call, None, None)
    module: CallOfModule = CallOfModule()
    flags: cython.ulong = _VECTORCALL | _METHOD_DESCRIPTOR
    field = cython.address(function.vectorcall)
    enable_vectorcall(CompiledFunction, function, field, flags)
    enable_vectorcall(CallOfModule, module, cython.address(module.vectorcall), flags)


_install_vectorcalls()
