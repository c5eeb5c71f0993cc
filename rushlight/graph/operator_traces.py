"""Operator traces: the operators that a module's call asks for where gradients are recorded.

There a call cannot be a segment of the path alone: each operator also leaves a node in the
graph of autograd. So its *trace* is kept above autograd, operators with what they are
given, and each is called again: nodes, versions, hooks on saved tensors, draws and writes
come out as they would of the Python, which is what is left out.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t, uintptr_t
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import Kernel, Operator
from cython.cimports.rushlight.graph.capture import current
from cython.cimports.rushlight.graph.tape import OPERATOR_TRACE, Notes, Tape

from rushlight.core.device import Device
from rushlight.core.dtype import DType
from rushlight.core.layout import Layout, MemoryFormat
from rushlight.dispatch.dispatcher import serve_all
from rushlight.dispatch.keys import DispatchKey

# What an argument of a trace's call is.
PLAIN = cython.declare(cython.int, 0)  # the very object, which cannot change
KNOWN = cython.declare(
    cython.int, 1
)  # a tensor that the module's call is given, by number
MADE = cython.declare(cython.int, 2)  # one that an earlier call gave
LISTED = cython.declare(cython.int, 3)  # a list of these
_FIXED = (type(None), bool, int, float, complex, str, DType, Device, Layout)
_FIXED += (MemoryFormat,)


class Stray(Exception):
    """Something of a call is no operator's, or not known to be the same next time."""


@cython.final
@cython.cclass
class Again:
    """A call of an operator that is made again."""

    op: Operator
    kinds: cython.uchar[24]
    values: list
    n_made: cython.Py_ssize_t  # results of the trace so far
    dropped: list  # numbers of results that nobody reads from here on


@cython.final
@cython.cclass
class OperatorTrace(Notes):
    """The calls of operators of one module's call, in their order.

    Args:
        known: the tensors that the call is given, by number.
    """

    def __init__(self, known: list):
        self.calls = []
        self.stray = False
        self.known = known
        self.numbers = {}  # id of a tensor -> its kind and number
        self.looks = {}  # id of a tensor -> what autograd keeps of it
        self.held = []  # the results, by number
        st: cython.pointer(ThreadState) = state()
        self.thread = thread_of(st)
        self.sequence = st.sequence
        for number, tensor in enumerate(known):
            self.numbers[id(tensor)] = (KNOWN, number)
            self.looks[id(tensor)] = look_of(tensor)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def unchanged(self) -> cython.bint:
        """Whether nothing but operators has made nodes, or changed the thread, since."""
        st: cython.pointer(ThreadState) = state()
        return st.sequence == self.sequence and thread_of(st) == self.thread

    @cython.cfunc
    def source_of(self, item: object) -> tuple:
        """What an argument is: its kind, and the object or number."""
        if isinstance(item, Tensor):
            found = self.numbers.get(id(item))
            if found is None or self.looks[id(item)] != look_of(item):
                raise Stray("a tensor that no operator gave")
            return found
        if type(item) is list or isinstance(item, tuple):
            parts = [self.source_of(one) for one in item]
            if any([part[0] for part in parts]):
                return LISTED, (type(item) is list, parts)
            return PLAIN, item if isinstance(item, tuple) else list(item)
        if type(item) not in _FIXED:
            raise Stray("an argument")
        return PLAIN, item

    @cython.cfunc
    def begin(self, op: Operator, slots: pp_object) -> object:
        """An operator is about to run: the call as it is made again, if it can be."""
        i: cython.int
        call: Again = Again.__new__(Again)
        if self.stray or not self.unchanged():
            self.stray = True
            return None
        call.op, call.values, call.dropped = op, [], []
        try:
            for i in range(op.n_args):
                kind, value = self.source_of(cython.cast(object, slots[i]))
                call.kinds[i] = kind
                call.values.append(value)
        except Stray:
            self.stray = True
            return None
        return call

    @cython.cfunc
    def end(self, call: object, slots: pp_object, result: object) -> object:
        """An operator has run."""
        i: cython.int
        if call is None:
            return
        again: Again = call
        self.calls.append(again)
        self.sequence = state().sequence
        for one in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(one, Tensor):
                self.numbers[id(one)] = (MADE, len(self.held))
            self.held.append(one)
        again.n_made = len(self.held)
        for i in range(again.op.n_args):
            self.look_again(cython.cast(object, slots[i]))
        self.look_again(result)

    @cython.cfunc
    def look_again(self, item: object):
        """Keeps what an operator may have changed of a tensor."""
        if isinstance(item, Tensor):
            self.looks[id(item)] = look_of(item)
        elif isinstance(item, (list, tuple)):
            for one in item:
                self.look_again(one)

    def finish(self, result, args):
        """Settles what the module's call gives, and when results are let go.

        Args:
            result: of the module's call.
            args: its arguments.

        Raises:
            Stray: it cannot be given again.
        """
        if self.stray or not self.unchanged():
            raise Stray("more than operators")
        for tensor in self.known:
            self.source_of(tensor)
        self.result = self.given(result, args)
        self.let_go(numbers_in(self.result))
        self.known, self.held, self.numbers, self.looks = [], [], {}, {}

    def given(self, result, args):
        """A result: the number of a tensor, of an argument (from -1 down), or a tuple."""
        if result is None:
            return None
        if type(result) is tuple or type(result) is list:
            return type(result)([self.given(one, args) for one in result])
        kind, number = self.source_of(result)
        if kind == MADE:
            return number
        for i, one in enumerate(args):
            if one is result and kind == KNOWN:
                return -1 - i
        raise Stray("a result")

    @cython.cfunc
    def let_go(self, wanted: set):
        """Has each result be dropped after the last call that reads it."""
        call: Again
        last: dict = {}
        at: cython.Py_ssize_t = 0
        for call in self.calls:
            for number in read_by(call):
                last[number] = at
            for number in range(len(last), call.n_made):
                last[number] = at
            at += 1
        for number, at in last.items():
            if number not in wanted:
                call = self.calls[at]
                call.dropped.append(number)

    @cython.cfunc
    def run(self, found: pp_object) -> list:
        """Makes the calls again: their results, by number.

        Args:
            found: the tensors that the module's call is given, which somebody holds.
        """
        slots = cython.declare(p_object[24])
        call: Again
        made: list = []
        lists: list = []
        i: cython.int
        for call in self.calls:
            for i in range(call.op.n_args):
                value = call.values[i]
                if call.kinds[i] == MADE:
                    slots[i] = cython.cast(
                        p_object, made[cython.cast(cython.Py_ssize_t, value)]
                    )
                elif call.kinds[i] == KNOWN:
                    slots[i] = found[cython.cast(cython.Py_ssize_t, value)]
                else:
                    if call.kinds[i] == LISTED:
                        value = filled(value, made, found)
                        lists.append(value)
                    slots[i] = cython.cast(p_object, value)
            result = call.op.call(slots)
            if isinstance(result, (list, tuple)):
                made.extend(result)
            else:
                made.append(result)
            for number in call.dropped:
                made[cython.cast(cython.Py_ssize_t, number)] = None
        return made


@cython.cfunc
def filled(source: tuple, made: list, found: pp_object) -> object:
    """A list among arguments."""
    parts: list = []
    for kind, value in cython.cast(list, source[1]):
        if kind == MADE:
            parts.append(made[value])
        elif kind == KNOWN:
            parts.append(
                cython.cast(object, found[cython.cast(cython.Py_ssize_t, value)])
            )
        else:
            parts.append(value if kind == PLAIN else filled(value, made, found))
    return parts if source[0] else tuple(parts)


@cython.cfunc
def read_by(call: Again) -> list:
    """The numbers of the results that a call reads."""
    found: list = []
    i: cython.int
    for i in range(call.op.n_args):
        gather(call.kinds[i], call.values[i], found)
    return found


@cython.cfunc
def gather(kind: cython.int, value: object, found: list):
    if kind == MADE:
        found.append(value)
    elif kind == LISTED:
        for inner, item in value[1]:
            gather(inner, item, found)


def numbers_in(result):
    """The numbers of results that are given on."""
    if isinstance(result, (list, tuple)):
        return set().union(*map(numbers_in, result)) if result else set()
    return set() if result is None or result < 0 else {result}


@cython.cfunc
def thread_of(st: cython.pointer(ThreadState)) -> tuple:
    """What operators run under."""
    kept: uint64_t = st.included & ~cython.cast(uint64_t, OPERATOR_TRACE)
    return (
        kept,
        st.excluded,
        st.grad_mode,
        st.inference_mode,
        st.anomaly,
        st.hooks_enabled,
        st.forward_ad,
        st.modes,
        st.factory_device,
    )


@cython.cfunc
def look_of(tensor: object) -> tuple:
    """What autograd keeps of a tensor."""
    t: Tensor = tensor
    version: int64_t = t.version()
    node: uintptr_t = cython.cast(uintptr_t, cython.cast(cython.p_void, t.grad_fn_))
    base: uintptr_t = cython.cast(uintptr_t, cython.cast(cython.p_void, t.base))
    return t.wants_grad, node, base, version, t.keys, t.wrapped_number


@cython.final
@cython.cclass
class OperatorTraceKernel(Kernel):
    """Runs each operator as it comes, and notes it for the trace that is open."""

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        st: cython.pointer(ThreadState) = state()
        one: uint64_t = OPERATOR_TRACE
        noted: uint64_t = st.included & one
        tape: Tape = current()
        operator_trace: Notes = None if tape is None else tape.operator_trace
        call = None if operator_trace is None else operator_trace.begin(op, slots)
        result: object = None
        st.included &= ~one
        try:
            result = op.run(slots, keys & ~one)
        finally:
            st.included |= noted  # the path may have been given up meanwhile: no more
        if operator_trace is not None:
            operator_trace.end(call, slots, result)
        return result


def serve():
    """Has all operators answer to the key; called once."""
    serve_all(DispatchKey.OperatorTrace, OperatorTraceKernel())
