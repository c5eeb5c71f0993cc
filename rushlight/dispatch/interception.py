"""Calls that types and modes take before an operator sees them: ``__torch_function__``."""

from __future__ import annotations

import cython
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.signature import asks, keyword_dict

from rushlight.core import naming
from rushlight.core.slots import PASS_BY
from rushlight.core.state import silenced_overrides
from rushlight.dispatch.signature import pop_mode, push_mode


@cython.cfunc
def askers(args: tuple, keywords: dict) -> list:
    """The values that take calls, one of each type, subclasses before their bases."""
    found: list = []
    for arg in args:
        add_askers(found, arg)
    for arg in keywords.values():
        add_askers(found, arg)
    return found


@cython.cfunc
def add_askers(found: list, arg: object):
    if isinstance(arg, (list, tuple)):
        for element in arg:
            add_asker(found, element)
    else:
        add_asker(found, arg)


@cython.cfunc
def add_asker(found: list, value: object):
    kind = type(value)
    if kind is Tensor or kind is int or kind is float or not asks(value):
        return
    put_in_line(found, kind, value)


@cython.cfunc
def put_in_line(found: list, kind: type, value: object):
    """Notes a value of a type that asks, before the first of its bases, unless one is."""
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = len(found)
    for i in range(len(found)):
        if type(found[i]) is kind:
            return
        if at == len(found) and issubclass(kind, type(found[i])):
            at = i
    found.insert(at, value)


@cython.cfunc
def ask(function: object, args: tuple, keywords: dict, values: list) -> object:
    """What the innermost mode says, or the values' types; `PASS_BY` where none is asked.

    Raises:
        TypeError: none of those who were asked has a result.
    """
    modal: cython.bint = state().modes > 0 and silenced_overrides() < 2
    if not modal and not values:
        return PASS_BY
    kinds = tuple([type(value) for value in values])
    mode = None
    if modal:
        mode = pop_mode()
        try:
            answer = mode.__torch_function__(function, kinds, args, keywords)
        finally:
            push_mode(mode)
        if answer is not NotImplemented:
            return answer
    for value in values:
        answer = value.__torch_function__(function, kinds, args, keywords)
        if answer is not NotImplemented:
            return answer
    lines = [] if mode is None else [f"  - mode object {mode!r}"]
    lines += [f"  - tensor subclass {kind!r}" for kind in kinds]
    raise TypeError(
        f"Multiple dispatch failed for '{name_of(function)}'; all __torch_function__ "
        "handlers returned NotImplemented:\n\n" + "\n".join(lines)
    )


@cython.cfunc
def name_of(function: object) -> str:
    """Where a function is found, for messages."""
    name = getattr(function, "__name__", None) or str(function)
    owner = getattr(function, "__self__", None)
    if name in ("__get__", "__set__", "__delete__") and owner is not None:
        return f"{naming.package}.Tensor.{owner.__name__}.{name}"
    kind = getattr(function, "__objclass__", None)
    if kind is not None:
        return f"{naming.package}.Tensor.{name}"
    module = getattr(function, "__module__", None) or naming.package
    return f"{module}.{name}"


@cython.cfunc
def intercept(
    function: object, args: pp_object, n: cython.Py_ssize_t, kwnames: p_object
) -> object:
    """Asks modes and the arguments' types about a call as its caller wrote it."""
    i: cython.Py_ssize_t
    positional: tuple = tuple([cython.cast(object, args[i]) for i in range(n)])
    keywords: dict = keyword_dict(args, n, kwnames)
    return ask(function, positional, keywords, askers(positional, keywords))


@cython.final
@cython.cclass
class Spelling:
    """How handlers are shown a call of a function that PyTorch has in Python.

    What must be given is shown by position, all else by name, left out or not.

    Args:
        function: a plain function.
        by_name: whether everything is shown by name.
        hidden: old names of arguments, which are shown only where they are given.
    """

    names: tuple
    required: cython.Py_ssize_t
    defaults: dict
    known: frozenset
    switch: object
    other: object

    def __init__(self, function, by_name=False, hidden=()):
        code = function.__code__
        given = function.__defaults__ or ()
        first = code.co_argcount - len(given)
        self.names = code.co_varnames[: code.co_argcount]
        self.required = 0 if by_name else first
        self.defaults = dict(zip(self.names[first:], given))
        named = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
        for name in named:
            if name in (function.__kwdefaults__ or {}):
                self.defaults[name] = function.__kwdefaults__[name]
        self.known = frozenset((*self.names, *named))
        for name in hidden:
            self.defaults.pop(name, None)
        self.switch, self.other = None, None
        if code.co_flags & 4:  # takes any number: all of them are shown by position
            self.required = 1 << 30

    @cython.cfunc
    def spelled(self, positional: tuple, keywords: dict) -> tuple:
        """Positional arguments and others as handlers see them; None if they don't fit."""
        i: cython.Py_ssize_t
        head: list = list(positional[: self.required])
        shown: dict = dict(self.defaults)
        if len(positional) > self.required:
            if len(positional) > len(self.names):
                return None
            shown.update(zip(self.names[self.required :], positional[self.required :]))
        if not self.known.issuperset(keywords):
            return None
        shown.update(keywords)
        for i in range(len(head), min(self.required, len(self.names))):
            if self.names[i] not in shown:
                return None
            head.append(shown.pop(self.names[i]))
        return tuple(head), shown


def switched(spelling, name, other):
    """Has handlers see another function where an argument is true.

    Args:
        spelling: of the function that users call.
        name: the argument; ``other``: the function.
    """
    cython.cast(Spelling, spelling).switch = name
    cython.cast(Spelling, spelling).other = other


@cython.cfunc
def intercept_python(
    function: object,
    args: pp_object,
    n: cython.Py_ssize_t,
    kwnames: p_object,
    spelling: object,
    modal: cython.bint,
) -> object:
    """`intercept`, with the arguments spelled out; where ``modal``, for modes alone."""
    positional: tuple = tuple([cython.cast(object, args[i]) for i in range(n)])
    keywords: dict = keyword_dict(args, n, kwnames)
    found: list = [] if modal else askers(positional, keywords)
    if spelling is not None:
        how: Spelling = spelling
        fitting = how.spelled(positional, keywords)
        if fitting is None:
            return PASS_BY  # the call itself says what is wrong
        positional, keywords = fitting
        if how.switch is not None and keywords.get(how.switch):
            function = how.other
    return ask(function, positional, keywords, found)


def handle(function, relevant, args, keywords):
    """Asks modes and the types of some arguments; `PASS_BY` where nobody is asked.

    Args:
        function: what was called.
        relevant: the values whose types may take the call.
        args: the call's positional arguments; ``keywords`` the others.
    """
    found: list = []
    for value in relevant:
        add_asker(found, value)
    return ask(function, args, keywords, found)


class FunctionModeScope:
    """A block whose calls are seen by the object itself, a function mode."""

    def __enter__(self):
        push_mode(self)
        return self

    def __exit__(self, *raised):
        pop_mode()
