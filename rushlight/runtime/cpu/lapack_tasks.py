"""Calls of LAPACK for the matrices of a batch, each routine's arguments given as data.

A routine takes addresses alone: of numbers and letters, of a matrix's place in a tensor, of
memory to work in. What each argument is stands in a `LapackCall` (see ``lapack_tasks.pxd``),
and `run_routine` is the one task that the pool runs: a routine that wants to be asked for
its workspace is asked once for each piece of the batch. Results are faults as kernels report
them: NO_MEMORY where there is no workspace.

Source: LAPACK Users' Guide, 3rd edition, chapter 5, "Documentation and Software Conventions".
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int32_t, int64_t, uintptr_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memset
from cython.cimports.rushlight.core.keys import KEY_PLANNING, OBSERVE_ALL
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.runtime.cpu.lapack_library import routine, use_threads
from cython.cimports.rushlight.runtime.cpu.launch import (
    kernel_t,
    launch_kernel,
    launch_own,
    parallel_for,
    run_here,
    watched,
)

from rushlight.runtime.cpu.pool import get_num_threads

NO_MEMORY = cython.declare(cython.int, 2)
N_INTS = cython.declare(cython.int, 3 + 3 * MOST_ARGUMENTS)

# Floating-point operations from which one matrix is worth OpenBLAS's threads, and those
# that make a piece of a batch worth a thread of the pool.
LARGE = cython.declare(int64_t, 1 << 28)
PIECE = cython.declare(int64_t, 1 << 17)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_routine(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Calls the routine ``data[0]`` for the matrices from ``begin`` to ``end``."""
    place: IndexOffsets
    count: cython.int = ints[0]
    i: int64_t
    k: cython.int
    failed: cython.int = 0
    for k in range(MOST_ARGUMENTS):
        place.held[k] = cython.NULL
        place.at[k] = cython.cast(cython.p_void, 1)  # the lengths of letters
    for k in range(count):
        if not stand(cython.address(place), ints, k):
            failed = NO_MEMORY
    if not failed:
        failed = ask(cython.address(place), data, ints, begin)
    for i in range(begin, begin if failed else end):
        call_one(cython.address(place), data, ints, i)
    for k in range(count):
        free(place.held[k])
    return failed


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stand(
    place: cython.pointer(IndexOffsets),
    ints: cython.pointer(cython.const[int64_t]),
    k: cython.int,
) -> cython.bint:
    """Places an argument that is the same for all matrices; whether there is memory."""
    what: int64_t = ints[1 + 3 * k]
    place.numbers[k] = ints[2 + 3 * k] if what == ARG_NUMBER else -1
    place.asked[2 * k] = 0
    if what == ARG_NUMBER or what == ARG_LENGTH:
        place.at[k] = cython.address(place.numbers[k])
    elif what == ARG_BITS:
        place.at[k] = cython.cast(cython.p_void, ints + ints[2 + 3 * k])
    elif what == ARG_WORKSPACE:
        place.at[k] = cython.address(place.asked[2 * k])
    elif what == ARG_MEMORY or what == ARG_ZEROS:
        place.at[k] = place.held[k] = malloc(max(ints[2 + 3 * k], 1))
        return place.held[k] != cython.NULL
    elif what == ARG_CODE:
        place.at[k] = cython.address(place.numbers[k])
    elif what == ARG_NOTHING:
        place.at[k] = cython.NULL
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ask(
    place: cython.pointer(IndexOffsets),
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
) -> cython.int:
    """Lets a routine tell the lengths of its workspaces, and allocates them."""
    k: cython.int
    length: int64_t
    asked: cython.bint = False
    for k in range(ints[0]):
        asked = asked or ints[1 + 3 * k] == ARG_WORKSPACE
    if not asked:
        return 0
    call_one(place, data, ints, begin)
    for k in range(ints[0]):
        if ints[1 + 3 * k] == ARG_WORKSPACE:
            length = max(1, answer(ints[3 + 3 * k], cython.address(place.asked[2 * k])))
            place.numbers[k] = cython.cast(cython.int, length)
            place.at[k] = place.held[k] = malloc(length * ints[2 + 3 * k])
            if place.held[k] == cython.NULL:
                return NO_MEMORY
    for k in range(ints[0]):
        if ints[1 + 3 * k] == ARG_LENGTH:
            place.numbers[k] = place.numbers[ints[2 + 3 * k]]
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def answer(form: int64_t, left: cython.pointer(cython.double)) -> int64_t:
    """The length that a routine left at the beginning of a workspace."""
    if form == LENGTH_AS_FLOAT:
        return cython.cast(int64_t, cython.cast(cython.p_float, left)[0])
    if form == LENGTH_AS_DOUBLE:
        return cython.cast(int64_t, left[0])
    return cython.cast(cython.p_int, left)[0]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def call_one(
    place: cython.pointer(IndexOffsets),
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    i: int64_t,
) -> cython.void:
    """Calls the routine for one matrix."""
    at: cython.pp_void = place.at
    k: cython.int
    for k in range(ints[0]):
        if ints[1 + 3 * k] == ARG_EACH:
            at[k] = data[ints[2 + 3 * k]] + i * ints[3 + 3 * k]
        elif ints[1 + 3 * k] == ARG_ZEROS:
            memset(at[k], 0, ints[2 + 3 * k])
    # those beyond the last argument and its letters' lengths are not looked at
    cython.cast(routine_t, data[0])(
        at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], at[8], at[9], at[10],
        at[11], at[12], at[13], at[14], at[15], at[16], at[17], at[18], at[19],
    )  # fmt: skip


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def unpack_pairs(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Complex eigenvalues and vectors out of how `geev` hands over a real matrix's.

    Of parts, packed vectors, values and vectors; ints: kind, order, whether vectors are
    wanted. A conjugate pair takes two columns: the real part, then the imaginary one.
    """
    n: int64_t = ints[1]
    short: int64_t = n * (4 << ints[0])
    i: int64_t
    for i in range(begin, end):
        if ints[0] == 0:
            unpack_numbers(
                n, cython.cast(cython.p_float, data[0] + 2 * i * short),
                cython.cast(cython.p_float, data[1] + i * n * short),
                cython.cast(cython.p_float, data[2] + 2 * i * short),
                cython.cast(cython.p_float, data[3] + 2 * i * n * short), ints[2] != 0,
            )  # fmt: skip
        else:
            unpack_numbers(
                n, cython.cast(cython.p_double, data[0] + 2 * i * short),
                cython.cast(cython.p_double, data[1] + i * n * short),
                cython.cast(cython.p_double, data[2] + 2 * i * short),
                cython.cast(cython.p_double, data[3] + 2 * i * n * short), ints[2] != 0,
            )  # fmt: skip
    return 0


RealPointer = cython.fused_type(cython.p_float, cython.p_double)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def unpack_numbers(
    n: int64_t,
    parts: RealPointer,
    packed: RealPointer,
    values: RealPointer,
    vectors: RealPointer,
    wanted: cython.bint,
) -> cython.void:
    j: int64_t
    k: int64_t
    for j in range(n):
        values[2 * j] = parts[j]
        values[2 * j + 1] = parts[n + j]
    if not wanted:
        return
    j = 0
    while j < n:
        if parts[n + j] == 0 or j + 1 == n:
            for k in range(n):
                vectors[2 * (j * n + k)] = packed[j * n + k]
                vectors[2 * (j * n + k) + 1] = 0
            j += 1
            continue
        for k in range(n):
            vectors[2 * (j * n + k)] = packed[j * n + k]
            vectors[2 * (j * n + k) + 1] = packed[(j + 1) * n + k]
            vectors[2 * ((j + 1) * n + k)] = packed[j * n + k]
            vectors[2 * ((j + 1) * n + k) + 1] = -packed[(j + 1) * n + k]
        j += 2


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def check_codes(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Whether a matrix's code, of ``ints[0]`` at ``data[0]``, tells that it failed."""
    codes: cython.pointer(int32_t) = cython.cast(cython.pointer(int32_t), data[0])
    i: int64_t
    for i in range(ints[0]):
        if codes[i] != 0:
            return 1
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def recorded() -> cython.bint:
    """Whether this thread's launches are all written down, to be done again elsewhere.

    Then routines of LAPACK are called on this thread, and nothing in their place.
    """
    return watched >= OBSERVE_ALL and (state().included >> KEY_PLANNING) & 1


def host_tasks() -> dict:
    """The tasks that a library without Python has in C, by where they start here."""
    return {
        cython.cast(uintptr_t, run_routine): "run_routine",
        cython.cast(uintptr_t, unpack_pairs): "unpack_pairs",
        cython.cast(uintptr_t, check_codes): "check_codes",
    }


def set_codes(codes: Tensor, operator: str) -> None:
    """Tells who writes launches down that an operator fails by codes that are not zero."""
    data: cython.p_char[2]
    ints: int64_t[1]
    if not recorded() or not codes.numel_:
        return
    name: bytes = operator.encode() + b"\0"
    ints[0] = codes.numel_
    data[0], data[1] = codes.pointer(), name
    launch_own(check_codes, data, 2, ints, 1, data[1], len(name))


@cython.cfunc
@cython.exceptval(-1)
def spread(
    task: kernel_t,
    data: cython.pp_char,
    ints: cython.pointer(int64_t),
    count: int64_t,
    work: int64_t,
) -> cython.int:
    """Runs a task over the matrices of a batch, ``work`` operations each."""
    wanted: cython.int = 1 if recorded() else get_num_threads()
    grain: int64_t = count
    if work < LARGE or count >= wanted:
        wanted = 1
        grain = max(cython.cast(int64_t, 1), PIECE // (work + 1))
    use_threads(wanted)
    with cython.nogil:
        if count <= grain:
            run_here(task, data, ints, count)
        else:
            parallel_for(task, data, ints, count, grain)
    return 0


# A call is put together in the order of its routine's arguments.


@cython.cfunc
@cython.exceptval(-1)
def begin_call(
    c: cython.pointer(LapackCall), number: cython.int, kind: cython.int
) -> cython.int:
    """Begins the call of a routine for a kind of numbers."""
    if recorded():  # no run is to differ from another by what nobody reads
        memset(c.ints, 0, cython.sizeof(c.ints))
    c.ints[0] = 0
    c.addresses = 1
    c.data[0] = routine(number, kind)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def argument(
    c: cython.pointer(LapackCall), what: cython.int, a: int64_t, b: int64_t
) -> cython.int:
    """Puts an argument; its number among them."""
    k: cython.int = c.ints[0]
    c.ints[0] = k + 1
    c.ints[1 + 3 * k] = what
    c.ints[2 + 3 * k] = a
    c.ints[3 + 3 * k] = b
    return k


@cython.cfunc
@cython.exceptval(check=False)
def number(c: cython.pointer(LapackCall), value: int64_t) -> cython.void:
    """Puts a size or a letter."""
    argument(c, ARG_NUMBER, value, 0)


@cython.cfunc
@cython.exceptval(check=False)
def numbers(
    c: cython.pointer(LapackCall), ints: cython.pointer(int64_t), count: cython.int
) -> cython.void:
    """Puts the sizes and letters that follow the kind in ``ints``."""
    k: cython.int
    for k in range(1, count + 1):
        number(c, ints[k])


@cython.cfunc
@cython.exceptval(check=False)
def each(
    c: cython.pointer(LapackCall), first: cython.p_char, step: int64_t
) -> cython.void:
    """Puts the place of each matrix: the first one's, and the bytes between them."""
    c.data[c.addresses] = first
    argument(c, ARG_EACH, c.addresses, step)
    c.addresses += 1


@cython.cfunc
@cython.exceptval(check=False)
def matrices(c: cython.pointer(LapackCall), a: Tensor) -> cython.void:
    """Puts matrices, and the distance of their columns."""
    rows: int64_t = a.sizes[a.ndim_ - 2]
    each(c, a.pointer(), rows * a.sizes[a.ndim_ - 1] * a.dtype_.itemsize)
    number(c, rows)


@cython.cfunc
@cython.exceptval(check=False)
def each_code(c: cython.pointer(LapackCall), codes: Tensor) -> cython.void:
    """Puts an int32 of each matrix."""
    each(c, codes.pointer(), 4)


@cython.cfunc
@cython.exceptval(check=False)
def queried(
    c: cython.pointer(LapackCall), item: int64_t, form: int64_t, length: cython.bint
) -> cython.void:
    """Puts a workspace that the routine tells the length of, and that length."""
    k: cython.int = argument(c, ARG_WORKSPACE, item, form)
    if length:
        argument(c, ARG_LENGTH, k, 0)


@cython.cfunc
@cython.exceptval(check=False)
def bits(
    c: cython.pointer(LapackCall), kind: int64_t, value: cython.double
) -> cython.void:
    """Puts the address of a real number, of a type that ``kind`` is of."""
    at: cython.int = 1 + 3 * MOST_ARGUMENTS
    c.ints[at] = c.ints[at + 1] = 0
    if kind % 2 == 0:
        cython.cast(cython.p_float, c.ints + at)[0] = value
    else:
        cython.cast(cython.p_double, c.ints + at)[0] = value
    argument(c, ARG_BITS, at, 0)


@cython.cfunc
@cython.exceptval(-1)
def call_each(
    c: cython.pointer(LapackCall), count: int64_t, work: int64_t
) -> cython.int:
    """Calls for every matrix, ``work`` operations each."""
    if recorded():
        launch_kernel(
            run_routine, c.data, c.addresses, c.ints, N_INTS, count,
            max(cython.cast(int64_t, 1), PIECE // (work + 1)), cython.NULL, 0,
        )  # fmt: skip
    spread(run_routine, c.data, c.ints, count, work)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def real_bytes(kind: int64_t) -> int64_t:
    """Bytes of a number's real part."""
    return 4 << (kind & 1)
