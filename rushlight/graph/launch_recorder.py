"""What an operator launches for operands of some layout, heard while it runs.

A call of a path always has the same operands but for their elements. So what it launched
once is what it will launch: kernels over places, with integers. What is not heard whole
(see `rushlight.dispatch.trace`), or does other things when it is done again, stays a call.
"""

from __future__ import annotations

import cython
import cython.cimports.rushlight.dispatch.trace as notes
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memcmp, memcpy, memset
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.storage import Storage
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.graph.tape import (
    FRESH,
    NUMBER,
    TENSOR,
    TENSORS,
    Call,
    Tape,
    Value,
    bind,
)

from rushlight.dispatch.declared import TAGS
from rushlight.graph.steps import step_of

LARGEST = cython.declare(cython.size_t, 1 << 24)  # bytes that are compared at most
_UNHEARD = ("random", "data_dependent", "unknown", "data_dependent_output")


def is_recordable(call) -> bool:
    """Whether what a call does follows from its operands' layout, and from nothing else."""
    if not call.device_of().on_host or not call.device.on_host:
        return False  # a device's launches have other witnesses
    tags = call.op.entry[TAGS] if call.op.entry else ("unknown",)
    if any(tag in tags for tag in _UNHEARD):
        return False
    return not any(call.kind(i) == NUMBER for i in range(len(call.values)))


@cython.cfunc
def arguments(tape: Tape, call: Call, slots: pp_object):
    """The call's arguments, and the tensors among them."""
    i: cython.int
    v: Value
    held: list = []
    tensors: list = []
    for i in range(call.op.n_args):
        item = call.values[i]
        if call.kinds[i] == TENSOR:
            v = item
            item = v.window(tape.slots[v.slot])
            tensors.append((item, v))
        elif call.kinds[i] == TENSORS:
            made: list = []
            for one in item:
                if isinstance(one, Value):
                    v = one
                    one = v.window(tape.slots[v.slot])
                    tensors.append((one, v))
                made.append(one)
            item = made if type(item) is list else tuple(made)
        held.append(item)
        slots[i] = cython.cast(p_object, item)
    return held, tensors


def listen(tape: Tape, call: Call, first: cython.int):
    """Runs a call of a path, and hears what it launches.

    Args:
        first: the number of the first place for what it asks for inside.

    Returns:
        The steps and the bytes of those places; None where the call stays a call.
    """
    slots = cython.declare(p_object[24])
    if not is_recordable(call):
        tape.execute(call)
        return None
    held, tensors = arguments(tape, call, slots)
    step = step_of(call)
    written = sorted({v.slot for v in step.writes if v.slot not in step.makes})
    if any(tape.slots[s].nbytes() > LARGEST for s in written):
        tape.execute(call)
        return None
    before = [(s, content_of(tape.slots[s])) for s in written]
    recorder: notes.Recorder = notes.begin([t for t, _ in tensors])
    try:
        result = call.op.run(slots, call.keys)
    finally:
        notes.end(recorder)
    made = result
    if type(result) is tuple:
        made = tuple([item for item in result if item is not None])
    plan: notes.LaunchPlan = notes.finished(recorder, made)
    found = None
    if plan is not None and not recorder.failed:
        found = details(call, plan, recorder, tensors, result, first, len(written) > 0)
    bind(tape, call, result)
    del held, result, made
    if found is not None and not does_the_same(tape, call, found, before, first):
        found = None
    return found


@cython.cfunc
def details(
    call: Call,
    plan: notes.LaunchPlan,
    recorder: notes.Recorder,
    tensors: list,
    result: object,
    first: cython.int,
    writes: cython.bint,
):
    """A plan's steps with the places of the path; None where some have none."""
    from rushlight.graph.program import (
        recorded_check,
        recorded_launch,
        recorded_layout,
        table,
    )

    positions: list = []  # for each tensor of the notes: its place, and its shift in bytes
    temporaries: list = []
    made: dict = {}
    i: cython.int
    k: cython.int
    v: Value
    t: Tensor
    step: notes.PlannedStep
    results: object = (result,) if call.shape is None else result
    for i in range(len(call.results)):
        kind, value = call.results[i]
        if kind == FRESH:
            v = value
            t = results[i]
            if not v.fits(t):
                return None
            made[id(t.storage)] = v.slot
    for i in range(len(recorder.tensors)):
        t = recorder.tensors[i]
        if i < recorder.given:
            v = tensors[i][1]
            positions.append((v.slot, v.offset * v.dtype.itemsize))
            continue
        if id(t.storage) in made:
            positions.append((made.pop(id(t.storage)), 0))
        else:
            positions.append((first + len(temporaries), 0))
            temporaries.append(recorder.lengths[i])
    if made:
        return None  # a result that is on memory nobody heard of
    steps: list = []
    number: cython.int = recorder.given
    for item in plan.steps:
        step = item
        if step.kind == notes.ASK:
            if step.content is not None:
                steps.append(table(positions[number][0], step.content))
            number += 1
        elif step.kind == notes.LAUNCH:
            operands: list = []
            for k in range(step.n_data):
                if step.bases[k] >= 0:
                    place, shift = positions[step.bases[k]]
                    operands.append((place, shift + step.shifts[k]))
                elif step.bases[k] == notes.NUMBER:
                    operands.append((-3, step.shifts[k]))
                elif step.bases[k] == notes.FIXED:
                    operands.append((-4, step.shifts[k]))
                elif step.bases[k] == notes.FLAG:
                    operands.append((-5, 0))
                else:
                    operands.append((-6, 0))
            steps.append(
                recorded_launch(
                    cython.cast(uintptr_t, step.fn),
                    plan.constants,
                    operands,
                    PyBytes_FromStringAndSize(
                        cython.cast(cython.p_char, step.numbers), 192
                    ),
                    [step.ints[k] for k in range(step.n_ints)],
                    step.total,
                    step.grain,
                    call.op.name,
                )
            )
        elif step.kind == notes.FAULT:
            steps.append(recorded_check(call))
        elif step.kind == notes.TRUTH and not writes:
            place, shift = positions[step.place.base]
            steps.append(
                recorded_layout(call, place, shift + step.place.shift, step.truth)
            )
        else:
            return None
    for number, item in enumerate(steps):
        item.steps_after = len(steps) - 1 - number
    return steps, temporaries


def content_of(storage: Storage) -> bytes:
    """A storage's bytes."""
    if storage.data == cython.NULL:
        return b""
    return PyBytes_FromStringAndSize(storage.data, storage.n_bytes)


@cython.cfunc
@cython.exceptval(-1, check=False)
def does_the_same(
    tape: Tape, call: Call, found: tuple, before: list, first: cython.int
) -> cython.bint:
    """Whether the steps, on memory that holds a pattern, give what the call gave."""
    from rushlight.graph.program import run_steps

    storage: Storage
    data: cython.pp_char
    k: cython.int
    same: cython.bint = True
    steps, temporaries = found
    own: dict = {}
    count: cython.int = first + len(temporaries)
    fresh = {v.slot for kind, v in call.results if kind == FRESH}
    sizes = {s: tape.slots[s].nbytes() for s in fresh}
    sizes |= {first + k: size for k, size in enumerate(temporaries)}
    if sum(sizes.values()) > LARGEST:
        return False
    after = [(s, content_of(tape.slots[s])) for s, _ in before]
    data = cython.cast(cython.pp_char, calloc(count + 1, cython.sizeof(cython.p_char)))
    if data == cython.NULL:
        raise MemoryError("no memory to compare a program with")
    try:
        for s in call.touched():
            storage = tape.slots[s]
            data[cython.cast(cython.int, s)] = storage.data
        for s, size in sizes.items():
            k = s
            # aligned as the pool's blocks are
            block = cython.cast(cython.p_char, malloc(size + 64))
            if block == cython.NULL:
                raise MemoryError("no memory to compare a program with")
            own[s] = cython.cast(uintptr_t, block)
            data[k] = cython.cast(
                cython.p_char,
                (cython.cast(uintptr_t, block) + 63) & ~cython.cast(uintptr_t, 63),
            )
            memset(data[k], 1, size)
        for s, content in before:
            storage = tape.slots[s]
            if storage.n_bytes:
                memcpy(storage.data, cython.cast(cython.p_char, content), len(content))
        run_steps(steps, tape, cython.cast(uintptr_t, data))
        for s in fresh:
            storage = tape.slots[s]
            k = s
            if storage.n_bytes and memcmp(storage.data, data[k], storage.n_bytes):
                same = False
        for s, content in after:
            same = same and content_of(tape.slots[s]) == content
    except RuntimeError:
        same = False
    finally:
        for s, content in after:
            storage = tape.slots[s]
            if storage.n_bytes:
                memcpy(storage.data, cython.cast(cython.p_char, content), len(content))
        for address in own.values():
            free(cython.cast(cython.p_void, cython.cast(uintptr_t, address)))
        free(data)
    return same
