"""Follows the operators of a compiled function, below autograd.

The first call with some operands runs operator by operator; each is noted with what it
was given and what it gave: sizes, strides, types, which memory. Calls that follow a
noted path make their results without memory, and nothing runs until an element is
needed or the function ends. What is run then is a program made for the path
(`rushlight.programs.steps`), from the second time on.

Nothing is proved about the Python around the operators, as all of it runs each time. A
call that leaves the path makes what is waiting run, and notes a new branch.
"""

from __future__ import annotations

import threading

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.pythread import PyThread_get_thread_ident
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.rushlight.backends.cpu.launch import launched
from cython.cimports.rushlight.core.device import CPU_DEVICE
from cython.cimports.rushlight.core.dtype import default_dtype
from cython.cimports.rushlight.core.keys import (
    KEY_ABSENT,
    KEY_ADINPLACEORVIEW,
    KEY_AUTOGRAD,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.storage import Storage
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import Kernel, Operator
from cython.cimports.rushlight.dispatch.kernels import PointwiseKernel
from cython.cimports.rushlight.programs.tape import (
    ARGUMENT,
    CONSTANT,
    FRESH,
    NOTHING,
    NUMBER,
    TENSOR,
    TENSORS,
    WINDOW,
    Call,
    Tape,
    Value,
    fill_rest,
    usable,
    value_of,
)

from rushlight.core.state import on_reading
from rushlight.dispatch.dispatcher import serve_all
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.python_kernels import LazyKernel

KEY_RECORDING = cython.declare(cython.int, 7)  # DispatchKey.Recording
LISTENING = cython.declare(cython.int, 45)  # no operator answers to it
_ONE = cython.declare(uint64_t, 1)
_RECORDING = cython.declare(uint64_t, _ONE << KEY_RECORDING)
_LISTENING = cython.declare(uint64_t, _ONE << LISTENING)
_BELOW = cython.declare(
    uint64_t, (_ONE << KEY_AUTOGRAD) | (_ONE << KEY_ADINPLACEORVIEW)
)
_ABSENT = cython.declare(uint64_t, _ONE << KEY_ABSENT)
_BACKENDS = cython.declare(uint64_t, 0x7F)
_CPU = cython.declare(uint64_t, 1)
_CHILDREN = cython.declare(cython.Py_ssize_t, 32)  # branches of one call, at most
_SPARE = cython.declare(list, [])  # a tape that nobody uses
_TAPES = cython.declare(dict, {})  # thread -> its tape
_tape = cython.declare(Tape, None)  # the one that was asked for last
_thread = cython.declare(cython.ulong, 0)
OUTSIDE = "memory is used outside of operators"
# They look at elements, but what they give has sizes of its own.
_FIXED = ("native_batch_norm", "native_layer_norm", "native_group_norm", "convolution")
_WAITS = cython.declare(dict, {})  # operator -> whether its floats may vary

# -- following -------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def same_constant(a: object, b: object) -> cython.bint:
    """Whether a constant is the noted one: of the same type, and equal."""
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        a, b = tuple(a), tuple(b)  # sizes are a type of their own
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return a == b and (a != 0 or str(a) == str(b))
    if type(a) is list or type(a) is tuple:
        if len(a) != len(b):
            return False
        for one, other in zip(a, b):
            if not same_constant(one, other):
                return False
        return True
    if type(a) is int or type(a) is bool or type(a) is str or type(a) is complex:
        return a == b
    try:
        return bool(a == b)
    except Exception:  # whatever it is, it does not compare
        return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def same_tensor(tape: Tape, v: Value, item: object) -> cython.bint:
    """Whether an argument is the noted window on the noted storage."""
    t: Tensor
    slot: cython.int
    if not isinstance(item, Tensor):
        return False
    t = cython.cast(Tensor, item)
    if not v.fits(t):
        return False
    slot = tape.find(t.storage)
    if slot < 0:
        if v.slot != len(tape.slots) or not usable(t):
            return False
        tape.add(t.storage, False)
        return True
    return slot == v.slot


@cython.cfunc
@cython.exceptval(-1, check=False)
def matches(
    tape: Tape,
    call: Call,
    op: Operator,
    slots: cython.pointer(cython.pointer(PyObject)),
) -> cython.bint:
    """Whether a call is the noted one; its inputs have their numbers then."""
    i: cython.int
    j: cython.Py_ssize_t
    count: cython.int = len(tape.slots)
    params: cython.Py_ssize_t = len(tape.params)
    fits: cython.bint = True
    if call.op is not op:
        return False
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        noted = call.values[i]
        if call.kinds[i] == CONSTANT:
            if item is not noted and (
                isinstance(item, Tensor) or not same_constant(item, noted)
            ):
                fits = False
                break
        elif call.kinds[i] == TENSOR:
            if not same_tensor(tape, cython.cast(Value, noted), item):
                fits = False
                break
        elif call.kinds[i] == NUMBER:
            if type(item) is not float:
                fits = False
                break
            tape.params.append(item)
        else:
            if not isinstance(item, (list, tuple)) or len(item) != len(noted):
                fits = False
                break
            for j in range(len(noted)):
                one = noted[j]
                if isinstance(one, Value):
                    if not same_tensor(tape, cython.cast(Value, one), item[j]):
                        fits = False
                        break
                elif isinstance(item[j], Tensor) or not same_constant(item[j], one):
                    fits = False
                    break
            if not fits:
                break
    if not fits:
        tape.drop(count)
        del tape.params[params:]
    return fits


@cython.cfunc
def made(
    tape: Tape, call: Call, slots: cython.pointer(cython.pointer(PyObject))
) -> object:
    """The results of a call that has not run: sizes, but no memory."""
    storage: Storage
    kind: cython.int
    i: cython.int
    v: Value
    pair: tuple
    results: list = None
    item: object = None
    if call.lone:
        storage = Storage.__new__(Storage)
        storage.device = CPU_DEVICE
        storage.n_bytes = call.sizes[0]
        storage.can_resize = True
        tape.add(storage, True)
        pair = call.results[0]
        v = pair[1]
        return v.window(storage)
    for i in range(len(call.sizes)):
        storage = Storage.__new__(Storage)
        storage.device = CPU_DEVICE
        storage.n_bytes = call.sizes[i]
        storage.can_resize = True
        tape.add(storage, True)
    if call.shape is not None:
        results = []
    for i in range(len(call.results)):
        pair = call.results[i]
        kind = pair[0]
        if kind <= WINDOW:
            v = pair[1]
            item = v.window(tape.slots[v.slot])
        elif kind == ARGUMENT:
            item = argument(slots, pair[1])
        else:
            item = None
        if results is None:
            return item
        results.append(item)
    return tuple(results) if call.shape is tuple else results


@cython.cfunc
def argument(slots: cython.pointer(cython.pointer(PyObject)), place: object) -> object:
    """An argument by its number, or by that of a list and the place in it."""
    pair: tuple
    number: cython.int
    if type(place) is tuple:
        pair = place
        number = pair[0]
        return cython.cast(object, slots[number])[pair[1]]
    number = place
    return cython.cast(object, slots[number])


# -- noting ----------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(-1, check=False)
def floats_vary(op: Operator) -> cython.bint:
    """Whether floats among an operator's arguments change values only, not shapes."""
    found = _WAITS.get(op)
    if found is None:
        kernel = op.kernels.get(0)
        if isinstance(kernel, LazyKernel):
            kernel = kernel.load(op)
        found = isinstance(kernel, PointwiseKernel) or op.name.startswith(
            ("_foreach_", "_fused_", "addcmul", "addcdiv", "lerp")
        )
        _WAITS[op] = found
    return found


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_static(op: Operator, i: cython.int) -> cython.bint:
    """Whether a kernel of the operator is compiled for one value of an argument."""
    kernel = op.kernels.get(0)
    if isinstance(kernel, LazyKernel):
        kernel = kernel.load(op)
    if isinstance(kernel, PointwiseKernel):
        return i in cython.cast(PointwiseKernel, kernel).static_positions
    return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def sizes_hang_on_elements(
    op: Operator, slots: cython.pointer(cython.pointer(PyObject))
) -> cython.bint:
    """Whether results may have other sizes next time; so of operators from outside."""
    if not op.entry or "data_dependent" in op.entry[12]:
        return True
    base: str = op.base_name()
    if base == "repeat_interleave":
        return True
    if base != "index" and base != "_unsafe_index":
        return False
    for item in cython.cast(object, slots[1]):
        if isinstance(item, Tensor) and cython.cast(Tensor, item).dtype_.itemsize == 1:
            return True  # a mask
    return False


@cython.cfunc
def noted(
    tape: Tape, op: Operator, slots: cython.pointer(cython.pointer(PyObject))
) -> Call:
    """A call as it is before it runs; None where it has no place on a path."""
    call: Call = Call()
    i: cython.int
    call.op = op
    call.keys = _CPU
    call.values = []
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        call.kinds[i] = CONSTANT
        if isinstance(item, Tensor):
            item = noted_tensor(tape, item)
            if item is None:
                return None
            call.kinds[i] = TENSOR
        elif (
            type(item) is float
            and tape.varies
            and floats_vary(op)
            and not is_static(op, i)
        ):
            call.kinds[i] = NUMBER
            tape.params.append(item)
            item = len(tape.params) - 1
        elif isinstance(item, (list, tuple)):
            tensors: cython.bint = False
            copied: list = []
            for element in item:
                if isinstance(element, Tensor):
                    tensors = True
                    element = noted_tensor(tape, element)
                    if element is None:
                        return None
                copied.append(element)
            if tensors:
                call.kinds[i] = TENSORS
            item = copied if type(item) is list else tuple(copied)
        call.values.append(item)
    return call


@cython.cfunc
def noted_tensor(tape: Tape, t: Tensor) -> Value:
    """A tensor argument's window; None where it is of no kind that can wait."""
    slot: cython.int
    if not usable(t):
        return None
    slot = tape.find(t.storage)
    if slot < 0:
        slot = tape.add(t.storage, False)
    return value_of(t, slot)


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_results(
    tape: Tape,
    call: Call,
    op: Operator,
    slots: cython.pointer(cython.pointer(PyObject)),
    result: object,
) -> cython.bint:
    """What a call gave; False where it has no place on a path."""
    t: Tensor
    items: object = (result,)
    slot: cython.int
    call.shape = None
    if type(result) is tuple or type(result) is list:
        call.shape = type(result)
        items = result
    elif isinstance(result, tuple):
        return False
    call.first = len(tape.slots)
    call.results = []
    call.sizes = []
    for item in items:
        if item is None:
            call.results.append((NOTHING, None))
            continue
        if not isinstance(item, Tensor):
            return False
        place = find_argument(op, slots, item)
        if place is not None:
            call.results.append((ARGUMENT, place))
            continue
        t = item
        if not usable(t) or type(item) is not Tensor:
            return False
        slot = tape.find(t.storage)
        if slot >= 0:
            kind = FRESH if slot >= call.first else WINDOW
            call.results.append((kind, value_of(t, slot)))
            continue
        if t.storage.n_bytes and not t.storage.capacity:
            return False  # memory that belongs to someone else
        slot = tape.add(t.storage, True)
        call.sizes.append(t.storage.n_bytes)
        call.results.append((FRESH, value_of(t, slot)))
    call.lone = call.shape is None and len(call.sizes) == 1
    return True


@cython.cfunc
def find_argument(
    op: Operator, slots: cython.pointer(cython.pointer(PyObject)), t: object
) -> object:
    """Which argument a result is."""
    i: cython.int
    j: cython.int
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        if item is t:
            return i
        if isinstance(item, (list, tuple)):
            j = 0
            for element in item:
                if element is t:
                    return (i, j)
                j += 1
    return None


@cython.cfunc
@cython.exceptval(-1, check=False)
def keeps_looks(
    tape: Tape, call: Call, slots: cython.pointer(cython.pointer(PyObject))
) -> cython.bint:
    """Whether all tensors that were passed look as before, on the same memory."""
    i: cython.int
    v: Value
    t: Tensor
    for i in range(call.op.n_args):
        if call.kinds[i] == TENSOR:
            v = call.values[i]
            t = cython.cast(object, slots[i])
            if not v.fits(t) or tape.find(t.storage) != v.slot:
                return False
        elif call.kinds[i] == TENSORS:
            for noted_item, item in zip(call.values[i], cython.cast(object, slots[i])):
                if isinstance(noted_item, Value):
                    v = noted_item
                    t = item
                    if not v.fits(t) or tape.find(t.storage) != v.slot:
                        return False
    return True


@cython.final
@cython.cclass
class RecordingKernel(Kernel):
    """Follows each operator, or runs it and notes what it did."""

    @cython.cfunc
    def run(
        self,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        tape: Tape = current()
        call: Call
        one: Call
        parent: Call
        result: object
        if tape is None or (op.is_view and not op.view_or_copy) or tape.off:
            return past(op, slots, keys)
        if (keys & _BACKENDS) != _CPU or keys & _ABSENT:
            if keys & _CPU:
                tape.flush("an operator on several devices")
            return past(op, slots, keys)
        if default_dtype() is not tape.default:
            tape.flush("another default type")
            begin_path(tape)
        if not tape.noting:
            parent = tape.at
            call = parent.last
            if call is None or not matches(tape, call, op, slots):
                call = None
                for one in parent.children:
                    if one is not parent.last and matches(tape, one, op, slots):
                        call = one
                        parent.last = one
                        break
            if call is not None:
                if call.barrier:
                    return self.stop(tape, call, op, slots, keys)
                tape.calls.append(call)
                tape.at = call
                if not call.stops:
                    return made(tape, call, slots)
                result = made(tape, call, slots)
                tape.flush(OUTSIDE)
                return result
            if len(parent.children) >= _CHILDREN:
                tape.owner.overflowed(parent)
                tape.flush(None)
                tape.off = True
                return past(op, slots, keys)
            if len(tape.calls):
                self.leave(tape)
            tape.loosen()
        return self.note(tape, op, slots, keys)

    @cython.cfunc
    def leave(self, tape: Tape) -> object:
        """Runs what waits on a path that is left; its storages keep their numbers."""
        st: cython.pointer(ThreadState) = state()
        before: uint64_t = st.included
        excluded: uint64_t = st.excluded
        modes: cython.int = st.modes
        st.included = 0
        st.excluded = excluded | _BELOW
        st.modes = 0
        try:
            while tape.done < len(tape.calls):
                tape.execute(cython.cast(Call, tape.calls[tape.done]))
                tape.done += 1
        except BaseException:
            fill_rest(tape)
            tape.at = tape.at.continued()
            tape.root = tape.at
            tape.clear()
            raise
        finally:
            st.included = before
            st.excluded = excluded
            st.modes = modes
        if tape.owner is not None:
            tape.owner.branched(tape.at)

    @cython.cfunc
    def stop(
        self,
        tape: Tape,
        call: Call,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        """An operator that is known to look at elements."""
        tape.flush(str(op))
        tape.at = tape.root = call
        return past(op, slots, keys)

    @cython.cfunc
    def note(
        self,
        tape: Tape,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        """Runs an operator that no path has, and notes it."""
        st: cython.pointer(ThreadState) = state()
        before: uint64_t = st.included
        if launched() != tape.launches and tape.calls:
            # kernels ran since, and no operator ran them: they want memory to be there
            tape.at.stops = True
            tape.flush(OUTSIDE)
            tape.loosen()
        parent: Call = tape.at
        call: Call = noted(tape, op, slots)
        good: cython.bint = False
        result: object
        if call is None:
            tape.flush(str(op))
            return past(op, slots, keys)
        tape.heard = False
        st.included = (before & ~_RECORDING) | _LISTENING
        try:
            result = op.run(slots, keys & ~_RECORDING)
            good = True
        finally:
            st.included = before
            if not good:  # an error: the path ends here
                tape.flush(None)
        if (
            (tape.heard and not op.name.startswith(_FIXED))
            or sizes_hang_on_elements(op, slots)
            or not keeps_looks(tape, call, slots)
            or not note_results(tape, call, op, slots, result)
        ):
            call.barrier = True
        call.parent = parent
        call.depth = parent.depth + 1
        parent.children.append(call)
        parent.last = call
        tape.owner.noted(call)
        if call.barrier:
            tape.flush(str(op))
            tape.at = tape.root = call
            return result
        tape.calls.append(call)
        tape.done = len(tape.calls)
        tape.at = call
        tape.launches = launched()
        return result


@cython.cfunc
def past(
    op: Operator, slots: cython.pointer(cython.pointer(PyObject)), keys: uint64_t
) -> object:
    """Runs an operator as if nobody followed it."""
    st: cython.pointer(ThreadState) = state()
    before: uint64_t = st.included
    st.included = before & ~_RECORDING
    try:
        return op.run(slots, keys & ~_RECORDING)
    finally:
        st.included = before


# -- threads ---------------------------------------------------------------------------


@cython.cfunc
def current() -> Tape:
    """This thread's tape, or None."""
    global _tape, _thread
    thread: cython.ulong = PyThread_get_thread_ident()
    if thread == _thread:
        return _tape
    found: Tape = _TAPES.get(thread)
    _tape = found
    _thread = thread
    return found


@cython.cfunc
def begin_path(tape: Tape):
    """The root of the paths under the current default type."""
    tape.default = default_dtype()
    roots: dict = tape.owner.roots
    root = roots.get(tape.default)
    if root is None:
        root = roots[tape.default] = Call()
    tape.at = tape.root = root


def begin(owner):
    """Has this thread's operators followed from here on.

    Args:
        owner: has ``roots``, ``build``, ``ended``, ``noted``, ``branched`` and
            ``overflowed``; see `rushlight.programs.running`.

    Returns:
        What `end` wants; None where operators are followed already.
    """
    global _tape, _thread
    st: cython.pointer(ThreadState) = state()
    thread: cython.ulong = PyThread_get_thread_ident()
    if st.included & (_RECORDING | _LISTENING) or thread in _TAPES:
        return None
    tape: Tape = _SPARE.pop() if _SPARE else Tape()
    tape.off = False
    tape.heard = False
    tape.owner = owner
    tape.varies = owner.backend is None
    begin_path(tape)
    _TAPES[thread] = tape
    _tape = tape
    _thread = thread
    st.included |= _RECORDING
    return tape


def end(tape: Tape, why="the function ends"):
    """Runs what waits, and has operators run as they come again."""
    global _tape, _thread
    thread: cython.ulong = PyThread_get_thread_ident()
    if tape.noting and tape.calls and launched() != tape.launches:
        tape.at.stops = True
    try:
        tape.flush(why)
    finally:
        state().included &= ~_RECORDING
        _TAPES.pop(thread, None)
        _tape = None
        _thread = thread
        tape.clear()
        tape.at = tape.root = None
        tape.owner = None
        if not _SPARE:
            _SPARE.append(tape)


def noted_storages():
    """The storages of the path that this thread has noted, and what is wanted of each.

    None where no path is noted; see `rushlight.programs.steps.Graph`.
    """
    tape: Tape = current()
    i: cython.int
    if tape is None or not tape.noting:
        return None
    found: bytearray = bytearray(len(tape.slots))
    for i in range(len(tape.slots)):
        if tape.fresh[i]:
            found[i] = 1 if tape.slots[i]() is None else 2
    return [ref() for ref in tape.slots], bytes(found)


def last_leaf(tape: Tape):
    """Where the path of a tape has come to."""
    return tape.at


def flush(why="asked for"):
    """Runs what waits in this thread, if anything does."""
    tape: Tape = current()
    if tape is not None:
        tape.flush(why)


def is_following() -> bool:
    """Whether this thread's operators are followed."""
    return (state().included & _RECORDING) != 0


def pause() -> bool:
    """Runs what waits, and has operators run as they come; whether they were followed."""
    st: cython.pointer(ThreadState) = state()
    if not st.included & _RECORDING:
        return False
    current().flush("a part that is not compiled")
    st.included &= ~_RECORDING
    return True


def resume():
    """Follows operators again after `pause`."""
    state().included |= _RECORDING


@cython.cfunc
def read_now():
    """Someone looks at an element, or at an address."""
    tape: Tape = current()
    if tape is None:
        return
    if state().included & _LISTENING:
        tape.heard = True
    elif tape.done < len(tape.calls) or tape.at is not tape.root:
        tape.flush("an element is read")


def _read(t):
    read_now()


_serving = cython.declare(cython.bint, False)
_lock = threading.Lock()


def serve():
    """Has all operators answer to the key; called once, when the first function is compiled."""
    global _serving
    with _lock:
        if not _serving:
            serve_all(DispatchKey.Recording, RecordingKernel())
            on_reading(_read)
            _serving = True
