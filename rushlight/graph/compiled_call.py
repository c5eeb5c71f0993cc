"""What ``compile`` gives back: functions and modules whose calls are followed, or not.

Both are called by vectorcall, without a frame of Python's around the user's own: where
following does not pay, a call goes on to the function with the arguments as they lie.
"""

from __future__ import annotations

import functools
from types import FunctionType, MethodType

import cython
from cython.cimports.cpython.object import PyObject_GenericGetDict
from cython.cimports.cpython.tuple import PyTuple_GET_SIZE
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
from cython.cimports.rushlight.nn.modules._calling import (
    call_forward,
    class_attribute,
    has_own,
    is_watched,
    module_call,
    packed,
)

from rushlight.nn.modules._calling import call

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
    if kwnames != cython.NULL:
        total += PyTuple_GET_SIZE(cython.cast(object, kwnames))
    if compiled.runner is None or takes_pass(compiled.runner, args, total):
        function = cython.cast(p_object, compiled.function)
        return PyObject_Vectorcall(function, args, nargsf, kwnames)
    values, named = packed(args, count, kwnames)
    return compiled.follow(compiled.runner, compiled.function, values, named)


# -- modules ---------------------------------------------------------------------------


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
        and not has_own(outer, fields)
        and takes_pass(runner, args + 1, count - 1)
    ):
        module = fields["_modules"]["_orig_mod"]
        if class_attribute(module, "__call__") == cython.cast(p_object, call):
            fields = PyObject_GenericGetDict(module, cython.NULL)
            if not is_watched(module, fields):
                return call_forward(module, args, count, cython.NULL)
        if not is_watched(outer, PyObject_GenericGetDict(outer, cython.NULL)):
            called = cython.cast(p_object, module)
            return PyObject_Vectorcall(called, args + 1, count - 1, cython.NULL)
    return PyObject_Vectorcall(cython.cast(p_object, call), args, nargsf, kwnames)


def _install_vectorcall():
    made: CompiledFunction = CompiledFunction(len, None, None)
    enable_vectorcall(
        CompiledFunction, made, cython.address(made.vectorcall), (1 << 11) | (1 << 17)
    )


_install_vectorcall()
CALL_MODULE = module_call(cython.cast(cython.p_void, call_module), call)
