"""Spans of time: which operator, node or named block ran from when to when.

While a profiler records, each span is a row of one array, begun and ended where it runs.
Nothing is looked up, named or sorted before the recording is over: a span costs two looks
at the clock and a row. Where nothing is recorded, a thread has no key `Profiling` and its
calls take no other way than without a profiler.
"""

from __future__ import annotations

import sys
import threading
import time

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc, realloc
from cython.cimports.rushlight.core._python import (
    Py_INCREF,
    Py_XDECREF,
    PyThread_get_thread_ident,
    PyThread_get_thread_native_id,
    p_object,
)
from cython.cimports.rushlight.core.keys import KEY_PROFILING
from cython.cimports.rushlight.core.posix import (
    __ATOMIC_ACQ_REL,
    CLOCK_MONOTONIC,
    __atomic_fetch_add,
    clock_gettime,
    timespec,
)
from cython.cimports.rushlight.core.state import state

from rushlight.core.state import set_everywhere

KINDS = ("operator", "backward", "node", "annotation", "program", "memory")

Span = cython.struct(
    start=int64_t,
    end=int64_t,  # 0: not over yet
    thread=int64_t,
    sequence=int64_t,  # of autograd's nodes; of memory: the bytes that came or went
    what=p_object,  # owned; of memory: NULL
    info=p_object,  # owned, or NULL
    address=cython.size_t,  # of memory
    kind=cython.int,
)

KERNELS_KEPT = 1 << 18  # of one recording; what comes later is counted

watching_memory = cython.declare(cython.bint, False)
timing_kernels = cython.declare(cython.bint, False)
recording_spans = cython.declare(cython.bint, False)
_PROFILING = cython.declare(uint64_t, cython.cast(uint64_t, 1) << KEY_PROFILING)
# A token is the row's number, and above it the recording's: one that is over ends no row.
_ROW_BITS = cython.declare(cython.int, 40)
_recording = cython.declare(int64_t, 0)
_rows = cython.declare(cython.pointer(Span), cython.NULL)
_count = cython.declare(int64_t, 0)
_room = cython.declare(int64_t, 0)
# Threads write here without the GIL: the array is made once and stays where it is.
_kernels = cython.declare(cython.pointer(KernelSpan), cython.NULL)
_n_kernels = cython.declare(int64_t, 0)
_kernels_room = cython.declare(int64_t, KERNELS_KEPT)
_timed = cython.declare(int64_t, 0)  # the thread whose kernels are timed, or 0
_EVERY = cython.declare(int64_t, -1)  # of `_timed`: all threads' kernels are
_all_threads = cython.declare(cython.bint, False)
_stacks_of_memory = cython.declare(cython.bint, False)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def now() -> int64_t:
    """Nanoseconds of the clock that never goes back."""
    t: timespec
    clock_gettime(CLOCK_MONOTONIC, cython.address(t))
    return cython.cast(int64_t, t.tv_sec) * 1_000_000_000 + t.tv_nsec


@cython.cfunc
@cython.exceptval(check=False)
def is_profiled() -> cython.bint:
    return recording_spans and (state().included & _PROFILING) != 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timed_thread() -> int64_t:
    thread: int64_t = PyThread_get_thread_ident()
    wanted: cython.bint = _timed == thread or _timed == _EVERY
    return thread if timing_kernels and wanted else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def begin_kernel() -> int64_t:
    return now() if timed_thread() else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def end_kernel(
    fn: cython.p_void,
    total: int64_t,
    begun: int64_t,
    owner: int64_t,
    worker: cython.int,
) -> cython.void:
    place: int64_t = __atomic_fetch_add(cython.address(_n_kernels), 1, __ATOMIC_ACQ_REL)
    if place >= _kernels_room:
        return
    row: cython.pointer(KernelSpan) = cython.address(_kernels[place])
    row.start, row.end = begun, now()
    row.owner = owner if worker else cython.cast(int64_t, PyThread_get_thread_ident())
    row.thread = PyThread_get_thread_native_id() if worker else 0
    row.total, row.fn, row.worker = total, fn, worker


@cython.cfunc
@cython.exceptval(check=False)
def new_row() -> cython.pointer(Span):
    """Room for one more span; NULL where there is no memory: it is then left out."""
    global _rows, _room, _count
    more: cython.p_void
    row: cython.pointer(Span)
    if _count == _room:
        more = realloc(_rows, (2 * _room + 1024) * cython.sizeof(Span))
        if more == cython.NULL:
            return cython.NULL
        _rows = cython.cast(cython.pointer(Span), more)
        _room = 2 * _room + 1024
    row = cython.address(_rows[_count])
    _count += 1
    row.end = 0
    row.thread = PyThread_get_thread_ident()
    row.sequence = -1
    row.what = row.info = cython.NULL
    row.address = 0
    return row


@cython.cfunc
@cython.exceptval(-2, check=False)
def begin_span(
    kind: cython.int, what: object, info: object, sequence: int64_t
) -> int64_t:
    row: cython.pointer(Span)
    if not recording_spans:
        return -1
    row = new_row()
    if row == cython.NULL:
        return -1
    row.kind = kind
    row.sequence = sequence
    row.what = cython.cast(p_object, what)
    Py_INCREF(row.what)
    if info is not None:
        row.info = cython.cast(p_object, info)
        Py_INCREF(row.info)
    row.start = now()
    return (_recording << _ROW_BITS) | (_count - 1)


@cython.cfunc
@cython.exceptval(check=False)
def end_span(token: int64_t) -> cython.void:
    if token >= 0 and token >> _ROW_BITS == _recording and recording_spans:
        _rows[token & ((cython.cast(int64_t, 1) << _ROW_BITS) - 1)].end = now()


@cython.cfunc
@cython.exceptval(check=False)
def note_block(block: cython.p_void, change: int64_t) -> cython.void:
    row: cython.pointer(Span)
    number: int64_t
    if not is_profiled():
        return
    row = new_row()
    if row != cython.NULL:
        row.kind = SPAN_MEMORY
        row.sequence = change
        row.address = cython.cast(cython.size_t, block)
        row.start = row.end = now()
        if _stacks_of_memory and change > 0:
            number = _count - 1
            stack = python_stack()
            row = cython.address(_rows[number])  # the array may have moved meanwhile
            row.info = cython.cast(p_object, stack)
            Py_INCREF(row.info)


def begin(what, kind: cython.int = SPAN_ANNOTATION, info=None) -> int:
    """Begins a named span of this thread, if it is recorded; `end` takes the token.

    >>> begin("nobody records") == -1
    True
    """
    if not is_profiled():
        return -1
    return begin_span(kind, what, info, -1)


def end(token: int64_t) -> None:
    """Ends a span."""
    end_span(token)


def is_recording() -> bool:
    """Whether this thread is recorded."""
    return is_profiled()


def start(
    memory: cython.bint = False,
    kernels: cython.bint = False,
    stacks: cython.bint = False,
    all_threads: cython.bint = False,
) -> None:
    """Starts a recording of this thread, or of all; an earlier one is thrown away.

    Args:
        memory: whether blocks of memory are recorded, too.
        kernels: whether launches of kernels are, with what each thread of the pool did.
        stacks: whether blocks of memory know the lines of Python that took them.
        all_threads: whether all threads are recorded, those that start later too.

    Raises:
        MemoryError: there is no memory for the kernels' spans.
    """
    global recording_spans, watching_memory, timing_kernels, _recording
    global _kernels, _n_kernels, _stacks_of_memory, _all_threads
    clear()
    if kernels and _kernels == cython.NULL:
        _kernels = cython.cast(
            cython.pointer(KernelSpan),
            malloc(_kernels_room * cython.sizeof(KernelSpan)),
        )
        if _kernels == cython.NULL:
            raise MemoryError("no memory for the spans of kernels")
    _recording += 1
    _n_kernels = 0
    recording_spans = True
    watching_memory = memory
    timing_kernels = kernels
    _stacks_of_memory = memory and stacks
    _all_threads = all_threads
    resume()


def pause() -> None:
    """Leaves out what the recorded threads do, until `resume`."""
    global _timed
    _timed = 0
    if _all_threads:
        set_everywhere(_PROFILING, False)
    state().included &= ~_PROFILING


def resume() -> None:
    """Records what this thread does again, or what all do."""
    global _timed
    if not recording_spans:
        return
    _timed = _EVERY if _all_threads else PyThread_get_thread_ident()
    if _all_threads:
        set_everywhere(_PROFILING, True)
    state().included |= _PROFILING


def stop() -> list:
    """Ends the recording.

    Returns:
        For each span in the order in which they began: its kind, what it is of, what is
        known of it, its thread's number, when it began and ended in nanoseconds of
        `time.monotonic_ns`, autograd's sequence number or the bytes of memory, and
        memory's address. What has not ended ends now.
    """
    global recording_spans, watching_memory, timing_kernels
    i: int64_t
    row: cython.pointer(Span)
    moment: int64_t = now()
    found: list = []
    pause()
    recording_spans = False
    watching_memory = timing_kernels = False
    for i in range(_count):
        row = cython.address(_rows[i])
        found.append(
            (
                row.kind,
                None if row.what == cython.NULL else cython.cast(object, row.what),
                None if row.info == cython.NULL else cython.cast(object, row.info),
                row.thread,
                row.start,
                row.end if row.end else moment,
                row.sequence,
                row.address,
            )
        )
    clear()
    return found


def kernels() -> tuple:
    """The kernels of the last recording, and how many more there was no room for.

    Returns:
        For each launch, and for what each thread of the pool did of it: when it began and
        ended, Python's number of the launching thread, the system's number of the thread
        that ran (0: the launching one), a launch's length or a worker's chunks, where the
        machine code starts, and the worker's number (0: the launch).
    """
    i: int64_t
    row: cython.pointer(KernelSpan)
    kept: int64_t = min(_n_kernels, _kernels_room)
    found: list = []
    for i in range(kept):
        row = cython.address(_kernels[i])
        found.append(
            (
                row.start,
                row.end,
                row.owner,
                row.thread,
                row.total,
                cython.cast(cython.size_t, row.fn),
                row.worker,
            )
        )
    return found, _n_kernels - kept


def python_stack() -> tuple:
    """The lines of Python that led here, innermost first: file, line, function."""
    found: list = []
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_code
        found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(found)


def clear() -> None:
    """Lets go of all spans."""
    global _rows, _count, _room
    i: int64_t
    rows: cython.pointer(Span) = _rows
    n: int64_t = _count
    _rows = cython.NULL
    _count = _room = 0
    for i in range(n):
        Py_XDECREF(rows[i].what)
        Py_XDECREF(rows[i].info)
    free(rows)


def native_threads() -> dict:
    """The system's number of each Python thread that is alive, by Python's number."""
    return {t.ident: t.native_id for t in threading.enumerate()}


def epoch_offset() -> int:
    """What to add to a span's clock to have nanoseconds since 1970."""
    return time.time_ns() - time.monotonic_ns()
