"""Operators handed to Python: ``__torch_dispatch__`` of types and of modes.

The key lies below autograd: what arrives here has been recorded already, so that what
types and modes do needs no gradient of its own.
"""

from __future__ import annotations

import contextlib
import threading

import cython
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.rushlight.core._python import pp_object
from cython.cimports.rushlight.core.keys import (
    KEY_ADINPLACEORVIEW,
    KEY_AUTOCAST,
    KEY_AUTOGRAD,
    KEY_COMPOSING,
    KEY_DECOMPOSE,
    KEY_PYTHON,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import INPLACE, OUT, Kernel, Operator
from cython.cimports.rushlight.dispatch.interception import put_in_line
from cython.cimports.rushlight.dispatch.named_overload import shown_as

from rushlight.core.subclass import has_dispatch
from rushlight.dispatch.dispatcher import serve_all
from rushlight.dispatch.enums import ArgumentKind
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.named_overload import written_arguments

_PYTHON = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_PYTHON)
_DECOMPOSE = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_DECOMPOSE)
_COMPOSING = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_COMPOSING)
_PRE_DISPATCH = cython.declare(
    uint64_t, cython.cast(uint64_t, 1) << int(DispatchKey.PreDispatch)
)
tracing = cython.declare(cython.bint, False)
_RECORDING = cython.declare(
    uint64_t,
    (cython.cast(uint64_t, 1) << KEY_AUTOGRAD)
    | (cython.cast(uint64_t, 1) << KEY_ADINPLACEORVIEW),
)


class _Modes(threading.local):
    """The dispatch modes of each thread; the last runs first."""

    def __init__(self):
        self.stack = []
        self.listening = 0  # how many of them want operators as PyTorch has them


_MODES = cython.declare(object, _Modes())
_RULES = cython.declare(dict, {})  # (operator, class) -> what the class does with it


def set_rule(op, kind, function):
    """Says what a mode's class, or a type of tensors, does with an operator.

    Args:
        op: the operator.
        kind: the class.
        function: ``function(mode or type, op, types, args, keywords)``; None to forget.
    """
    if function is None:
        _RULES.pop((op, kind), None)
    else:
        _RULES[(op, kind)] = function


def rule_of(op, shown, kind):
    """What was set for a class: for the overload by PyTorch's name, or for all."""
    return _RULES.get((shown, kind)) or _RULES.get((op, kind))


def push_mode(mode):
    """Makes a dispatch mode the first to see this thread's operators."""
    _MODES.stack.append(mode)
    state().included |= _PYTHON
    if not sees_own_operators(mode):
        _MODES.listening += 1
        state().included |= _DECOMPOSE


def pop_mode():
    """Takes the innermost dispatch mode off this thread's stack."""
    mode = _MODES.stack.pop()
    if not _MODES.stack:
        state().included &= ~_PYTHON
    if not sees_own_operators(mode):
        _MODES.listening -= 1
        if not _MODES.listening:
            state().included &= ~_DECOMPOSE
    return mode


class DispatchModeScope:
    """A block whose operators are seen by the object itself, a dispatch mode.

    Attributes:
        enters_once: whether a block inside of its own one changes nothing.
    """

    enters_once = False
    _inside = 0

    def __enter__(self):
        if self.enters_once and self in _MODES.stack:
            self._inside += 1
        else:
            push_mode(self)
        return self

    def __exit__(self, *raised):
        if self._inside:
            self._inside -= 1
        else:
            pop_mode()


def sees_own_operators(mode) -> bool:
    """Whether a mode, or a type, wants operators as they are here, not as in PyTorch."""
    return getattr(mode, "sees_own_operators", False)


def active() -> bool:
    """Whether a mode, or a tracer, sees this thread's operators."""
    return state().included & (_PYTHON | _PRE_DISPATCH) != 0


def recording() -> bool:
    """Whether a tracer writes down what this thread calls, compositions whole."""
    return state().included & ~state().excluded & _PRE_DISPATCH != 0


def listening(*tensors) -> bool:
    """Whether a handler that wants PyTorch's operators sees those of some tensors."""
    st: cython.pointer(ThreadState) = state()
    keys: uint64_t = st.included
    for tensor in tensors:
        keys |= cython.cast(Tensor, tensor).keys
    return (keys & ~st.excluded) & _DECOMPOSE != 0


@contextlib.contextmanager
def as_listened(listened):
    """A block in which operators are taken apart as when they were, or were not, heard.

    What was recorded under a mode is recorded again in the same steps without it.

    Args:
        listened: what ``listening()`` was.
    """
    st: cython.pointer(ThreadState) = state()
    included: uint64_t = st.included & _DECOMPOSE
    excluded: uint64_t = st.excluded & _DECOMPOSE
    if listened:
        st.included |= _DECOMPOSE
    else:
        st.excluded |= _DECOMPOSE
    try:
        yield
    finally:
        state().included = (state().included & ~_DECOMPOSE) | included
        state().excluded = (state().excluded & ~_DECOMPOSE) | excluded


def modes():
    """This thread's dispatch modes; the last runs first."""
    return tuple(_MODES.stack)


@contextlib.contextmanager
def without_modes():
    """A block in which no mode sees this thread's operators."""
    stack = modes()
    for _ in stack:
        pop_mode()
    try:
        yield
    finally:
        for mode in stack:
            push_mode(mode)


@cython.cfunc
def given_arguments(op: Operator, slots: pp_object) -> tuple:
    """A call's arguments as one would write them: defaults at the end are left out."""
    args: list = []
    keywords: dict = {}
    defaults: tuple = op.signature.defaults
    i: cython.int
    for i in range(op.n_args):
        value = cython.cast(object, slots[i])
        same: cython.bint = value is defaults[i]
        if isinstance(value, tuple) and not same:
            value = list(value)  # as PyTorch has them, however they were written
        if not op.signature.rows[i][3]:
            args.append(value)
        elif not same:
            keywords[op.signature.rows[i][0]] = value
    while args and is_default(args[len(args) - 1], defaults[len(args) - 1]):
        args.pop()
    return tuple(args), keywords


@cython.cfunc
def is_default(value: object, default: object) -> object:
    if value is default:
        return True
    if isinstance(default, tuple) and type(value) is list:
        return value == list(default)
    return (
        type(value) is type(default)
        and not isinstance(value, Tensor)
        and (value == default)
    )


@cython.cfunc
def find_askers(op: Operator, slots: pp_object) -> list:
    """The tensors whose types take operators, one of each type, subclasses first."""
    found: list = []
    i: cython.int
    for i in range(op.n_tensors):
        item = cython.cast(object, slots[op.tensor_args[i]])
        if isinstance(item, (list, tuple)):
            for element in item:
                add_asker(found, element)
        else:
            add_asker(found, item)
    return found


@cython.cfunc
def asks_for_parts(op: Operator, values: list) -> cython.bint:
    """Whether who is asked first wants the parts of what is a composition here."""
    stack: list = _MODES.stack
    if state().included & _PYTHON and stack:
        return sees_own_operators(stack[len(stack) - 1])
    return bool(values) and sees_own_operators(type(values[0]))


@cython.cfunc
def add_asker(found: list, value: object):
    if not isinstance(value, Tensor) or not cython.cast(Tensor, value).keys & _PYTHON:
        return
    kind = type(value)
    if not has_dispatch(kind):
        return
    put_in_line(found, kind, value)


@cython.cfunc
def checked(op: Operator, answer: object) -> object:
    """A handler's result, which has to be what the operator's callers expect.

    None for one tensor is no fault: the program that asked gets it.
    """
    if len(op.returns) == 1:
        kind = op.returns[0][0]
        if answer is None and kind == ArgumentKind.BOOL:
            return False
        if kind == ArgumentKind.TENSOR and not isinstance(answer, Tensor | None):
            raise RuntimeError(f"Unable to cast {answer!r} to Tensor")
        if kind == ArgumentKind.TENSORS and not isinstance(answer, (list, tuple)):
            raise RuntimeError(
                f"Unable to cast Python instance of type {type(answer)} to a list of "
                "Tensors"
            )
        return answer
    if len(op.returns) > 1:
        if not isinstance(answer, (list, tuple)):
            raise RuntimeError(
                f"Object of type '{type(answer).__name__}' is not an instance of "
                "'sequence'"
            )
        if isinstance(answer, list):
            return tuple(answer)
    return answer


@cython.cfunc
def accepted(op: Operator, slots: pp_object, answer: object) -> object:
    """What the caller gets for a handler's result: of what was written to, just that."""
    if op.form not in (INPLACE, OUT):
        return checked(op, answer)
    if answer is not None:
        checked(op, answer)
    return cython.cast(object, slots[0 if op.form == INPLACE else op.n_args - 1])


@cython.final
@cython.cclass
class DispatchKernel(Kernel):
    """Asks the innermost mode, then the types of the arguments."""

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        st: cython.pointer(ThreadState) = state()
        before: uint64_t = st.excluded
        shown: Operator = shown_as(op, slots)
        args, keywords = given_arguments(shown, slots)
        if shown is not op:
            args = written_arguments(shown, args)
        values: list = find_askers(op, slots)
        if op.whole and asks_for_parts(op, values):
            return op.compose(slots, keys)
        kinds = tuple([type(value) for value in values])
        # what types and modes do is below autograd, whichever way the call came
        st.excluded = before | _RECORDING
        composing: uint64_t = st.included & _COMPOSING
        st.included &= ~_COMPOSING
        mode = None
        try:
            if st.included & _PYTHON and _MODES.stack:
                mode = pop_mode()
                try:
                    rule = rule_of(op, shown, type(mode)) if _RULES else None
                    if rule is None:
                        given = op if sees_own_operators(mode) else shown
                        answer = mode.__torch_dispatch__(given, kinds, args, keywords)
                    else:
                        answer = rule(mode, shown, kinds, args, keywords)
                finally:
                    push_mode(mode)
                if answer is not NotImplemented:
                    return accepted(op, slots, answer)
            for value in values:
                rule = rule_of(op, shown, type(value)) if _RULES else None
                if rule is None:
                    given = op if sees_own_operators(type(value)) else shown
                    answer = type(value).__torch_dispatch__(
                        given, kinds, args, keywords
                    )
                else:
                    answer = rule(type(value), shown, kinds, args, keywords)
                if answer is not NotImplemented:
                    return accepted(op, slots, answer)
        finally:
            st.excluded = before
            st.included |= composing
        if mode is None and not values:
            return op.run(slots, keys & ~_PYTHON)
        lines = [] if mode is None else [f"  - mode object {mode!r}"]
        lines += [f"  - tensor subclass {kind!r}" for kind in kinds]
        raise TypeError(
            f"Multiple dispatch failed for '{op!s}'; all __torch_dispatch__ handlers "
            "returned NotImplemented:\n\n" + "\n".join(lines)
        )


_TRACERS = cython.declare(object, _Modes())
_casts = cython.declare(object, None)
_casting = cython.declare(object, None)


@cython.final
@cython.cclass
class TracingKernel(Kernel):
    """Asks the innermost tracer, with compositions still whole."""

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        st: cython.pointer(ThreadState) = state()
        before: uint64_t = st.excluded
        args, keywords = given_arguments(op, slots)
        st.excluded = before | _PRE_DISPATCH
        stack: list = _TRACERS.stack
        try:
            return checked(op, stack[len(stack) - 1](op, args, keywords))
        finally:
            st.excluded = before


def push_tracer(function):
    """Hands this thread's operators to a function, before anything else sees them.

    Compositions come whole, gradients are recorded behind it. What the function calls
    itself does not come again.

    Args:
        function: ``function(op, args, keywords)`` gives the result.
    """
    global tracing
    if not tracing:
        serve_all(DispatchKey.PreDispatch, TracingKernel())
        tracing = True
    _TRACERS.stack.append(function)
    state().included |= _PRE_DISPATCH


def pop_tracer():
    """Takes the innermost tracer off this thread's stack."""
    function = _TRACERS.stack.pop()
    if not _TRACERS.stack:
        state().included &= ~_PRE_DISPATCH
    return function


def set_casts(function, enabled):
    """Names who casts operands in a block of autocast.

    Args:
        function: ``function(op, args, keywords)`` does it.
        enabled: ``enabled(device type)`` says whether a block is on for a device.
    """
    global _casts, _casting
    _casts, _casting = function, enabled


def casting(device_type) -> bool:
    """Whether this thread is in a block of autocast for a type of device."""
    return _casting is not None and bool(_casting(device_type))


def casts():
    """That function inside such a block, for tracers, which stand above it; or None."""
    return _casts if (state().included >> KEY_AUTOCAST) & 1 else None


def tracers():
    """This thread's tracers; the last is asked."""
    return tuple(_TRACERS.stack)


@contextlib.contextmanager
def traced_again():
    """A block inside a tracer whose operators come to the tracers, too."""
    st: uint64_t = state().excluded
    state().excluded = st & ~_PRE_DISPATCH
    try:
        yield
    finally:
        state().excluded = st


def serve():
    """Hands operators to types and modes; called once, when all are defined."""
    serve_all(DispatchKey.Python, DispatchKernel())
