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

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcmp, memcpy, memset
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.device import Device, backend_of
from cython.cimports.rushlight.core.dtype import FLOATING
from cython.cimports.rushlight.core.keys import (
    DEFERRED,
    KEY_ADINPLACEORVIEW,
    KEY_AUTOGRAD,
    KEY_CUDA,
    KEY_PLANNING,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.storage import following
from cython.cimports.rushlight.core.tensor import (
    VIEW_DEFAULT,
    VIEW_INFERENCE,
    VIEW_NO_GRAD,
    Tensor,
    alias,
    new_empty,
)
from cython.cimports.rushlight.dispatch.call_layout import describe, describe_sharing
from cython.cimports.rushlight.dispatch.destination import destination
from cython.cimports.rushlight.dispatch.dispatcher import Operator, fetch_arguments
from cython.cimports.rushlight.dispatch.python_kernels import PythonKernel
from cython.cimports.rushlight.dispatch.trace import (
    ASK,
    CALL,
    FIXED,
    LAUNCH,
    NOTHING,
    NUMBER,
    TRUTH,
    LaunchPlan,
    Place,
    PlannedStep,
    Recorder,
    begin,
    end,
    finished,
    look_of,
    taken_down,
    the_flag,
)
from cython.cimports.rushlight.runtime.cpu.launch import parallel_for

from rushlight.core.roles import host
from rushlight.core.warning import quiet
from rushlight.dispatch.dispatcher import before_replacing

_PLANNING = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_PLANNING)
_CPU = cython.declare(uint64_t, 1)
_CUDA = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_CUDA)
_ANY = cython.declare(uint64_t, ~cython.cast(uint64_t, 0))
_GRAPH = cython.declare(
    uint64_t,
    (cython.cast(uint64_t, 1) << KEY_AUTOGRAD)
    | (cython.cast(uint64_t, 1) << KEY_ADINPLACEORVIEW),
)
_KEPT = cython.declare(cython.Py_ssize_t, 128)  # plans of one operator
_MISSES = cython.declare(cython.int, 32)  # looks that found something else, at most
# Every plan is compared with its function: for the tests.
# On devices only where that is asked for: it launches twice, and waits.
_ASKED = os.environ.get("RUSHLIGHT_CHECK_PLANS", "")
_CHECKED = cython.declare(cython.bint, _ASKED in ("1", "cards"))
_ON_CUDA = cython.declare(cython.bint, _ASKED == "cards")
_OUTCOMES = cython.declare(dict, {})
_KEEPERS = cython.declare(list, [])  # the kernels that keep plans


@cython.cclass
class PlannedKernel(PythonKernel):
    """A Python function whose calls are written down, and done again from the notes."""

    plans: dict

    def __init__(self, function):
        super().__init__(function)
        self.plans = {}
        _KEEPERS.append(self)

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        st: cython.pointer(ThreadState) = state()
        # what writes in a tensor given to it is no plan of what gives a fresh one
        if (
            (keys != _CPU and keys != _CUDA)
            or st.gathering
            or st.included & _PLANNING
            or st.written != cython.NULL
            or destination != cython.NULL
        ):
            return PythonKernel.run(self, op, slots, keys)
        return self.by_plan(op, slots, keys, _ANY, 0)

    @cython.cfunc
    def by_plan(
        self,
        op: Operator,
        slots: pp_object,
        keys: uint64_t,
        allowed: uint64_t,
        switches: int64_t,
    ) -> object:
        """Follows the plan for such operands, or runs the function.

        Args:
            allowed: the keys that operands may have.
            switches: of the thread, which the function may ask for.
        """
        words: int64_t[200]
        n: cython.int
        n = describe(op, slots, words, allowed)
        tensors: list = tensors_of(op, slots) if n > 0 else None
        if n > 0 and len(tensors) > 1:
            n = describe_sharing(tensors, words, n)
        if n < 0:
            return PythonKernel.run(self, op, slots, keys)
        words[0] |= switches
        key = PyBytes_FromStringAndSize(cython.cast(cython.p_char, words), n * 8)
        found = self.plans.get(key)
        if type(found) is LaunchPlan:
            result = follow(found, tensors, False)
            if result is not None:
                if (
                    _CHECKED
                    and not cython.cast(LaunchPlan, found).writes
                    and may_repeat(tensors)
                ):
                    with quiet():
                        agree(op, result, PythonKernel.run(self, op, slots, keys))
                return result
            if cython.cast(LaunchPlan, found).misses > _MISSES:
                self.plans[key] = False
        elif found is None and not _CHECKED:
            if len(self.plans) >= _KEPT:
                self.plans.clear()
            self.plans[key] = True
        elif found is not False:  # the second time
            return self.write_down(op, slots, keys, key, tensors)
        return PythonKernel.run(self, op, slots, keys)

    @cython.cfunc
    def write_down(
        self, op: Operator, slots: pp_object, keys: uint64_t, key: bytes, tensors: list
    ) -> object:
        """Runs the function, and keeps the plan of what it did where there is one."""
        self.plans[key] = False
        notes: Recorder = begin(tensors)
        try:
            result = PythonKernel.run(self, op, slots, keys)
        finally:
            end(notes)
        plan: LaunchPlan = finished(notes, result)
        if plan is not None and not plan.writes and may_repeat(tensors):
            # followed once beside the function before it is trusted
            with quiet():  # what it says was said just now
                again = follow(plan, tensors[: notes.given], True)
            if again is None or not is_same(again, result):
                plan = None
        if plan is not None:
            self.plans[key] = plan
        _OUTCOMES.setdefault(op.name, [0, 0])[plan is None] += 1
        return result


@cython.final
@cython.cclass
class PlannedComposite(PlannedKernel):
    """A composition of operators above autograd, planned where nothing is recorded."""

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        st: cython.pointer(ThreadState) = state()
        switches: int64_t
        if following:
            fetch_arguments(op, slots)
        if st.included or st.excluded & ~_GRAPH or st.modes or st.factory_device:
            return PythonKernel.run(self, op, slots, keys)
        if destination != cython.NULL or st.gathering:
            return PythonKernel.run(self, op, slots, keys)
        switches = st.grad_mode + 2 * st.inference_mode
        switches += cython.cast(int64_t, st.excluded >> KEY_ADINPLACEORVIEW) << 2
        return self.by_plan(op, slots, keys, _CPU | _CUDA | _GRAPH, switches << 8)


def forget():
    """Drops all plans: the next calls run their functions."""
    for keeper in _KEEPERS:
        cython.cast(PlannedKernel, keeper).plans.clear()


before_replacing(forget)
host.pool.after_resizing(forget)


def outcomes():
    """For each operator, how many plans were written and how many were refused.

    What a plan saves shows in no result: tests see by this that there is one.
    """
    return {name: tuple(counts) for name, counts in _OUTCOMES.items()}


@cython.cfunc
def tensors_of(op: Operator, slots: pp_object) -> list:
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
def may_repeat(tensors: list) -> cython.bint:
    """Whether a call may be run twice, to compare: on devices that waits for them."""
    for item in tensors:
        where: Device = cython.cast(Tensor, item).storage.device
        if not where.on_host and not (
            _ON_CUDA and not backend_of(where).graphs.is_writing(where)
        ):
            return False
    return True


@cython.cfunc
def window(place: Place, tensors: list) -> Tensor:
    """The tensor at a place."""
    base: Tensor = tensors[place.base]
    if place.whole:
        return base
    shift: int64_t = base.offset * base.dtype_.itemsize + place.shift
    made: Tensor = alias(
        base, place.ndim, place.sizes, place.strides, shift // place.dtype.itemsize
    )
    made.dtype_ = place.dtype
    made.keys ^= cython.cast(uint64_t, place.deferred)
    if place.viewed:
        made.base = base
        made.view_version = made.version()
        made.view_creation = VIEW_DEFAULT
        if state().inference_mode:
            made.view_creation = VIEW_INFERENCE
        elif not state().grad_mode:
            made.view_creation = VIEW_NO_GRAD
    return made


@cython.cfunc
def follow(plan: LaunchPlan, tensors: list, tried: cython.bint) -> object:
    """Does what a plan says for these; None where a look found something else.

    Args:
        tried: fresh memory holds a pattern, which nothing may depend on.
    """
    step: PlannedStep
    data: cython.p_char[24]
    inner: p_object[24]
    held: list
    t: Tensor
    flag: Tensor = None
    fault: int64_t = 0
    i: cython.int
    aims: list = None
    if plan.changed:
        aims = [
            cython.cast(Tensor, tensors[place]).version() + more
            if place < len(tensors)
            else more
            for place, more in plan.changed
        ]
    for item in plan.steps:
        step = cython.cast(PlannedStep, item)
        if step.kind == LAUNCH:
            for i in range(step.n_data):
                if step.bases[i] >= 0:
                    t = cython.cast(Tensor, tensors[step.bases[i]])
                    data[i] = t.pointer() + step.shifts[i]
                elif step.bases[i] == NOTHING:
                    data[i] = cython.NULL
                elif step.bases[i] == FIXED:
                    data[i] = cython.cast(
                        cython.p_char, cython.cast(cython.size_t, step.shifts[i])
                    )
                elif step.bases[i] == NUMBER:
                    data[i] = cython.cast(cython.p_char, step.numbers) + step.shifts[i]
                else:
                    if flag is None:
                        flag = the_flag()
                    data[i] = flag.pointer()
            if step.planned is not None:
                step.planned.submit(data, step.numbers)
            elif step.total <= step.grain:
                parallel_for(step.fn, data, step.ints, step.total, step.grain)
            else:
                with cython.nogil:
                    parallel_for(step.fn, data, step.ints, step.total, step.grain)
        elif step.kind == ASK:
            t = new_empty(
                step.ndim,
                step.sizes,
                step.strides if step.strided else cython.NULL,
                step.dtype,
                step.device,
            )
            if step.content is not None:
                if len(step.content):
                    memcpy(
                        t.pointer(),
                        cython.cast(cython.p_char, step.content),
                        len(step.content),
                    )
            elif tried:
                poison(t)
            tensors.append(t)
        elif step.kind == CALL:
            held = []
            for i in range(len(step.arguments)):
                item = step.arguments[i]
                if type(item) is Place:
                    item = window(item, tensors)
                held.append(item)
                inner[i] = cython.cast(p_object, item)
            if step.below:
                result = below_autograd(step.operator, inner, state())
            else:
                result = step.operator.call(inner)
            if step.results == 1:
                tensors.append(result if isinstance(result, Tensor) else result[0])
            elif step.results:
                tensors.extend(result)
        elif step.kind == TRUTH:
            t = cython.cast(Tensor, tensors[step.place.base])
            if (t.pointer() + step.place.shift)[0] != step.truth:
                plan.misses += 1
                return None
        elif flag is not None and taken_down(flag, cython.address(fault)):
            return None
    if aims is not None:
        for i in range(len(aims)):
            t = cython.cast(Tensor, tensors[plan.changed[i][0]])
            while t.version() < aims[i]:
                t.bump_version()
    if plan.single:
        return window(plan.results[0], tensors)
    return tuple(
        [None if place is None else window(place, tensors) for place in plan.results]
    )


@cython.cfunc
def below_autograd(
    op: Operator, slots: pp_object, st: cython.pointer(ThreadState)
) -> object:
    before: uint64_t = st.excluded
    st.excluded = before | (3 << 16)
    try:
        return op.call(slots)
    finally:
        st.excluded = before


@cython.cfunc
@cython.exceptval(-1, check=False)
def poison(t: Tensor) -> cython.int:
    """Fills fresh memory with what no function leaves there: ones, or odd floats."""
    i: int64_t
    item: cython.int = t.dtype_.itemsize
    data: cython.p_char = t.pointer()
    if t.storage.n_bytes == 0 or not t.storage.device.on_host:
        return 0  # there may be no memory at all, which C's routines may not be given
    if t.dtype_.category >= FLOATING:
        memset(data, 0xA5, t.storage.n_bytes)
        return 0
    memset(data, 0, t.storage.n_bytes)
    for i in range(t.storage.n_bytes // item):
        data[i * item] = 1
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_same(ours: object, theirs: object) -> cython.bint:
    """Whether two results are the same in sizes, strides, types and bits."""
    left: Tensor
    right: Tensor
    if not isinstance(ours, tuple):
        ours, theirs = (ours,), (theirs,)
    for a, b in zip(ours, theirs):
        left, right = a, b
        if left is right:
            continue
        if left is None or right is None:
            return False
        if left.dtype_ is not right.dtype_ or look_of(left) != look_of(right):
            return False
        if (left.keys ^ right.keys) & DEFERRED:
            return False
        left, right = a.detach().contiguous().cpu(), b.detach().contiguous().cpu()
        if left.numel_ and memcmp(
            left.pointer(), right.pointer(), left.numel_ * left.dtype_.itemsize
        ):
            return False
    return True


def agree(op: Operator, ours: object, theirs: object):
    """What a plan gave is, bit for bit, what its function gives.

    Raises:
        AssertionError: it is not.
    """
    if not is_same(ours, theirs):
        raise AssertionError(f"the plan of {op.name} gives {ours}, not {theirs}")
