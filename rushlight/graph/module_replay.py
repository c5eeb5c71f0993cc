"""Calls of modules whose trace is proven: their segment of a path, without their Python.

While a compiled function is followed, most of the time goes to the Python of modules: in
each call it finds the same attributes and calls the same operators. The operators of such
a call are a *segment* of the path. Where all that the Python can have read is what it was,
the segment is taken at once: what the Python would do is known, and it does nothing else.

What is proven, and how:

- *Which code ran* is seen, not guessed: a call is noted under a profile function. All of it
  is the package's own or plain (`rushlight.graph.plain_code`), and no function that does
  something beside was called.
- *What the code reads by name* (functions, modules, classes, builtins) is looked up again,
  and the code and defaults of functions and the version of classes are compared.
- *What modules are*: each in the tree has its type, and each attribute is the same
  immutable object, list of such, table of tensors or table of modules. No hooks.
- *What tensors are*, arguments, parameters and buffers alike: type, sizes, strides, offset,
  whether they learn, and which storages they share. Elements are read by nobody: a look at
  one ends a segment. Other tensors of the same look may stand in their place.
- *The thread*: no gradients recorded, no modes, no tracing, the same keys, default type
  and registrations of operators.

So a segment is found by what a call meets, and anything else has its Python run as ever.
"""

from __future__ import annotations

import sys
from types import FunctionType
from weakref import ref

import cython
from cython.cimports.cpython.dict import PyDict_GetItem, PyDict_Next, PyDict_Size
from cython.cimports.cpython.object import PyObject_GenericGetDict
from cython.cimports.cpython.ref import Py_XDECREF, Py_XINCREF
from cython.cimports.libc.stdint import uint64_t, uintptr_t
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.dtype import default_dtype
from cython.cimports.rushlight.core.keys import KEY_PROFILING, RECORDING
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.storage import Storage
from cython.cimports.rushlight.core.switches import switch_bits
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import registrations
from cython.cimports.rushlight.graph.call_matching import item_key
from cython.cimports.rushlight.graph.capture import current
from cython.cimports.rushlight.graph.function_facts import same_function
from cython.cimports.rushlight.graph.operator_traces import OperatorTrace
from cython.cimports.rushlight.graph.tape import (
    OPERATOR_TRACE,
    Call,
    Tape,
    Value,
    usable,
    value_of,
)
from cython.cimports.rushlight.nn.modules._calling import Follower

from rushlight._inductor import config
from rushlight.core import naming
from rushlight.core.device import Device
from rushlight.core.dtype import DType
from rushlight.dispatch.overridable import Overridable
from rushlight.dispatch.packet import OperatorPacket
from rushlight.graph import operator_traces
from rushlight.graph.capture import OUTSIDE
from rushlight.graph.guards import UNREAD, CodeProfiler, Names, Unproven
from rushlight.graph.operator_traces import Stray
from rushlight.graph.plain_code import PlainCode, is_record
from rushlight.graph.steps import step_of
from rushlight.nn.modules.module import Module

_PROFILING = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_PROFILING)
_TRIES = cython.declare(cython.int, 15)  # to prove a module's trace at one place
_FAILED = cython.declare(cython.int, 5)  # as many as one counts that did not
_MET = cython.declare(cython.Py_ssize_t, 4096)  # calls of modules known at one place
_KEPT = cython.declare(
    cython.Py_ssize_t, 8
)  # segments of a module's call with like arguments
# What an attribute of a module is.
SAME = cython.declare(cython.int, 0)  # the very object, which cannot change
FREE = cython.declare(cython.int, 1)  # nothing that a call reads
EMPTY = cython.declare(cython.int, 2)  # a table without entries
TABLE = cython.declare(cython.int, 3)  # names and tensors
TREE = cython.declare(cython.int, 4)  # names and modules
LIST = cython.declare(cython.int, 5)  # of immutable objects, tensors and lists
ONE = cython.declare(cython.int, 6)  # a tensor
ROW = cython.declare(cython.int, 7)  # a tuple with tensors
EQUAL = cython.declare(cython.int, 8)  # an integer or text, whose object may be another
RECORD = cython.declare(cython.int, 9)  # a user's object that has such attributes
OPEN = cython.declare(cython.int, 10)  # any integer
_IMMUTABLE = (type(None), bool, int, float, str, bytes, complex, DType, Device, ref)
_IMMUTABLE += (Overridable, OperatorPacket)
# What CPython says of a class: Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_IMMUTABLETYPE.
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
)


# -- what is looked at -----------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def learns(t: Tensor) -> cython.bint:
    """Whether a gradient is wanted of a tensor, or of what it is a view of."""
    return t.wants_grad or (t.base is not None and t.base.wants_grad)


@cython.final
@cython.cclass
class Known:
    """What a tensor was: another one like it may stand in its place."""

    @cython.cfunc
    @cython.exceptval(check=False)
    def fits(self, t: Tensor) -> cython.bint:
        return (
            cython.cast(object, type(t)) is self.kind
            and (self.value.fits(t) or (self.is_open and is_resized(self.value, t)))
            and t.keys == self.keys
            and learns(t) == self.wants_grad
            and t.inference == self.inference
            and (t.base is not None) == self.is_view
            and (t.grad_fn_ is None) == self.is_leaf
            and not (self.is_bare and has_attributes(t))
        )


@cython.cfunc
@cython.exceptval(check=False)
def is_resized(value: Value, t: Tensor) -> cython.bint:
    """Whether a tensor has another's type and as many dimensions, on the host as it."""
    return (
        t.dtype_ is value.dtype
        and t.ndim_ == value.ndim
        and t.wrapped_number == value.wrapped
        and t.storage.device is value.device
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def has_attributes(t: Tensor) -> cython.bint:
    """Whether a user has given a tensor attributes."""
    place: pp_object = _PyObject_GetDictPtr(t)
    return place[0] != cython.NULL and PyDict_Size(cython.cast(object, place[0])) > 0


@cython.final
@cython.cclass
class ModuleLook:
    """What a module was: its type, and for each attribute what is to be found there."""


@cython.cfunc
@cython.exceptval(-1)
def same_items(
    items: object, looks: list, known: list, found: pp_object
) -> cython.bint:
    """Whether a list or the values of a table are what they were."""
    i: cython.Py_ssize_t = 0
    if len(items) != len(looks):
        return False
    for item in items:
        kind, value = looks[i]
        if not same_one(item, kind, value, known, found):
            return False
        i += 1
    return True


@cython.cfunc
@cython.exceptval(-1)
def same_one(
    item: object, kind: cython.int, value: object, known: list, found: pp_object
) -> cython.bint:
    """Whether an object is what it was."""
    at: cython.int
    if kind == SAME:
        return item is value
    if kind == ONE:
        at = value
        if not isinstance(item, Tensor):
            return False
        if found[at] != cython.NULL:
            return found[at] == cython.cast(p_object, item)
        found[at] = cython.cast(p_object, item)
        return cython.cast(Known, known[at]).fits(cython.cast(Tensor, item))
    if kind == EMPTY:
        return not item
    if kind == OPEN:
        return type(item) is int
    if kind == EQUAL:
        return item is value or (type(item) is type(value) and item == value)
    if kind == LIST:
        return type(item) is list and same_items(item, value, known, found)
    if kind == ROW:
        return type(item) is tuple and same_items(item, value, known, found)
    if kind == RECORD:
        return same_module(item, cython.cast(ModuleLook, value), known, found)
    if kind == TABLE:
        return same_table(item, value, known, found)
    if kind == TREE:
        if type(item) is not dict:
            return False
        return same_tree(item, value, known, found)
    return True


@cython.cfunc
@cython.exceptval(-1)
def same_table(
    items: object, look: tuple, known: list, found: pp_object
) -> cython.bint:
    """Whether a table of tensors has the names that it had, and such tensors."""
    pos: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t = 0
    key: p_object = cython.NULL
    value: p_object = cython.NULL
    names: list = look[0]
    positions: list = look[1]
    at: cython.int
    if type(items) is not dict or PyDict_Size(items) != len(names):
        return False
    while PyDict_Next(
        items, cython.address(pos), cython.address(key), cython.address(value)
    ):
        if cython.cast(object, key) is not names[i]:
            return False
        at = positions[i]
        i += 1
        if at < 0:
            if cython.cast(object, value) is not None:
                return False
        elif not same_one(cython.cast(object, value), ONE, at, known, found):
            return False
    return True


@cython.cfunc
@cython.exceptval(-1)
def same_tree(items: object, look: tuple, known: list, found: pp_object) -> cython.bint:
    """Whether a table of modules has the names that it had, and such modules."""
    pos: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t = 0
    key: p_object = cython.NULL
    value: p_object = cython.NULL
    names: list = look[0]
    looks: list = look[1]
    if PyDict_Size(items) != len(names):
        return False
    while PyDict_Next(
        items, cython.address(pos), cython.address(key), cython.address(value)
    ):
        if cython.cast(object, key) is not names[i]:
            return False
        one = looks[i]
        i += 1
        if one is None:
            if cython.cast(object, value) is not None:
                return False
        elif not same_module(
            cython.cast(object, value), cython.cast(ModuleLook, one), known, found
        ):
            return False
    return True


@cython.cfunc
@cython.exceptval(-1)
def same_module(
    module: object, look: ModuleLook, known: list, found: pp_object
) -> cython.bint:
    """Whether a module is what one was, with all that is below it."""
    pos: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t = 0
    kind: cython.int
    key: p_object = cython.NULL
    value: p_object = cython.NULL
    if type(module) is not look.kind:
        return False
    fields: dict = PyObject_GenericGetDict(module, cython.NULL)
    if PyDict_Size(fields) != len(look.names):
        return False
    while PyDict_Next(
        fields, cython.address(pos), cython.address(key), cython.address(value)
    ):
        if cython.cast(object, key) is not look.names[i]:
            return False
        kind = look.kinds[i]
        if kind == SAME:
            if cython.cast(object, value) is not look.values[i]:
                return False
        elif kind != FREE and not same_one(
            cython.cast(object, value), kind, look.values[i], known, found
        ):
            return False
        i += 1
    return True


class Looking:
    """What there is to look at for one call: gathers it, or finds that it is too much."""

    def __init__(self):
        self.known: list = []
        self.tensors: list = []
        self.types: dict = {}
        self.words: set = set()  # strings that attributes may be found by
        self.depth = 0

    def tensor(self, t):
        """The number of a tensor."""
        for i, one in enumerate(self.tensors):
            if one is t:
                return i
        if len(self.tensors) >= TENSORS_MOST or not usable(t):
            raise Unproven("a tensor")
        self.tensors.append(t)
        self.known.append(known_of(t))
        self.types[type(t)] = True
        return len(self.tensors) - 1

    def one(self, item):
        """What an attribute is, and what it is compared with."""
        if isinstance(item, Tensor):
            return ONE, self.tensor(item)
        if type(item) is list:
            return LIST, [self.one(part) for part in item]
        if type(item) is tuple and not is_immutable(item):
            return ROW, [self.one(part) for part in item]
        if isinstance(item, FunctionType) and naming.is_own(item.__module__):
            return SAME, item
        if is_record(item):
            return RECORD, self.record(item)
        if not is_immutable(item):
            raise Unproven(f"an attribute of {type(item)}")
        if type(item) is str:
            self.words |= {item, item.lower(), f"{item.lower()}_cell"}
        return EQUAL if type(item) in (int, str) else SAME, item

    def record(self, item):
        """What an object of a user's is: its class, and each attribute."""
        look: ModuleLook = ModuleLook()
        self.depth += 1
        if self.depth > 30:
            raise Unproven("a deep object")
        self.types[type(item)] = True
        found = [(name, *self.one(value)) for name, value in vars(item).items()]
        look.kind = type(item)
        look.names, look.kinds, look.values = map(
            list, zip(*found) if found else [()] * 3
        )
        self.depth -= 1
        return look

    def module(self, module):
        """What a module and all below it are."""
        look: ModuleLook = ModuleLook()
        kind = type(module)
        forward = kind.forward
        home = getattr(forward, "__globals__", {}).get("__name__", "")
        if not naming.is_own(home):
            if not isinstance(forward, FunctionType):
                raise Unproven("a forward that is not written in Python")
            # once more with all that it calls after it has run; sooner costs less
            PlainCode(Names(()), is_immutable).function(forward)
        self.depth += 1
        if self.depth > 30:
            raise Unproven("a deep tree")
        self.types[kind] = True
        for base in kind.__mro__:
            for item in vars(base).values():
                if type(item) is str:
                    self.words.add(item)
        look.kind, look.names, look.kinds, look.values = kind, [], [], []
        for name, item in vars(module).items():
            kind, value = self.attribute(name, item)
            look.names.append(name)
            look.kinds.append(kind)
            look.values.append(value)
        self.depth -= 1
        return look

    def attribute(self, name, item):
        """What an attribute is, by its name."""
        if name in UNREAD:
            return FREE, None
        if name in _HOOKS:
            if item:
                raise Unproven("hooks")
            return EMPTY, None
        if name in ("_parameters", "_buffers"):
            positions = [-1 if t is None else self.tensor(t) for t in item.values()]
            return TABLE, (list(item), positions)
        if name == "_modules":
            looks = [None if m is None else self.module(m) for m in item.values()]
            return TREE, (list(item), looks)
        if name == "forward" or isinstance(item, Module):
            raise Unproven("a method of its own")
        return self.one(item)


def is_immutable(item):
    """Whether an object is always what it is now."""
    if type(item) is tuple:
        return all(map(is_immutable, item))
    return type(item) in _IMMUTABLE


def known_of(tensor):
    """What a tensor is."""
    t: Tensor = tensor
    known: Known = Known.__new__(Known)
    known.kind = type(tensor)
    known.value = value_of(t, -1)
    known.keys, known.wants_grad, known.inference = t.keys, learns(t), t.inference
    known.is_view = t.base is not None
    known.is_leaf = t.grad_fn_ is None
    known.slot = -1
    return known


def may_change(kind):
    """Whether a class can be given other attributes."""
    return kind.__flags__ & (_HEAP_TYPE | _IMMUTABLE_TYPE) == _HEAP_TYPE


@cython.cfunc
@cython.inline
def tag_of(kind: object) -> cython.uint:
    """The version of a class; 0 where it has none now."""
    return cython.cast(
        cython.pointer(PyTypeObject), cython.cast(p_object, kind)
    ).tp_version_tag


# -- segments -------------------------------------------------------------------------


@cython.final
@cython.cclass
class Segment:
    """The calls that a module's call adds to a path, and what they follow from."""

    @cython.cfunc
    @cython.exceptval(-1)
    def holds(self, module: object, args: tuple, found: pp_object) -> cython.bint:
        """Whether all that the call follows from is what it was."""
        i: cython.Py_ssize_t
        st: cython.pointer(ThreadState) = state()
        item: p_object
        call: Call
        if (
            st.excluded != self.excluded
            or st.inference_mode != self.inference
            or st.grad_mode != self.grad_mode
            or registrations() != self.registered
        ):
            return False
        for i in range(len(self.known)):
            found[i] = cython.NULL
        if not same_items(args, self.arguments, self.known, found):
            return False
        for i in range(len(self.types)):
            if tag_of(self.types[i]) != cython.cast(cython.uint, self.tags[i]):
                return False
        for i in range(len(self.positions)):
            names, name, value = cython.cast(tuple, self.positions[i])
            item = PyDict_GetItem(names, name)
            if item == cython.NULL:
                if value is not Unproven:
                    return False
            elif cython.cast(object, item) is not value:
                return False
        for i in range(len(self.functions)):
            function, facts = cython.cast(tuple, self.functions[i])
            if not same_function(function, facts):
                return False
        for i in range(len(self.cells)):
            cell, value = cython.cast(tuple, self.cells[i])
            if PyCell_GET(cell) != cython.cast(p_object, value):
                return False
        if not same_module(module, self.look, self.known, found):
            return False
        for i in range(len(self.calls)):
            call = cython.cast(Call, self.calls[i])
            if call.stops or call.barrier:
                return False
        return True

    @cython.cfunc
    @cython.exceptval(-1)
    def taken(self, tape: Tape, found: pp_object) -> cython.bint:
        """The same as `take`, while the tensors are held: a collection may run anything."""
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = len(self.known)
        for i in range(n):
            Py_XINCREF(found[i])
        try:
            return self.take(tape, found)
        finally:
            for i in range(n):
                Py_XDECREF(found[i])

    @cython.cfunc
    @cython.exceptval(-1)
    def take(self, tape: Tape, found: pp_object) -> cython.bint:
        """Adds the calls to the path; False, and nothing is added, where storages differ."""
        i: cython.Py_ssize_t
        number: cython.longlong
        storage: Storage
        known: Known
        t: Tensor
        fits: cython.bint = True
        if len(tape.slots) != self.first:
            return False
        for i in range(len(self.known)):
            known = cython.cast(Known, self.known[i])
            if 0 <= known.slot < self.first:
                t = cython.cast(Tensor, cython.cast(object, found[i]))
                if tape.find(t.storage) != known.slot:
                    return False
        for i in range(len(self.newcomers)):
            newcomer = self.newcomers[i]
            if type(newcomer) is tuple:
                storage = Storage.__new__(Storage)
                storage.n_bytes, storage.device = newcomer
                storage.can_resize = True
                tape.add(storage, True)
                continue
            number = newcomer
            t = cython.cast(Tensor, cython.cast(object, found[-1 - number]))
            if tape.find(t.storage) >= 0 or not usable(t) or tape.overlaps(t.storage):
                fits = False
                break
            tape.add(t.storage, False)
        if fits:
            for i in range(len(self.known)):
                known = cython.cast(Known, self.known[i])
                if known.slot >= self.first:
                    t = cython.cast(Tensor, cython.cast(object, found[i]))
                    if tape.find(t.storage) != known.slot:
                        fits = False
                        break
        if not fits:
            tape.drop(self.first)
            return False
        tape.calls.extend(self.calls)
        tape.params.extend(self.params)
        tape.at = self.last
        return True

    @cython.cfunc
    def given(self, tape: Tape, found: pp_object, args: tuple) -> object:
        """What the module's call gives, of calls that wait or are made again."""
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = len(self.known)
        if self.operator_trace is None:
            return self.made(tape, args)
        for i in range(n):
            Py_XINCREF(found[i])
        try:
            made = self.operator_trace.run(found)
        finally:
            for i in range(n):
                Py_XDECREF(found[i])
        return rebuilt(self.operator_trace.result, made, args)

    @cython.cfunc
    def made(self, tape: Tape, args: tuple) -> object:
        """What the module's call gives."""
        made: list = []
        value: Value
        t: Tensor
        base: cython.int
        for value, base, creation in self.objects:
            t = value.window(tape.slots[value.slot])
            if base >= 0:
                t.base = made[base]
                t.view_version = t.version()
                t.view_creation = creation
            made.append(t)
        return rebuilt(self.result, made, args)


@cython.cfunc
def rebuilt(details: object, made: list, args: tuple) -> object:
    """A result: a number of a tensor, of an argument (from -1 down), or a tuple of these."""
    number: cython.Py_ssize_t
    if type(details) is int:
        number = details
        return made[number] if number >= 0 else args[-1 - number]
    if details is None:
        return None
    parts: list = [rebuilt(one, made, args) for one in details]
    return parts if type(details) is list else tuple(parts)


class Results:
    """What a call gave, as it can be given again."""

    def __init__(self, tape, first, args):
        self.tape, self.first, self.args = tape, first, args
        self.objects: list = []
        self.numbers: dict = {}

    def details(self, result):
        """A number of `objects`, of an argument, or tuples and lists of those."""
        if result is None:
            return None
        if type(result) is tuple or type(result) is list:
            return type(result)([self.details(one) for one in result])
        if type(result) is not Tensor:
            raise Unproven("a result")
        for i, one in enumerate(self.args):
            if one is result:
                return -1 - i
        return self.tensor(result)

    def tensor(self, result):
        if id(result) in self.numbers:
            return self.numbers[id(result)]
        base = -1 if result._base is None else self.tensor(result._base)
        self.objects.append(object_of(self.tape, result, self.first, base))
        self.numbers[id(result)] = len(self.objects) - 1
        return len(self.objects) - 1


def object_of(tape: Tape, result, first, base):
    """A tensor that a segment makes: its window, its base, and how the view was made."""
    t: Tensor = result
    slot: cython.int = tape.find(t.storage)
    if slot < cython.cast(cython.int, first) or not tape.fresh[slot]:
        raise Unproven("a result on memory of somebody else's")
    value = value_of(t, slot)
    like: Tensor = value.window(t.storage)
    if (
        like.keys != t.keys
        or like.inference != t.inference
        or t.wants_grad
        or t.grad_fn_ is not None
        or t.version() != 0
        or type(result) is not Tensor
    ):
        raise Unproven("a result's look")
    return value, base, t.view_creation


@cython.cclass
class SegmentReplay(Follower):
    """Takes calls of modules: by a segment of the path, or as they come."""

    @cython.cfunc
    def other_size(self, tape: Tape, module: object, args: tuple) -> object:
        """What a call gives that differs from known ones by sizes, whose path waits."""
        return module.forward(*args)

    @cython.cfunc
    def call(self, module: object, fields: dict, args: tuple) -> object:
        tape: Tape = current()
        segment: Segment
        found = cython.declare(p_object[256])
        st: cython.pointer(ThreadState) = state()
        if (
            tape is None
            or tape.witnessed
            or tape.off
            or tape.noting
            or not tape.varies
            or tape.parts is not None
            or (st.grad_mode and st.anomaly)
            or st.modes
            or st.factory_device
            or st.forward_ad
            or st.included & ~_PROFILING != RECORDING
            or PyThreadState_Get().c_profilefunc != cython.NULL
            or PyThreadState_Get().c_tracefunc != cython.NULL
            or default_dtype() is not tape.default
            or switch_bits() != tape.chosen
        ):
            return module.forward(*args)
        at: Call = tape.at
        if at.segments is None:
            at.segments = {}
        kept: dict = at.segments
        key = item_key(
            cython.cast(uintptr_t, cython.cast(p_object, module)), args, False
        )
        entry: list = kept.get(key)
        i: cython.Py_ssize_t
        if entry is not None:
            for i in range(1, len(entry)):
                segment = entry[i]
                if segment.module() is not module:
                    entry = None  # another one was there before
                    break
                if not segment.holds(module, args, found):
                    continue
                if segment.operator_trace is not None or segment.taken(tape, found):
                    segment.times += 1
                    if i > 1:
                        entry.insert(1, entry.pop(i))
                    result = segment.given(tape, found, args)
                    if tape.exposed:
                        tape.flush(OUTSIDE)
                    return result
        if entry is None:
            result = self.other_size(tape, module, args)
            if not tape.off and not tape.noting:  # no size that waits, no new path
                if len(kept) >= _MET:
                    kept.clear()
                if at.untried > 0:
                    at.untried -= 1
                else:
                    kept[key] = [0]
            return result
        if at.untried > 0:
            at.untried -= 1
            return module.forward(*args)
        if (
            cython.cast(cython.int, entry[0]) >= _TRIES
            or "forward" in fields
            or not config.replay_modules
        ):
            return module.forward(*args)
        return witnessed(tape, module, args, entry)


@cython.cfunc
def witnessed(tape: Tape, module: object, args: tuple, entry: list) -> object:
    """Calls a module, and keeps the segment where it is proven what the call follows from."""
    root: Call = tape.root
    first: cython.int = len(tape.slots)
    count: cython.Py_ssize_t = len(tape.calls)
    params: cython.Py_ssize_t = len(tape.params)
    excluded: uint64_t = state().excluded
    inference: cython.bint = state().inference_mode
    looking = Looking()
    profiler = CodeProfiler()
    tries: cython.int = entry[0]
    operator_trace: OperatorTrace = None
    entry[0] = tries + _FAILED
    try:
        look = looking.module(module)
        arguments = [looking.one(one) for one in args]
        versions = [cython.cast(Tensor, t).version() for t in looking.tensors]
    except Unproven:
        entry[0] = _TRIES
        return module.forward(*args)
    if state().grad_mode:
        operator_trace = OperatorTrace(looking.tensors)
    result = looked_at(tape, module, args, profiler, operator_trace)
    if tape.noting:
        entry[0] = tries + 1  # it was on no path yet
        return result
    if (
        profiler.strange
        or tape.strayed
        or tape.off
        or tape.root is not root
        or (operator_trace is None and len(tape.calls) <= count)
        or state().excluded != excluded
        or state().inference_mode != inference
    ):
        return result
    try:
        if operator_trace is not None:
            operator_trace.finish(result, args)
        elif versions != [cython.cast(Tensor, t).version() for t in looking.tensors]:
            raise Unproven("arguments are written to")
        names = names_met(profiler, looking)
        made = segment_of(tape, module, looking, look, arguments, names, result, args)
        made.excluded, made.inference = excluded, inference
        made.operator_trace, made.calls = operator_trace, tape.calls[count:]
        if any([one.stops or one.barrier for one in made.calls]):
            raise Unproven("memory is looked at outside of operators")
        if operator_trace is None:
            made.params = tape.params[params:]
            keep_calls(made, tape, first, looking, result, args)
        else:
            made.calls = []
    except (Unproven, Stray):
        return result
    entry[0] = tries + 1
    entry.insert(1, made)
    del entry[1 + _KEPT :]
    return result


@cython.cfunc
def names_met(profiler: object, looking: object) -> object:
    """What the code that ran finds by name."""
    names = Names(looking.words)
    for code, home in profiler.codes.items():
        names.code(code, home)
    names.methods(looking.types, profiler.codes)
    if profiler.others:
        plain = PlainCode(names, is_immutable)
        plain.methods(looking.types, profiler.others)
        names.cells = plain.cells
        known: Known
        for known in looking.known:
            known.is_bare = True
    return names


@cython.cfunc
def looked_at(
    tape: Tape, module: object, args: tuple, profiler: object, operator_trace: object
) -> object:
    """Calls a module under a profile function; what it asks for is noted for a trace."""
    st: cython.pointer(ThreadState) = state()
    tape.witnessed = True
    tape.strayed = False
    if operator_trace is not None:
        tape.operator_trace = operator_trace
        st.included |= OPERATOR_TRACE
    sys.setprofile(profiler)
    try:
        return module.forward(*args)
    finally:
        sys.setprofile(None)
        st.included &= ~cython.cast(uint64_t, OPERATOR_TRACE)
        tape.operator_trace = None
        tape.witnessed = False


@cython.cfunc
def keep_calls(
    made: Segment, tape: Tape, first: cython.int, looking: object, result, args: tuple
):
    """Keeps the calls of a segment that leaves nothing but them."""
    made.first = first
    made.last = tape.at
    made.newcomers = newcomers(tape, first, looking)
    refuse_writes(made.calls, first, tape)
    results = Results(tape, first, args)
    made.result = results.details(result)
    made.objects = results.objects


@cython.cfunc
def segment_of(
    tape: Tape,
    module: object,
    looking: object,
    look: ModuleLook,
    arguments: list,
    names: object,
    result: object,
    args: tuple,
) -> Segment:
    """A segment with what it follows from."""
    made: Segment = Segment.__new__(Segment)
    found = cython.declare(p_object[256])
    i: cython.Py_ssize_t
    known: Known
    t: Tensor
    made.module = ref(module)
    made.look, made.known, made.arguments = look, looking.known, arguments
    made.positions = list(names.positions.values())
    made.functions = list(names.functions.items())
    made.cells = names.cells
    made.types = [kind for kind in looking.types | names.types if may_change(kind)]
    for kind in made.types:
        getattr(kind, "no attribute", None)  # a look gives it a version
    made.tags = [tag_of(kind) for kind in made.types]
    made.registered = registrations()
    made.grad_mode = state().grad_mode
    for i in range(len(made.known)):
        known = made.known[i]
        t = looking.tensors[i]
        known.slot = tape.find(t.storage)
        found[i] = cython.NULL
    if not all(made.tags):
        raise Unproven("a class without a version")
    if not same_items(args, arguments, made.known, found) or not same_module(
        module, look, made.known, found
    ):
        raise Unproven("the call changed its module")
    for i in range(len(made.known)):
        if cython.cast(object, found[i]) is not looking.tensors[i]:
            raise Unproven("the call gave its module another tensor")
    return made


@cython.cfunc
def newcomers(tape: Tape, first: cython.int, looking: object) -> list:
    """For each new storage its bytes and device, if a call makes it, or whose it is."""
    found: list = []
    slot: cython.int
    storage: Storage
    for slot in range(first, len(tape.slots)):
        storage = tape.slots[slot]
        if tape.fresh[slot]:
            found.append((storage.n_bytes, storage.device))
            continue
        for i, t in enumerate(looking.tensors):
            if cython.cast(Tensor, t).storage is storage:
                found.append(-1 - i)
                break
        else:
            raise Unproven("a tensor from elsewhere")
    return found


@cython.cfunc
def refuse_writes(calls: list, first: cython.int, tape: Tape):
    """Calls of a segment write to nothing that was there before."""
    one: Call
    for one in calls:
        for part in [one] if one.parts is None else one.parts:
            for value in step_of(part).writes:
                slot: cython.int = value.slot
                if slot < first or slot < len(tape.slots) and not tape.fresh[slot]:
                    raise Unproven("it writes to what was there before")


operator_traces.serve()
