"""Functions, methods and attributes that are no operators, open to types and modes."""

from __future__ import annotations

import functools

import cython
from cython.cimports.libc.stdlib import malloc
from cython.cimports.rushlight.core._python import (
    PyObject_Vectorcall,
    p_object,
    pp_object,
)
from cython.cimports.rushlight.core.descriptors import (
    Py_TYPE,
    PyGetSetDef,
    PyGetSetDescrObject,
    getter,
    setter,
)
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.calling import enable_vectorcall
from cython.cimports.rushlight.dispatch.interception import (
    ask,
    intercept_python,
    put_in_line,
)
from cython.cimports.rushlight.dispatch.signature import asks, asks_within, watchers

from rushlight.core.slots import bind_slots
from rushlight.core.tensor import install
from rushlight.dispatch.interception import PASS_BY as _PASS_BY
from rushlight.dispatch.interception import Spelling, switched

PASS_BY = cython.declare(object, _PASS_BY)


@cython.cclass
class Overridable:
    """A Python function whose calls types and modes may take.

    Args:
        function: what runs where nobody takes the call.
        owner: the class that it is a method of, or None.
        module: where users find it; by default where it was written.
        flat: whether only arguments themselves take calls, not what lists of them hold.
        spelling: how handlers are shown the arguments; by default as they were given.
        modal: whether modes alone take calls, not types.
    """

    vectorcall: cython.p_void
    function: object
    owner: object
    flat: cython.bint
    spelling: object
    modal: cython.bint
    __dict__: dict

    def __init__(
        self, function, owner=None, module=None, flat=False, spelling=None, modal=False
    ):
        self.vectorcall = cython.cast(cython.p_void, call_overridable)
        self.function = function
        self.owner = owner
        self.flat = flat
        self.spelling = spelling
        self.modal = modal
        functools.update_wrapper(self, function)
        if module is not None:
            vars(cython.cast(object, self))["__module__"] = module

    def __getattr__(self, name):
        if name == "__objclass__" and self.owner is not None:
            return self.owner
        return getattr(self.function, name)

    def __get__(self, obj, kind):
        return self if obj is None else Bound(self, obj)

    def __repr__(self):
        if self.owner is not None:
            return f"<method '{self.__name__}' of 'Tensor' objects>"
        return f"<function {self.__name__}>"

    def __reduce__(self):
        if self.owner is not None:
            return (getattr, (self.owner, self.__name__))
        return self.__qualname__


def _docstring(wrapped):
    """What was written for the function; of a method of an operator, the operator's."""
    own = vars(wrapped).get("__doc__")
    return own or getattr(getattr(wrapped, "packet", None), "__doc__", None)


def _set_docstring(wrapped, text):
    vars(wrapped)["__doc__"] = text


def _signature(wrapped):
    packet = getattr(wrapped, "packet", None)
    if packet is None:
        raise AttributeError("the function's own signature goes for it")
    return packet.__signature__


install("__doc__", property(_docstring, _set_docstring), Overridable)
install("__signature__", property(_signature), Overridable)


@cython.final
@cython.cclass
class Bound:
    """A method looked up on a tensor and not called at once."""

    method: object
    owner: object

    def __init__(self, method, owner):
        self.method = method
        self.owner = owner

    def __call__(self, *args, **kwargs):
        return self.method(self.owner, *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.method, name)

    def __eq__(self, other):
        return (
            isinstance(other, Bound)
            and cython.cast(Bound, other).owner is self.owner
            and cython.cast(Bound, other).method is self.method
        )

    def __hash__(self):
        return hash((id(self.owner), id(self.method)))

    @property
    def __self__(self):
        return self.owner

    @property
    def __func__(self):
        return self.method

    def __repr__(self):
        return f"<bound method {self.method.__name__} of a Tensor>"


@cython.cfunc
def call_overridable(
    self: p_object, args: pp_object, nargsf: cython.size_t, kwnames: p_object
) -> object:
    wrapped: Overridable = cython.cast(Overridable, self)
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t = (nargsf << 1) >> 1
    total: cython.Py_ssize_t = n
    asked: cython.bint = watchers > 0
    if kwnames != cython.NULL:
        total += len(cython.cast(tuple, cython.cast(object, kwnames)))
    for i in range(0 if wrapped.modal else total):
        if Py_TYPE(args[i]) != cython.cast(p_object, Tensor):
            asked = asked or (
                asks(cython.cast(object, args[i]))
                if wrapped.flat
                else asks_within(cython.cast(object, args[i]))
            )
    if asked:
        answer = intercept_python(
            wrapped, args, n, kwnames, wrapped.spelling, wrapped.modal
        )
        if answer is not PASS_BY:
            return answer
    return PyObject_Vectorcall(
        cython.cast(p_object, wrapped.function), args, nargsf, kwnames
    )


def _install_vectorcall():
    probe: Overridable = Overridable(_install_vectorcall)
    enable_vectorcall(
        Overridable, probe, cython.address(probe.vectorcall), (1 << 11) | (1 << 17)
    )


_install_vectorcall()


def method(name, function, spelled=False):
    """A method of ``Tensor`` that types and modes may take.

    Args:
        name: what it is called.
        function: what runs where nobody takes the call.
        spelled: whether handlers are shown what was left out, too.
    """
    made = Overridable(
        function, Tensor, spelling=Spelling(function) if spelled else None
    )
    made.__name__ = name
    made.__qualname__ = f"Tensor.{name}"
    return made


def open_functions(
    namespace, names, module, flat=(), switches=None, by_name=False, hidden=()
):
    """Opens functions that PyTorch has in Python to types and modes.

    Handlers see what was left out, too, as PyTorch's functions hand it on.

    Args:
        namespace: the module's names, changed in place.
        names: the functions'.
        module: where users find them.
        flat: those of them that unpack lists before anybody takes the call.
        switches: for some, the argument that makes them another one, and its name.
        by_name: whether handlers see all arguments by name.
        hidden: old names of arguments, which they see only where they are given.
    """
    for name in names:
        found = namespace[name]
        if not isinstance(found, Overridable):
            namespace[name] = Overridable(
                found,
                module=module,
                flat=name in flat,
                spelling=Spelling(found, by_name, hidden),
            )
    for name, (argument, other) in (switches or {}).items():
        opened: Overridable = namespace[name]
        switched(opened.spelling, argument, namespace[other])


def open_plain(namespace, names, module, modal=()):
    """Opens functions that PyTorch has in C++: handlers see what was given.

    Args:
        namespace: the module's names, changed in place.
        names: the functions'.
        module: where users find them.
        modal: those of them whose calls modes take, and no types.
    """
    for name in names:
        namespace[name] = Overridable(
            namespace[name], module=module, modal=name in modal
        )


# -- attributes ------------------------------------------------------------------------


@cython.final
@cython.cclass
class Attribute:
    """A property of tensors, written in Python, that types and modes may take.

    Args:
        get: a function of the tensor.
        put: a function of the tensor and the new value, or None.
    """

    get: object
    put: object
    __name__ = cython.declare(str, visibility="readonly")
    __dict__: dict

    def __init__(self, name, get, put=None):
        self.__name__ = name
        self.get = get
        self.put = put

    @property
    def __objclass__(self):
        return Tensor

    @property
    def fget(self):
        """The function behind the attribute."""
        return self.get

    def __get__(self, obj, kind):
        if obj is None:
            return self
        if watchers or (type(obj) is not Tensor and asks(obj)):
            answer = taken_attribute(self, "__get__", (obj,))
            if answer is not PASS_BY:
                return answer
        return self.get(obj)

    def __set__(self, obj, value):
        if self.put is None:
            raise AttributeError(
                f"attribute '{self.__name__}' of 'Tensor' objects is not writable"
            )
        if watchers or (type(obj) is not Tensor and asks(obj)):
            if taken_attribute(self, "__set__", (obj, value)) is not PASS_BY:
                return
        self.put(obj, value)


# As late as possible: texts of operators are loaded when somebody asks for one.
install("__doc__", property(lambda attribute: attribute.fget.__doc__), Attribute)


@cython.cfunc
def taken_attribute(descriptor: object, how: str, args: tuple) -> object:
    """What types and modes make of reading or writing an attribute."""
    owner = args[0]
    values: list = [owner] if asks(owner) else []
    if not values and not state().modes:
        return PASS_BY
    return ask(getattr(descriptor, how), args, {}, values)


# What stands behind a compiled attribute, and where it was found.
Watched = cython.struct(
    get=getter, put=setter, closure=cython.p_void, descriptor=p_object
)


@cython.cfunc
def watched_get(self: object, closure: cython.p_void) -> object:
    """Reads a compiled attribute, unless the tensor's type or a mode does."""
    watched: cython.pointer(Watched) = cython.cast(cython.pointer(Watched), closure)
    if watchers or (type(self) is not Tensor and asks(self)):
        answer = taken_attribute(
            cython.cast(object, watched.descriptor), "__get__", (self,)
        )
        if answer is not PASS_BY:
            return answer
    return watched.get(self, watched.closure)


@cython.cfunc
@cython.exceptval(-1, check=False)
def watched_put(self: object, value: p_object, closure: cython.p_void) -> cython.int:
    """Writes a compiled attribute, or with NULL deletes it."""
    watched: cython.pointer(Watched) = cython.cast(cython.pointer(Watched), closure)
    if watchers or (type(self) is not Tensor and asks(self)):
        descriptor = cython.cast(object, watched.descriptor)
        if value == cython.NULL:
            answer = taken_attribute(descriptor, "__delete__", (self,))
        else:
            answer = taken_attribute(
                descriptor, "__set__", (self, cython.cast(object, value))
            )
        if answer is not PASS_BY:
            return 0
    return watched.put(self, value, watched.closure)


def watch_attributes(kind):
    """Has types and modes see the compiled attributes of a class.

    Each attribute keeps its descriptor, which gets another C function to call; that
    costs a comparison where nobody watches.
    """
    for name, found in list(vars(kind).items()):
        if type(found).__name__ != "getset_descriptor" or name.startswith("__"):
            continue
        descriptor: cython.pointer(PyGetSetDescrObject) = cython.cast(
            cython.pointer(PyGetSetDescrObject), cython.cast(p_object, found)
        )
        watched: cython.pointer(Watched) = cython.cast(
            cython.pointer(Watched), malloc(cython.sizeof(Watched))
        )
        entry: cython.pointer(PyGetSetDef) = cython.cast(
            cython.pointer(PyGetSetDef), malloc(cython.sizeof(PyGetSetDef))
        )
        if watched == cython.NULL or entry == cython.NULL:
            raise MemoryError("no memory for a class's attributes")
        entry[0] = descriptor.d_getset[0]
        watched.get = entry.get
        watched.put = entry.set
        watched.closure = entry.closure
        watched.descriptor = cython.cast(p_object, found)
        entry.get = watched_get
        if entry.set != cython.NULL:
            entry.set = watched_put
        entry.closure = watched
        descriptor.d_getset = entry


# What PyTorch's handlers see by name of methods that Python calls by itself.
_BY_NAME = {"__array__": ("dtype",)}


def _taken(name, args):
    """What the types of a method's arguments, or a mode, make of it."""
    values: list = []
    named = {}
    for at, argument in enumerate(_BY_NAME.get(name, ()), 1):
        named[argument] = args[at] if at < len(args) else None
        args = args[:at]
    for value in args[:1] if name == "__eq__" else args:
        if type(value) is not Tensor and asks(value):
            put_in_line(values, type(value), value)
        elif type(value) is tuple and name == "__getitem__":
            for item in value:
                if type(item) is not Tensor and asks(item):
                    put_in_line(values, type(item), item)
    if not values and not state().modes:
        return PASS_BY
    return ask(getattr(Tensor, name), args, named, values)


bind_slots({"taken": _taken})
