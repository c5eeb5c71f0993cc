"""Follows the operators of a compiled function, below autograd.

The first call with some operands runs operator by operator; each is noted with what it
was given and what it gave: sizes, strides, types, which memory. Calls that follow a
noted path make their results without memory, and nothing runs until an element is
needed or the function ends. What is run then is a program made for the path
(`rushlight.graph.steps`), from the second time on.

Nothing is proved here about the Python around the operators, as it runs each time, but
for that of modules whose trace is known (`rushlight.graph.module_replay`). A call that
leaves the path makes what is waiting run, and notes a new branch.
"""

from __future__ import annotations

import sys
import threading

import cython
from cython.cimports.cpython.pythread import PyThread_get_thread_ident
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.rushlight.autograd.node import Formulas, set_formulas
from cython.cimports.rushlight.core._python import pp_object
from cython.cimports.rushlight.core.dtype import default_dtype
from cython.cimports.rushlight.core.keys import (
    BELOW_AUTOGRAD,
    KEY_ABSENT,
    KEY_LISTENING,
    KEY_PROFILING,
    MEMORY_BITS,
    RECORDING,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.storage import Storage
from cython.cimports.rushlight.core.switches import switch_bits
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import Kernel, Operator, replacements
from cython.cimports.rushlight.dispatch.python_kernels import PythonKernel
from cython.cimports.rushlight.graph.call_matching import (
    add_branch,
    branch_of,
    count_of,
    is_admitted,
    matches,
    set_key,
    waits_with_others,
)
from cython.cimports.rushlight.graph.call_trace import (
    any_wants,
    draws,
    drops,
    fills,
    has_known_sizes,
    keep_roots,
    keep_view,
    keeps_looks,
    loaded,
    may_be_one,
    may_be_parts,
    never_one,
    note_results,
    noted,
    sizes_hang_on_elements,
    writes_given,
)
from cython.cimports.rushlight.graph.compiled_call import most_of
from cython.cimports.rushlight.graph.open_sizes import PASSES, open_branch
from cython.cimports.rushlight.graph.tape import (
    ARGUMENT,
    OPERATOR_TRACE,
    WINDOW,
    Call,
    Owner,
    Tape,
    Value,
    asks,
    fill_rest,
    followed,
)
from cython.cimports.rushlight.runtime.cpu.launch import launched

from rushlight.core import naming
from rushlight.core.device import current_cuda_index
from rushlight.core.state import on_launching, on_reading
from rushlight.core.storage import count_following, on_missing_memory
from rushlight.dispatch.declared import BLANK
from rushlight.dispatch.dispatcher import before_replacing, serve_all
from rushlight.dispatch.dispatcher import forget as forget_operator
from rushlight.dispatch.keys import DispatchKey

_ONE = cython.declare(uint64_t, 1)
_LISTENING = cython.declare(uint64_t, _ONE << KEY_LISTENING)
_ABSENT = cython.declare(uint64_t, _ONE << KEY_ABSENT)
_PROFILING = cython.declare(uint64_t, _ONE << KEY_PROFILING)
_OPERATOR_TRACE = cython.declare(uint64_t, OPERATOR_TRACE)
_CPU = cython.declare(uint64_t, 1)
_TRIES = cython.declare(cython.int, 3)  # of a composition at one place
_FORMULAS = cython.declare(dict, {})  # formula -> what stands for it on paths
_SPARE = cython.declare(list, [])  # a tape that nobody uses
_TAPES = cython.declare(dict, {})  # thread -> its tape
_tape = cython.declare(Tape, None)  # the one that was asked for last
_thread = cython.declare(cython.ulong, 0)
# Calls of modules behind a branch that is not the first one run their Python as often
# before it is proven: sizes that come once or twice are not worth it.
_PUT_OFF = cython.declare(cython.int, 6)
# Calls that end at one place before it is asked whether following them pays, and how many run
# as they come where it does not.
_ASKED = cython.declare(cython.int, 64)
_PASSED = cython.declare(cython.int, 1024)
OUTSIDE = "memory is used outside of operators"
OTHER_THREAD = "another thread reads an element"
_PARTS = cython.declare(cython.Py_ssize_t, 2000)  # of one call, at most

# -- following -------------------------------------------------------------------------


@cython.cfunc
def made(tape: Tape, call: Call, slots: pp_object) -> object:
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
        storage.device = call.device
        storage.n_bytes = call.sizes[0]
        storage.can_resize = True
        tape.add(storage, True)
        pair = call.results[0]
        v = pair[1]
        return shown(v, storage, slots)
    for i in range(len(call.sizes)):
        storage = Storage.__new__(Storage)
        storage.device = call.device
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
            item = shown(v, tape.slots[v.slot], slots)
        elif kind == ARGUMENT:
            item = argument(slots, pair[1])
        else:
            item = None
        if results is None:
            return item
        results.append(item)
    return tuple(results) if call.shape is tuple else results


@cython.cfunc
def taken(tape: Tape, call: Call, slots: pp_object) -> object:
    """The results of the next call of the path, which has not run unless memory is shown."""
    tape.calls.append(call)
    tape.at = call
    result: object = made(tape, call, slots)
    if call.stops or tape.exposed:
        tape.flush(OUTSIDE)
    return result


@cython.cfunc
@cython.inline
def shown(v: Value, storage: Storage, slots: pp_object) -> Tensor:
    """A result on its storage, and what it is a view of."""
    t: Tensor = v.window(storage)
    root: Tensor
    if v.root is not None:
        t.base = v.root.window(storage)
    elif v.of is not None:
        root = cython.cast(object, slots[cython.cast(cython.int, v.of)])
        t.base = root if root.base is None else root.base
    else:
        return t
    t.view_version = t.version()
    t.view_creation = v.creation
    return t


@cython.cfunc
def argument(slots: pp_object, place: object) -> object:
    """An argument by its number, or by that of a list and the place in it."""
    pair: tuple
    number: cython.int
    if type(place) is tuple:
        pair = place
        number = pair[0]
        return cython.cast(object, slots[number])[pair[1]]
    number = place
    return cython.cast(object, slots[number])


@cython.cfunc
@cython.exceptval(-1, check=False)
def stop_at_launches(tape: Tape) -> cython.int:
    """Ends the path where kernels ran since that no operator ran: they want memory."""
    if launched() != tape.launches and tape.calls:
        tape.at.stops = True
        tape.flush(OUTSIDE)
        tape.loosen()
    return 0


@cython.final
@cython.cclass
class RecordingKernel(Kernel):
    """Follows each operator, or runs it and notes what it did."""

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        tape: Tape = current()
        if op.composite is not None:
            if tape is None:
                return op.composite.run(op, slots, 0)
            return self.compose(tape, op, slots, keys)
        if op.n_args > 1 and slots[0] == slots[1] and op.name == "copy_":
            # it does nothing, and is refused of two tensors that show the same elements
            return cython.cast(object, slots[0])
        if tape is None or (op.is_view and not op.view_or_copy) or tape.off:
            result = past(op, slots, keys)
            if tape is not None and tape.views is not None and op.is_view:
                keep_view(tape, op, slots, result)
            return result
        if tape.parts is not None:
            return self.note_part(tape, op, slots, keys)
        if not followed(keys) or keys & _ABSENT:
            tape.strayed = True
            if asks(keys & MEMORY_BITS):
                tape.flush("an operator on several devices")
            return past(op, slots, keys)
        return self.follow(tape, op, slots, keys, 0)

    @cython.cfunc
    def follow(
        self,
        tape: Tape,
        op: Operator,
        slots: pp_object,
        keys: uint64_t,
        switches: cython.int,
    ) -> object:
        """Makes what the noted call gave, or notes the call."""
        call: Call
        parent: Call
        if default_dtype() is not tape.default or switch_bits() != tape.chosen:
            tape.flush("another default type, or another switch of the process")
            begin_path(tape)
        elif replacements() != tape.replaced:
            tape.flush("another kernel")
            begin_path(tape)
        if not tape.noting:
            parent = tape.at
            call = parent.last
            if (
                call is None
                or call.switches != switches
                or not matches(tape, call, op, slots)
            ):
                call = branch_of(tape, op, slots, switches)
            if call is not None:
                if call.barrier:
                    return self.stop(tape, call, op, slots, keys)
                if parent.seen is not None and waits_with_others(tape, parent, call):
                    return self.go_past(tape, op, slots, keys)
                return taken(tape, call, slots)
            if op.composite is not None and count_of(tape, op) >= _TRIES:
                return op.composite.run(op, slots, 0)
            if tape.owner.families:
                call = open_branch(tape, op, slots, switches)
                if call is PASSES:
                    return self.go_past(tape, op, slots, keys)
                if call is not None:
                    return taken(tape, call, slots)
            admitted: cython.int = 0
            if not tape.owner.refuses():
                admitted = is_admitted(tape, op, slots)
            if not admitted:
                return self.go_past(tape, op, slots, keys)
            if len(parent.children) and admitted == 1:
                tape.owner.branched(parent, op, given(op, slots))
            if len(tape.calls):
                self.leave(tape)
            tape.loosen()
        else:
            set_key(tape, op, slots, switches)
        if op.composite is not None:
            return self.note_composite(tape, op, slots, keys, switches)
        return self.note(tape, op, slots, keys)

    @cython.cfunc
    def go_past(
        self, tape: Tape, op: Operator, slots: pp_object, keys: uint64_t
    ) -> object:
        """Runs an operator that is not noted, and those after it as if nobody followed."""
        tape.flush(None)
        tape.off = True
        state().included &= ~RECORDING
        if tape.views is None:
            forget_tape()
        if op.composite is not None:
            return op.composite.run(op, slots, 0)
        return op.run(slots, keys & ~RECORDING)

    @cython.cfunc
    def compose(
        self, tape: Tape, op: Operator, slots: pp_object, keys: uint64_t
    ) -> object:
        """A composition: one call of the path where nothing is recorded, else its parts."""
        st: cython.pointer(ThreadState) = state()
        switches: cython.int = 1 + st.grad_mode + 2 * st.inference_mode
        if (
            tape.off
            or tape.parts is not None
            or st.modes
            or st.factory_device
            or st.included & ~_PROFILING & ~_OPERATOR_TRACE != RECORDING
            or st.excluded & ~BELOW_AUTOGRAD
            or not followed(keys)
            or keys & ~(BELOW_AUTOGRAD | MEMORY_BITS | RECORDING | _OPERATOR_TRACE)
            or not may_be_one(op)
            or drops(op, slots)
            or (st.grad_mode and any_wants(op, slots))
        ):
            return op.composite.run(op, slots, 0)
        if st.excluded & BELOW_AUTOGRAD:
            switches += 4
        if tape.operator_trace is None:
            return self.follow(tape, op, slots, keys, switches)
        call = tape.operator_trace.begin(op, slots)
        result = self.follow(tape, op, slots, keys, switches)
        tape.operator_trace.end(call, slots, result)
        return result

    @cython.cfunc
    def note_composite(
        self,
        tape: Tape,
        op: Operator,
        slots: pp_object,
        keys: uint64_t,
        switches: cython.int,
    ) -> object:
        """Runs a composition and notes it; from then on it is passed by, where it cannot be."""
        result: object
        stop_at_launches(tape)
        parent: Call = tape.at
        call: Call = noted(tape, op, slots, keys & MEMORY_BITS)
        if call is None:
            if not tape.clashes:
                never_one(op)
            return op.composite.run(op, slots, 0)
        call.key, call.look = tape.key, tape.look
        self.expand_begin(tape, call)
        try:
            result = op.composite.run(op, slots, 0)
        except BaseException:
            self.expand_end(tape, call, None)
            tape.flush(None)
            raise
        if not self.expand_end(tape, call, result):
            never_one(op)
            tape.flush(None)
            return result
        if (
            not keeps_looks(tape, call, slots)
            or not note_results(tape, call, op, slots, result)
            or not keep_roots(call, op, slots, result)
            or writes_given(call)
        ):
            # its parts are no calls of the path: they count its operands first, which
            # one by one they meet in another order
            never_one(op)
            tape.flush(None)
            return result
        call.switches = switches
        self.take_in(tape, parent, call)
        return result

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def expand_begin(self, tape: Tape, call: Call) -> cython.int:
        """From here on the operators that a function calls are noted as its parts."""
        call.first = len(tape.slots)
        call.parts = []
        tape.parts = call.parts
        tape.broken = False
        tape.read = False
        tape.inner = 0
        tape.launches = launched()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def expand_end(self, tape: Tape, call: Call, result: object) -> cython.bint:
        """Whether the parts are all that the function did, and made what it gave."""
        tape.parts = None
        if launched() - tape.launches != tape.inner:
            tape.broken = True
        if not is_whole(tape, call.first, result):
            tape.broken = True
        tape.recorded = tape.read
        if tape.broken or tape.read or len(call.parts) > _PARTS:
            call.parts = None
            tape.forget_from(call.first)
            return False
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def take_in(self, tape: Tape, parent: Call, call: Call) -> cython.int:
        """Makes a noted call the path's last."""
        add_branch(tape, parent, call)
        if len(parent.children) > 1 or parent.untried > 0:
            call.untried = _PUT_OFF
        tape.calls.append(call)
        tape.done = len(tape.calls)
        tape.at = call
        tape.launches = launched()
        return 0

    @cython.cfunc
    def note_part(
        self, tape: Tape, op: Operator, slots: pp_object, keys: uint64_t
    ) -> object:
        """An operator that a function calls which is noted as its parts."""
        st: cython.pointer(ThreadState) = state()
        before: uint64_t = st.included
        varies: cython.bint = tape.varies
        call: Call
        result: object
        launches: int64_t
        parts: list = tape.parts
        if not followed(keys) or keys & _ABSENT or tape.broken or draws(op):
            tape.broken = True
            return past(op, slots, keys)
        tape.varies = False  # its numbers follow from the function's
        try:
            call = noted(tape, op, slots, keys & MEMORY_BITS)
        finally:
            tape.varies = varies
        if call is None:
            tape.broken = True
            return past(op, slots, keys)
        launches = launched()
        if may_be_parts(op, keys & MEMORY_BITS):
            first: cython.int = len(tape.slots)
            count: cython.Py_ssize_t = len(parts)
            inner: int64_t = tape.inner
            result = self.run_whole(op, slots, keys & MEMORY_BITS)
            launches = launched() - launches
            if launches == tape.inner - inner and is_whole(tape, first, result):
                return result
            del parts[count:]
            tape.forget_from(first)
            tape.broken = tape.read
            tape.inner = inner + launches
            if not keeps_looks(tape, call, slots) or not note_results(
                tape, call, op, slots, result
            ):
                tape.broken = True
            else:
                parts.append(call)
            return result
        tape.recorded = False
        tape.parts = None
        st.included = (before & ~RECORDING) | _LISTENING
        try:
            result = op.run(slots, keys & ~RECORDING)
        finally:
            st.included = before
            tape.parts = parts
        tape.inner += launched() - launches
        if tape.recorded and not has_known_sizes(op):
            tape.read = True
        if (
            tape.read
            or sizes_hang_on_elements(op, slots)
            or fills(op)
            or not keeps_looks(tape, call, slots)
            or not note_results(tape, call, op, slots, result)
        ):
            tape.broken = True
        else:
            parts.append(call)
        return result

    @cython.cfunc
    def run_whole(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        """Runs a function of ours, and not a plan of it, which has no parts."""
        kernel: PythonKernel = loaded(op, keys)
        return PythonKernel.run(kernel, op, slots, keys)

    @cython.cfunc
    def leave(self, tape: Tape) -> object:
        """Runs what waits on a path that is left; its storages keep their numbers."""
        st: cython.pointer(ThreadState) = state()
        before: uint64_t = st.included
        excluded: uint64_t = st.excluded
        modes: cython.int = st.modes
        st.included = before & _PROFILING
        st.excluded = excluded | BELOW_AUTOGRAD
        st.modes = 0
        tape.runner = PyThread_get_thread_ident()
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
            tape.runner = 0
            st.included = before
            st.excluded = excluded
            st.modes = modes

    @cython.cfunc
    def stop(
        self, tape: Tape, call: Call, op: Operator, slots: pp_object, keys: uint64_t
    ) -> object:
        """An operator that is known to look at elements."""
        tape.flush(str(op))
        tape.at = tape.root = call
        return past(op, slots, keys)

    @cython.cfunc
    def note(
        self, tape: Tape, op: Operator, slots: pp_object, keys: uint64_t
    ) -> object:
        """Runs an operator that no path has, and notes it."""
        st: cython.pointer(ThreadState) = state()
        before: uint64_t = st.included
        stop_at_launches(tape)
        parent: Call = tape.at
        call: Call = noted(tape, op, slots, keys & MEMORY_BITS)
        good: cython.bint = False
        result: object
        if call is None:
            tape.flush(OUTSIDE if tape.clashes else str(op))
            return past(op, slots, keys)
        call.key, call.look = tape.key, tape.look
        expanded: cython.bint = tape.varies and may_be_parts(op, keys & MEMORY_BITS)
        tape.recorded = False
        if expanded:
            self.expand_begin(tape, call)
        else:
            st.included = (before & ~RECORDING) | _LISTENING
        try:
            if expanded:  # the function itself: a plan of it has no parts
                result = self.run_whole(op, slots, keys & MEMORY_BITS)
            else:
                result = op.run(slots, keys & ~RECORDING)
            good = True
        finally:
            st.included = before
            if expanded and not self.expand_end(tape, call, result if good else None):
                expanded = False
            if not good:  # an error: the path ends here
                tape.flush(None)
        if (
            (tape.recorded and not has_known_sizes(op))
            or sizes_hang_on_elements(op, slots)
            or fills(op)
            or not keeps_looks(tape, call, slots)
            or not note_results(tape, call, op, slots, result)
        ):
            call.barrier = True
            call.parts = None
        if not call.barrier:
            self.take_in(tape, parent, call)
            return result
        add_branch(tape, parent, call)
        tape.flush(str(op))
        tape.at = tape.root = call
        return result


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_whole(tape: Tape, first: cython.int, result: object) -> cython.bint:
    """Whether parts made all that a function gave, of what it was given alone.

    Args:
        first: the number of the first storage that they made.
    """
    i: cython.int
    t: Tensor
    for item in result if isinstance(result, (list, tuple)) else (result,):
        if isinstance(item, Tensor):
            t = item
            if tape.find(t.storage) < 0:
                return False
    for i in range(first, len(tape.slots)):
        if not tape.fresh[i]:
            return False  # a tensor of the function's own
    return not tape.broken and not tape.read


@cython.final
@cython.cclass
class FollowedFormulas(Formulas):
    """Runs the formulas of derivatives: each is one call of the path."""

    @cython.cfunc
    def run(self, formula: object, args: pp_object, n: cython.int) -> object:
        tape: Tape = current()
        op: Operator = None
        keys: uint64_t = 0
        i: cython.int
        t: Tensor
        if tape is not None and tape.varies and not tape.off and tape.parts is None:
            found = _FORMULAS.get(formula)
            if found is None:
                found = formula_operator(formula, n)
            if found is not False:
                op = found
        if op is None or op.n_args != n:
            return Formulas.run(self, formula, args, n)
        for i in range(n):
            item = cython.cast(object, args[i])
            for one in item if isinstance(item, (list, tuple)) else (item,):
                if isinstance(one, Tensor):
                    t = one
                    keys |= t.keys
        return _KERNEL.compose(tape, op, args, keys)


@cython.cfunc
def formula_operator(formula: object, n: cython.int) -> object:
    """What stands for a formula of ours on paths; False for what is none."""
    module = sys.modules.get(getattr(formula, "__module__", None))
    name = getattr(formula, "__name__", "")
    if getattr(module, name, None) is not formula:
        return False  # made for one node: it may not even live as long as it
    found: object = False
    if naming.is_own(module.__name__):
        rows = tuple([(f"a{i}", 1, None, False, 0, 0) for i in range(n)])
        found = Operator("gradient", name, rows, (), entry=BLANK)
        forget_operator(found)
        found.set_composite(PythonKernel(formula))
    _FORMULAS[formula] = found
    return found


@cython.cfunc
def given(op: Operator, slots: pp_object) -> list:
    """The arguments of a call."""
    return [cython.cast(object, slots[i]) for i in range(op.n_args)]


@cython.cfunc
def past(op: Operator, slots: pp_object, keys: uint64_t) -> object:
    """Runs an operator as if nobody followed it."""
    st: cython.pointer(ThreadState) = state()
    before: uint64_t = st.included
    st.included = before & ~RECORDING
    try:
        return op.run(slots, keys & ~RECORDING)
    finally:
        st.included = before


# -- threads ---------------------------------------------------------------------------


@cython.cfunc
def current() -> Tape:
    """This thread's tape, or None."""
    global _tape, _thread
    thread: cython.ulong = PyThread_get_thread_ident()
    found: Tape = _tape
    if thread != _thread:
        before: Tape = found  # let go of last: what it held may let other threads run
        found = _TAPES.get(thread)
        _tape = found
        _thread = thread
        del before
    if found is not None and found.runner and found.runner != thread:
        found.enter()
    return found


@cython.cfunc
def begin_path(tape: Tape):
    """The root of the paths under the current default type."""
    tape.default = default_dtype()
    tape.replaced = replacements()
    tape.chosen = switch_bits()
    owner: Owner = tape.owner
    device: cython.int = current_cuda_index()
    if (
        owner.last is None
        or owner.default is not tape.default
        or owner.device != device
        or owner.replaced != tape.replaced
        or owner.chosen != tape.chosen
    ):
        key = (tape.default, device, tape.replaced, tape.chosen)
        for known in list(owner.roots):
            if known[2] != tape.replaced:
                del owner.roots[known]  # operators ran other kernels then
        owner.last = owner.roots.setdefault(key, Call())
        owner.default, owner.device = tape.default, device
        owner.replaced, owner.chosen = tape.replaced, tape.chosen
    tape.at = tape.root = owner.last


def begin(owner, holder):
    """Has this thread's operators followed from here on.

    Args:
        owner: has ``roots``, ``build``, ``ended``, ``noted``, ``branched`` and
            ``evicted``; see `rushlight.graph.compiled_function`.
        holder: gets ``tape``, what `end` wants; None where they are followed already.
            It is set here: Ctrl-C must not come between.
    """
    holder.tape = started(owner)


@cython.cfunc
def started(owner: Owner) -> Tape:
    """The same, for `run`."""
    global _tape, _thread
    st: cython.pointer(ThreadState) = state()
    thread: cython.ulong = PyThread_get_thread_ident()
    if st.included & (RECORDING | _LISTENING) or current() is not None:
        return None
    tape: Tape = _SPARE.pop() if _SPARE else Tape()
    tape.off = False
    tape.recorded = False
    tape.owner = owner
    tape.varies = owner.backend is None
    tape.views = None if tape.varies else {}
    begin_path(tape)
    _TAPES[thread] = tape
    count_following(1)
    _tape = tape
    _thread = thread
    st.included |= RECORDING
    return tape


@cython.cfunc
@cython.exceptval(-1, check=False)
def forget_tape() -> cython.int:
    """This thread has no tape from here on."""
    global _tape, _thread
    thread: cython.ulong = PyThread_get_thread_ident()
    if _TAPES.pop(thread, None) is not None:
        count_following(-1)
    _tape = None
    _thread = thread
    return 0


def end(tape: Tape, why="the function ends"):
    """Runs what waits, and has operators run as they come again."""
    finished(tape, why)


@cython.cfunc
@cython.exceptval(-1, check=False)
def finished(tape: Tape, why: object) -> cython.int:
    """The same, for `run`."""
    if tape.noting and tape.calls and launched() != tape.launches:
        tape.at.stops = True
    try:
        tape.flush(why)
    finally:
        state().included &= ~RECORDING
        forget_tape()
        tape.clear()
        tape.at = tape.root = None
        tape.owner = None
        if not _SPARE:
            _SPARE.append(tape)
    return 0


def run(owner: Owner, function, args: tuple, kwargs: dict, watch):
    """Calls a function, and follows it, or times it both ways: see `follow`."""
    st: cython.pointer(ThreadState) = state()
    if owner.trial is None or st.included & (RECORDING | _LISTENING):
        return follow(owner, function, args, kwargs, watch)
    most = most_of((*args, *kwargs.values()))
    return owner.trial.call(most, owner, function, args, kwargs, watch)


@cython.ccall
def settle(owner: Owner, leaf: Call, pays: cython.bint, most: int64_t):
    """Keeps whether following pays: where it does not, the next calls run as they come."""
    leaf.pays = 1 if pays else -1
    if not pays:
        owner.passing = _PASSED
        owner.most = max(owner.most, most)


@cython.ccall
def follow(owner: Owner, function, args: tuple, kwargs: dict, watch):
    """Calls a function, and follows it.

    Args:
        owner: see `begin`.
        watch: called with a result that has a graph, the owner and the path's last call.
    """
    leaf: Call
    tape: Tape = started(owner)
    if tape is None:
        return function(*args, **kwargs)
    try:
        result = function(*args, **kwargs)
        leaf = None if tape.off else tape.at
    except BaseException:
        finished(tape, None)  # what waits runs, and nothing is made of it
        raise
    finished(tape, "the function ends")
    if leaf is None:
        return result
    leaf.ends += 1
    if leaf.ends >= _ASKED and leaf.pays <= 0 and owner.trial is None:
        most: int64_t = most_of((*args, *kwargs.values()))
        pays = owner.pays(leaf, most) if leaf.pays == 0 else False
        if pays is not None:
            settle(owner, leaf, pays, most)
    if type(result) is not Tensor or cython.cast(Tensor, result).grad_fn_ is not None:
        watch(result, owner, leaf)
    return result


def noted_storages():
    """The storages of the path that this thread has noted, and what is wanted of each.

    None where no path is noted; see `rushlight.graph.steps.Graph`.
    """
    tape: Tape = current()
    i: cython.int
    if tape is None or not tape.noting:
        return None
    found: bytearray = bytearray(len(tape.slots))
    for i in range(len(tape.slots)):
        if tape.fresh[i]:
            found[i] = 1 if tape.slots[i]() is None else 2
    return [ref() for ref in tape.slots], bytes(found), tape.views


def flush(why="asked for"):
    """Runs what waits in this thread, if anything does."""
    tape: Tape = current()
    if tape is not None:
        tape.flush(why)


def break_graph(why):
    """Ends this thread's graph, which is an error where the function was to be one."""
    tape: Tape = current()
    if tape is not None:
        tape.flush(why)
        if tape.owner.fullgraph:
            tape.owner.broken(why)


def pause() -> bool:
    """Runs what waits, and has operators run as they come; whether they were followed."""
    st: cython.pointer(ThreadState) = state()
    if not st.included & RECORDING:
        return False
    current().flush("a part that is not compiled")
    st.included &= ~RECORDING
    return True


def resume():
    """Follows operators again after `pause`."""
    state().included |= RECORDING


@cython.cfunc
def read_now():
    """Someone looks at an element, or at an address."""
    tape: Tape = current()
    if tape is None or not state().included & (RECORDING | _LISTENING):
        return  # or the program itself is running
    tape.strayed = True
    if tape.parts is not None:
        tape.read = True
    elif state().included & _LISTENING:
        tape.recorded = True
    elif tape.done < len(tape.calls) or tape.at is not tape.root:
        tape.flush("an element is read")


def _read(t):
    read_now()


def _fetch(storage):
    """A thread is to read a storage that has no memory: another's operators fill it."""
    thread: cython.ulong = PyThread_get_thread_ident()
    tape: Tape
    given: Storage = storage
    for other, found in list(_TAPES.items()):
        tape = found
        if other == thread:
            continue
        tape.enter()
        if given.data == cython.NULL and tape.find(given) >= 0:
            tape.flush(None if tape.owner.fullgraph else OTHER_THREAD)


def _launching():
    """A kernel is about to run that no operator has asked for yet, or that one has.

    While the parts of a function are noted all of them run as they come, so that memory is
    there; launches are counted, which shows those that belong to no part.
    """
    tape: Tape = current()
    if tape is None or tape.parts is None:
        read_now()


def _replacing():
    """A library is about to give an operator another kernel: what waits has this one."""
    tape: Tape = current()
    if tape is not None and tape.parts is not None:
        tape.read = True
    elif tape is not None and state().included & RECORDING:
        tape.flush("another kernel")


_KERNEL = cython.declare(RecordingKernel, RecordingKernel())
_serving = cython.declare(cython.bint, False)
_lock = threading.Lock()


def serve():
    """Has all operators answer to the key; called once, when the first function is compiled."""
    global _serving
    with _lock:
        if not _serving:
            serve_all(DispatchKey.Recording, _KERNEL)
            set_formulas(FollowedFormulas())
            on_reading(_read)
            on_launching(_launching)
            before_replacing(_replacing)
            on_missing_memory(_fetch)
            _serving = True
