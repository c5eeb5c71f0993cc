"""What a Python function does, written down while it runs; `plans` does it again."""

from __future__ import annotations

import threading

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core._python import pp_object
from cython.cimports.rushlight.core.device import CPU_DEVICE, PlannedLaunch
from cython.cimports.rushlight.core.dtype import CODE_BOOL, dtype_of
from cython.cimports.rushlight.core.keys import (
    DEFERRED,
    KEY_ADINPLACEORVIEW,
    KEY_AUTOGRAD,
    KEY_PLANNING,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.dispatch.dispatcher import (
    FUNCTIONAL,
    OUT,
    Kernel,
    Operator,
)
from cython.cimports.rushlight.runtime.cpu.launch import (
    Launch,
    LaunchObserver,
    NativeKernel,
    kernel_t,
    launched,
    set_observer,
    watch,
)

from rushlight.core.state import on_filling, on_making, on_reading
from rushlight.core.warning import on_warning
from rushlight.dispatch.declared import TAGS
from rushlight.dispatch.dispatcher import FOREIGN_KERNELS, serve_all
from rushlight.dispatch.keys import DispatchKey
from rushlight.runtime.cpu.launch import NO_FAULT

_PLANNING = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_PLANNING)
_GRAPH = cython.declare(
    uint64_t,
    (cython.cast(uint64_t, 1) << KEY_AUTOGRAD)
    | (cython.cast(uint64_t, 1) << KEY_ADINPLACEORVIEW),
)
recording = cython.declare(cython.int, 0)
_STEPS = cython.declare(cython.Py_ssize_t, 512)  # of one plan, at most
_ROOMY = cython.declare(int64_t, 1 << 22)  # bytes that a plan asks for, at most
_TABLE = cython.declare(int64_t, 1 << 14)  # bytes of one table that a plan keeps
_CLEAR = cython.declare(int64_t, NO_FAULT)
_held = threading.local()


@cython.final
@cython.cclass
class Place:
    """A window on a tensor of the call, or on one that the plan makes."""


@cython.final
@cython.cclass
class PlannedStep:
    """Memory to ask for, a kernel to launch, an operator to call, a value to look at."""


@cython.final
@cython.cclass
class LaunchPlan:
    """The steps of a call, and where its results lie afterwards."""


@cython.final
@cython.cclass
class Recorder:
    """Writes down what a function does."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(self, t: Tensor) -> cython.int:
        """One more tensor, with the memory that it has now."""
        n: cython.int = len(self.tensors)
        if n >= MOST:
            self.failed = True
            return 0
        self.starts[n] = t.storage.data
        self.lengths[n] = t.storage.n_bytes
        self.tensors.append(t)
        if n >= self.given:
            self.looks.append(look_of(t))
        return 0

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def base_of(self, t: Tensor) -> cython.int:
        """The number of the tensor whose memory this is, or -1."""
        i: cython.int
        for i in range(len(self.tensors)):
            if cython.cast(Tensor, self.tensors[i]).storage is t.storage:
                return i
        return -1

    @cython.cfunc
    @cython.exceptval(check=False)
    def base_at(self, address: cython.p_char) -> cython.int:
        """The number of the tensor in whose memory an address lies, or -1."""
        i: cython.int
        for i in range(len(self.tensors)):
            if self.starts[i] <= address < self.starts[i] + self.lengths[i]:
                return i
        return -1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put_operand(
        self, step: PlannedStep, i: cython.int, address: cython.p_char
    ) -> cython.int:
        """Notes where a launch's pointer leads to; 0 where that is not known."""
        base: cython.int = self.base_at(address)
        if base < 0 and self.knows(address):
            step.bases[i] = FIXED
            step.shifts[i] = cython.cast(int64_t, address)
            return 1
        if base < 0:
            self.failed = True
            return 0
        step.bases[i] = base
        step.shifts[i] = address - cython.cast(Tensor, self.tensors[base]).pointer()
        self.written.add(base)
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def knows(self, address: cython.p_char) -> cython.bint:
        """Whether something that stays as it is begins at an address."""
        for item in self.constants:
            if isinstance(item, NativeKernel):
                if cython.cast(NativeKernel, item).fn == cython.cast(kernel_t, address):
                    return True
            elif isinstance(item, Tensor):
                if cython.cast(Tensor, item).pointer() == address:
                    return True
        return False

    @cython.cfunc
    def place(self, t: Tensor) -> Place:
        """Where a tensor lies; None where that is not known."""
        base: cython.int = self.base_of(t)
        found: Place = Place()
        root: Tensor
        d: cython.int
        if base < 0 or t.ndim_ > 8:
            return None
        root = self.tensors[base]
        found.base = base
        # a function may give what it made other strides in place
        found.whole = t is root and (
            base < self.given or self.looks[base - self.given] == look_of(t)
        )
        if not found.whole and (t.keys ^ root.keys) & ~cython.cast(uint64_t, DEFERRED):
            return None
        found.deferred = (t.keys ^ root.keys) & DEFERRED
        found.shift = t.offset * t.dtype_.itemsize - root.offset * root.dtype_.itemsize
        found.ndim = t.ndim_
        for d in range(t.ndim_):
            found.sizes[d] = t.sizes[d]
            found.strides[d] = t.strides[d]
        found.dtype = t.dtype_
        return found


@cython.cfunc
def look_of(t: Tensor) -> tuple:
    """Sizes and strides."""
    return tuple([(t.sizes[d], t.strides[d]) for d in range(t.ndim_)])


@cython.cfunc
def recorder() -> Recorder:
    """What this thread is writing down, or None."""
    found: Recorder = getattr(_held, "recorder", None)
    if found is None or found.failed:
        return None
    return found


def note_fresh(t):
    """Fresh memory."""
    made: Tensor = t
    notes: Recorder = recorder()
    step: PlannedStep
    d: cython.int
    dense: int64_t = 1
    if notes is None:
        return
    if (
        made.ndim_ > 8
        or len(notes.steps) > _STEPS
        or not (made.storage.device.on_host or made.storage.device == notes.device)
    ):
        notes.failed = True
        return
    step = PlannedStep()
    step.kind = ASK
    step.device = made.storage.device
    step.ndim = made.ndim_
    step.strided = False  # or where strides differ, those of one element too
    step.dtype = made.dtype_
    for d in range(made.ndim_ - 1, -1, -1):
        step.sizes[d] = made.sizes[d]
        step.strides[d] = made.strides[d]
        if made.strides[d] != dense:
            step.strided = True
        dense *= max(made.sizes[d], 1)
    notes.asked += made.storage.n_bytes
    if notes.asked > _ROOMY:
        notes.failed = True
        return
    notes.steps.append(step)
    notes.add(made)


def note_filling(t):
    """Python's numbers in memory that was asked for just now."""
    made: Tensor = t
    notes: Recorder = recorder()
    step: PlannedStep
    if notes is None:
        return
    step = notes.steps[len(notes.steps) - 1] if notes.steps else None
    if (
        step is None
        or step.kind != ASK
        or notes.tensors[len(notes.tensors) - 1] is not made
        or made.storage.n_bytes > _TABLE
        or not made.storage.device.on_host
    ):
        notes.failed = True
        return
    step.content = PyBytes_FromStringAndSize(made.pointer(), made.storage.n_bytes)
    notes.written.add(len(notes.tensors) - 1)


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_flag(flag: Tensor) -> cython.int:
    """The thread's flag for bad indices."""
    notes: Recorder = recorder()
    if notes is not None:
        notes.flag = flag
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_check() -> cython.int:
    """A look at the flag."""
    notes: Recorder = recorder()
    step: PlannedStep
    if notes is not None:
        step = PlannedStep()
        step.kind = FAULT
        notes.steps.append(step)
    return 0


@cython.final
@cython.cclass
class LaunchTracer(LaunchObserver):
    """Writes kernels down as they are launched."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def on_launch(self, launch: cython.pointer(Launch)) -> cython.int:
        notes: Recorder = recorder()
        step: PlannedStep
        base: cython.int
        i: cython.int
        data: cython.pp_char = launch.data
        numbers: cython.p_char = launch.numbers
        n_bytes: cython.int = launch.n_bytes
        if notes is None:
            return 0
        if (
            launch.n_data > 16
            or launch.n_ints > 48
            or n_bytes > 192
            or len(notes.steps) > _STEPS
        ):
            notes.failed = True
            return 0
        step = PlannedStep()
        step.kind = LAUNCH
        step.fn = launch.fn
        step.n_data = launch.n_data
        step.n_ints = launch.n_ints
        step.total = launch.total
        step.grain = launch.grain
        if n_bytes:
            memcpy(step.numbers, numbers, n_bytes)
        for i in range(launch.n_data):
            step.shifts[i] = 0
            if data[i] == cython.NULL:
                step.bases[i] = NOTHING
                continue
            if n_bytes and numbers <= data[i] < numbers + n_bytes:
                step.bases[i] = NUMBER
                step.shifts[i] = data[i] - numbers
                continue
            if notes.flag is not None and data[i] == notes.flag.pointer():
                step.bases[i] = FLAG
                continue
            if not notes.put_operand(step, i, data[i]):
                return 0
        for i in range(launch.n_ints):
            step.ints[i] = launch.ints[i]
        notes.recorded += 1
        notes.steps.append(step)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def on_planned(
        self,
        plan: PlannedLaunch,
        data: cython.pp_char,
        n_data: cython.int,
        numbers: cython.p_double,
    ) -> cython.int:
        notes: Recorder = recorder()
        step: PlannedStep
        i: cython.int
        if notes is None:
            return 0
        if n_data > 16 or len(notes.steps) > _STEPS:
            notes.failed = True
            return 0
        step = PlannedStep()
        step.kind = LAUNCH
        step.planned = plan
        step.n_data = n_data
        memcpy(step.numbers, numbers, cython.sizeof(step.numbers))
        for i in range(n_data):
            step.shifts[i] = 0
            if data[i] == cython.NULL:
                step.bases[i] = NOTHING
            elif not notes.put_operand(step, i, data[i]):
                return 0
        notes.recorded += 1
        notes.steps.append(step)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def on_operand(self, operand: object) -> cython.int:
        """What was there before the call and is none of its operands stays as it is.

        Functions keep tables and kernels that follow from sizes and types.
        """
        notes: Recorder = recorder()
        if notes is None or operand is None:
            return 0
        if not isinstance(operand, Tensor) or (
            notes.base_of(operand) < 0
            and not (
                notes.flag is not None
                and cython.cast(Tensor, operand).storage is notes.flag.storage
            )
        ):
            notes.constants.append(operand)
        return 0


set_observer(LaunchTracer())


@cython.final
@cython.cclass
class Listener(Kernel):
    """Hears of the operators that a function calls while it is written down.

    What they launch is written down itself; where that is not all they do, the call is.
    """

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        notes: Recorder = getattr(_held, "recorder", None)
        result: object
        if notes is None:
            return op.run(slots, keys & ~_PLANNING)
        if notes.failed:  # the call above may yet be a step: whether it writes counts
            notes.writes = notes.writes or writes_given(notes, op, slots)
            return op.run(slots, keys & ~_PLANNING)
        before: int64_t = launched()
        recorded: int64_t = notes.recorded
        n_steps: cython.Py_ssize_t = len(notes.steps)
        n_tensors: cython.Py_ssize_t = len(notes.tensors)
        written: set = set(notes.written)
        outer: cython.bint = writes_given(notes, op, slots)
        result = op.run(slots, keys & ~_PLANNING)
        before = launched() - before
        if hides(op):
            notes.failed = True
            return result
        above: cython.bint = state().excluded & _GRAPH == 0
        if outer:
            notes.writes = True
        if notes.failed or before != notes.recorded - recorded or (outer and above):
            del notes.steps[n_steps:]
            del notes.tensors[n_tensors:]
            del notes.looks[n_tensors - notes.given :]
            notes.written = written
            notes.recorded = recorded + before
            notes.failed = False
            note_call(notes, op, slots, result, not above)
        return result


@cython.cfunc
@cython.exceptval(-1, check=False)
def hides(op: Operator) -> cython.bint:
    """Whether what an operator does follows from more than its operands' layout."""
    tags: object = op.entry[TAGS] if op.entry else ("unknown",)
    if FOREIGN_KERNELS and (op in FOREIGN_KERNELS or None in FOREIGN_KERNELS):
        return True  # a library's function is called each time
    return "random" in tags or "data_dependent" in tags or "unknown" in tags


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def target_of(op: Operator) -> cython.int:
    """The argument that an operator writes to, or -1."""
    if op.form == OUT:
        return op.n_args - 1
    return 0 if op.form != FUNCTIONAL else -1


@cython.cfunc
@cython.exceptval(-1, check=False)
def writes_given(notes: Recorder, op: Operator, slots: pp_object) -> cython.bint:
    """Whether an operator writes to a tensor of the call that is written down."""
    at: cython.int = target_of(op)
    if at < 0:
        return False
    item = cython.cast(object, slots[at])
    if not isinstance(item, Tensor):
        return True
    return 0 <= notes.base_of(item) < notes.given


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_call(
    notes: Recorder, op: Operator, slots: pp_object, result: object, below: cython.bint
) -> cython.int:
    """An operator that the function called, unless all it gave is a window."""
    step: PlannedStep
    t: Tensor
    base: cython.int
    made: list = []
    target: cython.int = target_of(op)
    results: object = result if isinstance(result, (tuple, list)) else (result,)
    for item in results:
        if not isinstance(item, Tensor):
            notes.failed = True
            return 0
        if notes.base_of(item) < 0:
            made.append(item)
    if target < 0 and not made:
        return 0
    if made and len(made) != len(results):
        notes.failed = True
        return 0
    step = PlannedStep()
    step.kind = CALL
    step.operator = op
    step.results = len(made)
    step.below = below
    step.arguments = []
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        if isinstance(item, Tensor):
            item = notes.place(item)
            if item is None:
                notes.failed = True
                return 0
            base = cython.cast(Place, item).base
            if i == target:
                notes.written.add(base)
            elif base >= notes.given and base not in notes.written:
                notes.failed = True  # something wrote there without a word
                return 0
        elif isinstance(item, (list, tuple)):
            for element in item:
                if isinstance(element, Tensor):
                    notes.failed = True
                    return 0
        step.arguments.append(item)
    notes.steps.append(step)
    for item in made:
        t = item
        if t.ndim_ > 8:
            notes.failed = True
        notes.written.add(len(notes.tensors))
        notes.add(t)
    return 0


def note_reading(t):
    """A truth value may be looked at again; other elements may not be read."""
    notes: Recorder = recorder()
    step: PlannedStep
    if notes is None:
        return
    if (
        t is None
        or cython.cast(Tensor, t).dtype_.code != CODE_BOOL
        or not cython.cast(Tensor, t).storage.device.on_host
        or notes.writes
    ):
        notes.failed = True
        return
    step = PlannedStep()
    step.kind = TRUTH
    step.place = notes.place(t)
    if step.place is None:
        notes.failed = True
        return
    step.truth = cython.cast(Tensor, t).pointer()[0] != 0
    notes.steps.append(step)


def unplanned():
    """Makes no plan of this call: it hangs on more than plans are found by."""
    notes: Recorder = recorder()
    if notes is not None:
        notes.failed = True


serve_all(DispatchKey.Planning, Listener())
on_reading(note_reading)
on_making(note_fresh)
on_filling(note_filling)
on_warning(unplanned)  # it is given at each call


@cython.cfunc
def begin(tensors: list) -> Recorder:
    """Starts to write down what this thread does with the tensors of a call."""
    global recording
    st: cython.pointer(ThreadState) = state()
    notes: Recorder = Recorder()
    the_flag()  # its memory is the thread's, not the call's
    notes.tensors = []
    notes.looks = []
    notes.constants = []
    notes.given = MOST
    notes.device = CPU_DEVICE
    for item in tensors:
        notes.add(item)
        notes.device = cython.cast(Tensor, item).storage.device
    notes.given = len(notes.tensors)
    notes.versions = [cython.cast(Tensor, item).version() for item in tensors]
    notes.steps = []
    notes.written = set()
    notes.before = getattr(_held, "recorder", None)
    _held.recorder = notes
    recording += 1
    watch(1)
    notes.launched = launched()
    st.included = st.included | _PLANNING
    return notes


@cython.cfunc
@cython.exceptval(-1, check=False)
def end(notes: Recorder) -> cython.int:
    """Ends it."""
    global recording
    st: cython.pointer(ThreadState) = state()
    st.included = st.included & ~_PLANNING
    recording -= 1
    notes.launched = launched() - notes.launched
    watch(-1)
    _held.recorder = notes.before
    return 0


@cython.cfunc
def finished(notes: Recorder, result: object) -> LaunchPlan:
    """The plan of what was noted; None where that is not all that happened."""
    plan: LaunchPlan = LaunchPlan()
    i: cython.int
    # a launch that was not heard of: this function runs kernels in its own way, or
    # another thread ran some just now
    if notes.failed or notes.launched != notes.recorded:
        return None
    for i in range(notes.given, len(notes.tensors)):
        if i not in notes.written:
            if cython.cast(Tensor, notes.tensors[i]).numel_:
                return None
    plan.writes = notes.writes
    plan.constants = notes.constants
    # who counts writes stands above what was heard
    plan.changed = []
    for i in range(notes.given):
        more = cython.cast(Tensor, notes.tensors[i]).version() - notes.versions[i]
        if more:
            plan.changed.append((i, more))
    plan.misses = 0
    plan.single = not isinstance(result, tuple)
    if not plan.single and type(result) is not tuple:
        return None  # a named one: its class is not known here
    plan.steps = notes.steps
    plan.results = []
    for item in (result,) if plan.single else result:
        if item is None and not plan.single:
            plan.results.append(None)  # a gradient that its arguments say nobody wants
            continue
        if not isinstance(item, Tensor):
            return None
        place = notes.place(item)
        if place is None or (place.base < notes.given and not place.whole):
            return None
        if not place.whole and cython.cast(Tensor, item).base is not None:
            place.viewed = True
        plan.results.append(place)
        # fresh memory that was written to again counts that, too
        more = cython.cast(Tensor, notes.tensors[place.base]).version()
        if place.base >= notes.given and more:
            plan.changed.append((place.base, more))
    return plan


@cython.cfunc
def the_flag() -> Tensor:
    """One int64 of this thread that a kernel overwrites when it meets a bad index."""
    flag: Tensor = getattr(_held, "flag", None)
    if flag is None:
        flag = new_empty(0, cython.NULL, cython.NULL, dtype_of(4), CPU_DEVICE)
        cython.cast(cython.pointer(int64_t), flag.pointer())[0] = _CLEAR
        _held.flag = flag
    return flag


@cython.cfunc
@cython.exceptval(-1, check=False)
def taken_down(flag: Tensor, fault: cython.pointer(int64_t)) -> cython.bint:
    """Whether a kernel met a bad index, and which; the flag is clear for the next."""
    value: cython.pointer(int64_t) = cython.cast(
        cython.pointer(int64_t), flag.pointer()
    )
    fault[0] = value[0]
    if value[0] == _CLEAR:
        return False
    value[0] = _CLEAR
    return True
