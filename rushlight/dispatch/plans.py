"""Plans: what a Python function did for operands of some layout, to be done again.

Functions that run kernels spend far more time than the kernels do on small tensors: they
check, they count sizes, they choose. All of that follows from the operands' types, sizes
and strides and from the numbers of the call, not from the elements. So the second call
with the same of these is written down (which memory was asked for, which kernels ran over
which places with which integers, which operators were called on the way), and later ones
do just that. An operator takes part by the tag ``planned``, which says that its function
never looks at elements; what a plan cannot express is refused while it is written, and
the function runs every time.
"""

from __future__ import annotations

import os
import threading

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.backends.cpu.launch import (
    NativeKernel,
    launched,
    parallel_for,
    watch,
)
from cython.cimports.rushlight.core.device import CPU_DEVICE
from cython.cimports.rushlight.core.dtype import DType, default_dtype, dtype_of
from cython.cimports.rushlight.core.keys import KEY_PLANNING
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor, alias, new_empty
from cython.cimports.rushlight.dispatch.dispatcher import (
    FUNCTIONAL,
    Kernel,
    Operator,
)
from cython.cimports.rushlight.dispatch.python_kernels import PythonKernel

from rushlight.core.layout import Layout, MemoryFormat
from rushlight.core.state import on_reading
from rushlight.dispatch.dispatcher import serve_all
from rushlight.dispatch.keys import DispatchKey

_PLANNING = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_PLANNING)
_CPU = cython.declare(uint64_t, 1)
recording = cython.declare(cython.int, 0)
_ROOM = cython.declare(cython.int, 200)  # integers that describe a call, at most
_KEPT = cython.declare(cython.Py_ssize_t, 128)  # plans of one operator
# A flag starts at this value; a kernel that meets a bad index writes it there. It is no
# round number: the lowest and the highest int64 are bad indices that occur.
NO_FAULT = -0x5F3A_91C4_27D6_B80E
_CLEAR = cython.declare(int64_t, NO_FAULT)
# Every plan is compared with its function: for the tests.
_CHECKED = cython.declare(cython.bint, os.environ.get("RUSHLIGHT_CHECK_PLANS") == "1")
FLAG = cython.declare(cython.int, -2)  # a launch's operand: the thread's fault flag
NOTHING = cython.declare(cython.int, -1)  # a launch's operand: no pointer
_EMPTY = ("empty", "empty_like", "empty_strided", "empty_permuted")
_OUTCOMES = cython.declare(dict, {})
_held = threading.local()


@cython.final
@cython.cclass
class Place:
    """A window on a tensor of the call, or on one that the plan makes."""

    base: cython.int
    whole: cython.bint  # the tensor itself
    shift: int64_t  # bytes from the base's first element
    ndim: cython.int
    sizes = cython.declare(int64_t[8])
    strides = cython.declare(int64_t[8])
    dtype: DType


@cython.final
@cython.cclass
class Step:
    """Memory to ask for, a kernel to launch, an operator to call or a flag to look at."""

    kind: cython.int  # 0 ask, 1 launch, 2 call, 3 look
    # ask
    ndim: cython.int
    strided: cython.bint
    sizes = cython.declare(int64_t[8])
    strides = cython.declare(int64_t[8])
    dtype: DType
    # launch
    kernel: NativeKernel
    n_data: cython.int
    n_ints: cython.int
    total: int64_t
    grain: int64_t
    bases = cython.declare(cython.int[16])
    shifts = cython.declare(int64_t[16])
    ints = cython.declare(int64_t[48])
    # call
    operator: Operator
    arguments: list
    results: cython.int  # how many tensors it makes


@cython.final
@cython.cclass
class Plan:
    """The steps of a call, and where its results lie afterwards."""

    steps: list
    results: list
    single: cython.bint


@cython.final
@cython.cclass
class Recorder:
    """Writes down what a function does."""

    tensors: list  # those of the call, then those that are made
    given: cython.int
    looks: list  # sizes and strides of those that are made, when they are
    steps: list
    written: set
    flag: Tensor
    paused: cython.int
    failed: cython.bint
    heard: int64_t  # launches that were written down, or happened inside of calls

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
        if not found.whole and t.keys != root.keys:
            return None
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
    if found is None or found.paused or found.failed:
        return None
    return found


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_fresh(made: Tensor) -> cython.int:
    """Fresh memory."""
    notes: Recorder = recorder()
    step: Step
    d: cython.int
    dense: int64_t = 1
    if notes is None:
        return 0
    if made.ndim_ > 8 or made.storage.device.kind != 0:
        notes.failed = True
        return 0
    step = Step()
    step.kind = 0
    step.ndim = made.ndim_
    step.strided = False  # or where strides differ, those of one element too
    step.dtype = made.dtype_
    for d in range(made.ndim_ - 1, -1, -1):
        step.sizes[d] = made.sizes[d]
        step.strides[d] = made.strides[d]
        if made.strides[d] != dense:
            step.strided = True
        dense *= max(made.sizes[d], 1)
    notes.steps.append(step)
    notes.tensors.append(made)
    notes.looks.append(look_of(made))
    return 0


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
def note_refused() -> cython.int:
    """Something that no plan has words for."""
    notes: Recorder = recorder()
    if notes is not None:
        notes.failed = True
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_check() -> cython.int:
    """A look at the flag."""
    notes: Recorder = recorder()
    step: Step
    if notes is not None:
        step = Step()
        step.kind = 3
        notes.steps.append(step)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_launch(
    kernel: NativeKernel,
    operands: list,
    ints: cython.pointer(cython.const[int64_t]),
    n_ints: cython.int,
    total: int64_t,
    grain: int64_t,
) -> cython.int:
    """A kernel over some places."""
    notes: Recorder = recorder()
    step: Step
    root: Tensor
    t: Tensor
    base: cython.int
    i: cython.int
    if notes is None:
        return 0
    step = Step()
    step.kind = 1
    step.kernel = kernel
    step.n_data = len(operands)
    step.n_ints = n_ints
    step.total = total
    step.grain = grain
    for i in range(step.n_data):
        item = operands[i]
        step.shifts[i] = 0
        if item is None:
            step.bases[i] = NOTHING
            continue
        t = item
        if notes.flag is not None and t.storage is notes.flag.storage:
            step.bases[i] = FLAG
            continue
        base = notes.base_of(t)
        if base < 0:
            notes.failed = True
            return 0
        root = notes.tensors[base]
        step.bases[i] = base
        step.shifts[i] = (
            t.offset * t.dtype_.itemsize - root.offset * root.dtype_.itemsize
        )
        notes.written.add(base)
    for i in range(n_ints):
        step.ints[i] = ints[i]
    notes.heard += 1
    notes.steps.append(step)
    return 0


@cython.final
@cython.cclass
class Listener(Kernel):
    """Hears of the operators that a function calls while it is written down."""

    @cython.cfunc
    def run(
        self,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        notes: Recorder = getattr(_held, "recorder", None)
        st: cython.pointer(ThreadState) = state()
        result: object
        st.included = st.included & ~_PLANNING
        before: int64_t = launched()
        if notes is not None:
            notes.paused += 1
        try:
            result = op.run(slots, keys & ~_PLANNING)
        finally:
            st.included = st.included | _PLANNING
            if notes is not None:
                notes.paused -= 1
                if not notes.paused:
                    notes.heard += launched() - before
        if notes is not None and not notes.paused and not notes.failed:
            note_call(notes, op, slots, result)
        return result


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_call(
    notes: Recorder,
    op: Operator,
    slots: cython.pointer(cython.pointer(PyObject)),
    result: object,
) -> cython.int:
    """An operator that the function called, unless all it gave is a window."""
    step: Step
    t: Tensor
    base: cython.int
    made: list = []
    tags: object = op.entry[12] if len(op.entry) > 12 else ("unknown",)
    if "random" in tags or "data_dependent" in tags or "unknown" in tags:
        notes.failed = True
        return 0
    results: tuple = result if isinstance(result, tuple) else (result,)
    for item in results:
        if not isinstance(item, Tensor):
            notes.failed = True
            return 0
        if notes.base_of(item) < 0:
            made.append(item)
    if op.form == FUNCTIONAL and not made and not op.name.endswith("_"):
        return 0
    if made and len(made) != len(results):
        notes.failed = True
        return 0
    step = Step()
    step.kind = 2
    step.operator = op
    step.results = len(made)
    step.arguments = []
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        if isinstance(item, Tensor):
            item = notes.place(item)
            if item is None:
                notes.failed = True
                return 0
            base = cython.cast(Place, item).base
            if i == 0 and op.form != FUNCTIONAL or op.name.endswith("_"):
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
        if not op.base_name().endswith(_EMPTY):
            notes.written.add(len(notes.tensors))
        notes.tensors.append(t)
        notes.looks.append(look_of(t))
    return 0


def refuse_reading():
    """A function that looks at elements cannot be written down."""
    note_refused()


serve_all(DispatchKey.Planning, Listener())
on_reading(refuse_reading)


@cython.cfunc
@cython.exceptval(-2, check=False)
def describe(
    op: Operator,
    slots: cython.pointer(cython.pointer(PyObject)),
    words: cython.pointer(int64_t),
) -> cython.int:
    """What a call's course follows from, as integers; -1 where that is not all of it."""
    n: cython.int = 1
    i: cython.int
    words[0] = default_dtype().code
    for i in range(op.n_args):
        n = describe_one(cython.cast(object, slots[i]), words, n)
        if n < 0:
            return -1
    return n


@cython.cfunc
@cython.exceptval(-2, check=False)
def describe_one(
    item: object, words: cython.pointer(int64_t), n: cython.int
) -> cython.int:
    t: Tensor
    d: cython.int
    text: cython.p_char
    length: cython.Py_ssize_t = 0
    number: cython.double
    if n + 24 > _ROOM:
        return -1
    if item is None:
        words[n] = 1
        return n + 1
    if isinstance(item, Tensor):
        t = item
        if t.ndim_ > 8 or t.storage.device.kind != 0 or type(item) is not Tensor:
            return -1
        words[n] = 2 + (t.dtype_.code << 8) + (t.ndim_ << 16) + (t.wrapped_number << 24)
        n += 1
        for d in range(t.ndim_):
            words[n] = t.sizes[d]
            words[n + 1] = t.strides[d]
            n += 2
        return n
    if item is True or item is False:
        words[n] = 3 + (256 if item else 0)
        return n + 1
    if type(item) is int:
        if not -(1 << 62) < item < (1 << 62):
            return -1
        words[n] = 4
        words[n + 1] = item
        return n + 2
    if type(item) is float:
        number = item
        words[n] = 5
        memcpy(cython.address(words[n + 1]), cython.address(number), 8)
        return n + 2
    if type(item) is str:
        text = cython.cast(
            cython.p_char, PyUnicode_AsUTF8AndSize(item, cython.address(length))
        )
        if length > 64:
            return -1
        words[n] = 6 + (length << 8)
        for d in range(8):
            words[n + 1 + d] = 0
        memcpy(cython.address(words[n + 1]), text, length)
        return n + 1 + (length + 7) // 8
    if isinstance(item, DType):
        words[n] = 7 + (cython.cast(DType, item).code << 8)
        return n + 1
    if isinstance(item, (MemoryFormat, Layout)):
        words[n] = 8
        words[n + 1] = cython.cast(int64_t, cython.cast(cython.size_t, id(item)))
        return n + 2
    if type(item) is tuple or type(item) is list:
        words[n] = 9 + (len(item) << 8)
        n += 1
        for element in item:
            n = describe_one(element, words, n)
            if n < 0:
                return -1
        return n
    return -1


@cython.final
@cython.cclass
class PlannedKernel(PythonKernel):
    """A Python function whose calls are written down, and done again from the notes."""

    plans: dict

    def __init__(self, function):
        super().__init__(function)
        self.plans = {}

    @cython.cfunc
    def run(
        self,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        words: int64_t[200]
        n: cython.int
        st: cython.pointer(ThreadState) = state()
        if keys != _CPU or st.included & _PLANNING:
            return PythonKernel.run(self, op, slots, keys)
        n = describe(op, slots, words)
        if n < 0 or shares(op, slots):
            return PythonKernel.run(self, op, slots, keys)
        key = PyBytes_FromStringAndSize(cython.cast(cython.p_char, words), n * 8)
        found = self.plans.get(key)
        if type(found) is Plan:
            result = follow(found, op, slots)
            if result is not None:
                if _CHECKED:
                    agree(op, result, PythonKernel.run(self, op, slots, keys))
                return result
        elif found is None and not _CHECKED:
            if len(self.plans) >= _KEPT:
                self.plans.clear()
            self.plans[key] = True
        elif found is not False:  # the second time
            return self.write_down(op, slots, keys, key)
        return PythonKernel.run(self, op, slots, keys)

    @cython.cfunc
    def write_down(
        self,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
        key: bytes,
    ) -> object:
        """Runs the function, and keeps the plan of what it did where there is one."""
        global recording
        st: cython.pointer(ThreadState) = state()
        notes: Recorder = Recorder()
        notes.tensors = tensors_of(op, slots)
        notes.given = len(notes.tensors)
        notes.looks = []
        notes.steps = []
        notes.written = set()
        self.plans[key] = False
        before = getattr(_held, "recorder", None)
        _held.recorder = notes
        recording += 1
        watch(1)
        count: int64_t = launched()
        st.included = st.included | _PLANNING
        try:
            result = PythonKernel.run(self, op, slots, keys)
        finally:
            st.included = st.included & ~_PLANNING
            recording -= 1
            count = launched() - count
            watch(-1)
            _held.recorder = before
        # a launch that was not heard of: this function runs kernels in its own way, or
        # another thread ran some just now
        plan = finished(notes, result) if count == notes.heard else None
        if plan is not None:
            self.plans[key] = plan
        _OUTCOMES.setdefault(op.name, [0, 0])[plan is None] += 1
        return result


def outcomes():
    """For each operator, how many plans were written and how many were refused."""
    return {name: tuple(counts) for name, counts in _OUTCOMES.items()}


@cython.cfunc
def finished(notes: Recorder, result: object) -> Plan:
    """The plan of what was noted; None where that is not all that happened."""
    plan: Plan = Plan()
    i: cython.int
    if notes.failed:
        return None
    for i in range(notes.given, len(notes.tensors)):
        if i not in notes.written:
            if cython.cast(Tensor, notes.tensors[i]).numel_:
                return None
    plan.single = not isinstance(result, tuple)
    if not plan.single and type(result) is not tuple:
        return None  # a named one: its class is not known here
    plan.steps = notes.steps
    plan.results = []
    for item in (result,) if plan.single else result:
        if not isinstance(item, Tensor):
            return None
        place = notes.place(item)
        if place is None or (place.base < notes.given and not place.whole):
            return None
        plan.results.append(place)
    return plan


@cython.cfunc
def tensors_of(op: Operator, slots: cython.pointer(cython.pointer(PyObject))) -> list:
    """The tensors among the arguments, those in lists too."""
    found: list = []
    i: cython.int
    for i in range(op.n_tensors):
        item = cython.cast(object, slots[op.tensor_args[i]])
        if isinstance(item, Tensor):
            found.append(item)
        elif isinstance(item, (list, tuple)):
            for element in item:
                if element is not None:
                    found.append(element)
    return found


@cython.cfunc
@cython.exceptval(-1, check=False)
def shares(
    op: Operator, slots: cython.pointer(cython.pointer(PyObject))
) -> cython.bint:
    """Whether two of the tensors look at the same memory."""
    i: cython.int
    k: cython.int
    tensors: list
    first: Tensor
    if op.n_tensors == 1 and isinstance(
        cython.cast(object, slots[op.tensor_args[0]]), Tensor
    ):
        return False
    tensors = tensors_of(op, slots)
    for i in range(len(tensors)):
        first = tensors[i]
        for k in range(i):
            if cython.cast(Tensor, tensors[k]).storage is first.storage:
                return True
    return False


@cython.cfunc
def window(place: Place, tensors: list) -> Tensor:
    """The tensor at a place."""
    base: Tensor = tensors[place.base]
    if place.whole:
        return base
    shift: int64_t = base.offset * base.dtype_.itemsize + place.shift
    made: Tensor = alias(
        base,
        place.ndim,
        place.sizes,
        place.strides,
        shift // place.dtype.itemsize,
    )
    made.dtype_ = place.dtype
    return made


@cython.cfunc
def follow(
    plan: Plan, op: Operator, slots: cython.pointer(cython.pointer(PyObject))
) -> object:
    """Does what a plan says; None where an index turned out to be bad."""
    tensors: list = tensors_of(op, slots)
    step: Step
    data: cython.p_char[16]
    inner: cython.pointer(PyObject)[24]
    held: list
    t: Tensor
    flag: Tensor = None
    fault: int64_t = 0
    i: cython.int
    for item in plan.steps:
        step = cython.cast(Step, item)
        if step.kind == 1:
            for i in range(step.n_data):
                if step.bases[i] >= 0:
                    t = cython.cast(Tensor, tensors[step.bases[i]])
                    data[i] = t.pointer() + step.shifts[i]
                elif step.bases[i] == NOTHING:
                    data[i] = cython.NULL
                else:
                    if flag is None:
                        flag = the_flag()
                    data[i] = flag.pointer()
            if step.total <= step.grain:
                parallel_for(step.kernel.fn, data, step.ints, step.total, step.grain)
            else:
                with cython.nogil:
                    parallel_for(
                        step.kernel.fn, data, step.ints, step.total, step.grain
                    )
        elif step.kind == 0:
            tensors.append(
                new_empty(
                    step.ndim,
                    step.sizes,
                    step.strides if step.strided else cython.NULL,
                    step.dtype,
                    CPU_DEVICE,
                )
            )
        elif step.kind == 2:
            held = []
            for i in range(len(step.arguments)):
                item = step.arguments[i]
                if type(item) is Place:
                    item = window(item, tensors)
                held.append(item)
                inner[i] = cython.cast(cython.pointer(PyObject), item)
            result = below_autograd(step.operator, inner, state())
            if step.results == 1:
                tensors.append(result if isinstance(result, Tensor) else result[0])
            elif step.results:
                tensors.extend(result)
        elif flag is not None and taken_down(flag, cython.address(fault)):
            return None
    if plan.single:
        return window(plan.results[0], tensors)
    return tuple([window(place, tensors) for place in plan.results])


@cython.cfunc
def below_autograd(
    op: Operator,
    slots: cython.pointer(cython.pointer(PyObject)),
    st: cython.pointer(ThreadState),
) -> object:
    before: uint64_t = st.excluded
    st.excluded = before | (3 << 16)
    try:
        return op.call(slots)
    finally:
        st.excluded = before


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


def agree(op: Operator, ours: object, theirs: object):
    """What a plan gave is, bit for bit, what its function gives.

    Raises:
        AssertionError: it is not.
    """
    if not isinstance(ours, tuple):
        ours, theirs = (ours,), (theirs,)
    for left, right in zip(ours, theirs, strict=True):
        same = (left.shape, left.stride(), left.dtype) == (
            right.shape,
            right.stride(),
            right.dtype,
        )
        if not same or bits_of(left) != bits_of(right):
            raise AssertionError(f"the plan of {op.name} gives {left}, not {right}")


def bits_of(t):
    """The bytes of a tensor's elements, row by row."""
    return [
        element
        for part in t.detach().contiguous().reshape(-1).untyped_storage().tolist()
        for element in (part,)
    ]
