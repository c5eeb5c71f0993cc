"""Runs an elementwise kernel over all elements of a prepared call."""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.rushlight.backends.cpu.grain import GRAIN
from cython.cimports.rushlight.backends.cpu.launch import (
    NativeKernel,
    kernel_t,
    launched,
    parallel_for,
    run_here,
    tell,
    watched,
)
from cython.cimports.rushlight.core.device import Device, backend_of
from cython.cimports.rushlight.core.iteration import LoopPlan, make_plan
from cython.cimports.rushlight.core.tensor import Tensor

NUMBERS = cython.declare(cython.int, 192)  # bytes of a call's numbers
CHUNK = cython.declare(int64_t, 8192)  # elements of one row of a flat loop
# Who watches with so much weight writes down all launches, however many one call has.
EVERYTHING = cython.declare(cython.int, 1 << 20)


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_call(fn: kernel_t, call: cython.pointer(Call)) -> cython.int:
    """Loop a kernel over all elements."""
    data: cython.p_char[12]
    ints: int64_t[25]
    k: cython.int
    count: cython.int = call.n + call.n_out
    rows: int64_t
    if call.numel == 0:
        return 0
    if watched >= EVERYTHING:
        tidy(call)
    if not call.flat:
        return run_general(fn, call)
    ints[0] = call.numel
    for k in range(count):
        data[k] = call.operands[k].data
        ints[1 + k] = 0
        if k < call.n_out or call.is_tensor[k - call.n_out]:
            ints[1 + k] = call.operands[k].itemsize
        ints[1 + count + k] = ints[1 + k] * CHUNK
    if call.numel <= GRAIN:
        if watched:
            numbers: cython.p_char = cython.cast(cython.p_char, call.scalars)
            tell(fn, data, count, ints, 1 + 2 * count, 1, 1, numbers, NUMBERS)
        return run_here(fn, data, ints, 1)
    rows = call.numel // CHUNK
    ints[0] = CHUNK
    if watched >= EVERYTHING:
        tell_rows(fn, call, data, ints, rows)
    with cython.nogil:
        parallel_for(fn, data, ints, rows, GRAIN // CHUNK)
        if rows * CHUNK < call.numel:
            ints[0] = call.numel - rows * CHUNK
            for k in range(count):
                data[k] += rows * ints[1 + count + k]
            run_here(fn, data, ints, 1)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def tidy(call: cython.pointer(Call)) -> cython.void:
    """Clears what is between a call's numbers, as all of their room is told."""
    room: cython.p_char = cython.cast(cython.p_char, call.scalars)
    kept: cython.char[192]
    k: cython.int
    memset(kept, 0, NUMBERS)
    for k in range(call.n_out, call.n_out + call.n):
        at: int64_t = call.operands[k].data - room
        if 0 <= at < NUMBERS and not call.is_tensor[k - call.n_out]:
            memcpy(kept + at, room + at, call.operands[k].itemsize)
    memcpy(room, kept, NUMBERS)


@cython.cfunc
@cython.exceptval(-1, check=False)
def tell_rows(
    fn: kernel_t,
    call: cython.pointer(Call),
    data: cython.pp_char,
    ints: cython.pointer(int64_t),
    rows: int64_t,
) -> cython.int:
    """Tells of a flat loop in rows, and of what is left after them."""
    count: cython.int = call.n + call.n_out
    numbers: cython.p_char = cython.cast(cython.p_char, call.scalars)
    rest: cython.p_char[12]
    k: cython.int
    tell(fn, data, count, ints, 1 + 2 * count, rows, GRAIN // CHUNK, numbers, NUMBERS)
    if rows * CHUNK < call.numel:
        ints[0] = call.numel - rows * CHUNK
        for k in range(count):
            rest[k] = data[k] + rows * ints[1 + count + k]
        tell(fn, rest, count, ints, 1 + 2 * count, 1, 1, numbers, NUMBERS)
        ints[0] = CHUNK
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def tell_general(
    fn: kernel_t,
    call: cython.pointer(Call),
    plan: cython.pointer(LoopPlan),
    data: cython.pp_char,
    ints: cython.pointer(int64_t),
    grain: int64_t,
) -> int64_t:
    """Tells of the two native loops, once for each place of the outer ones.

    Tiles are told of as what they are parts of. Returns how many were told.
    """
    index: int64_t[64]
    here: cython.p_char[12]
    count: cython.int = call.n + call.n_out
    numbers: cython.p_char = cython.cast(cython.p_char, call.scalars)
    told: int64_t = 0
    k: cython.int
    d: cython.int
    for d in range(plan.ndim):
        index[d] = 0
    for k in range(count):
        here[k] = data[k]
    while True:
        tell(
            fn, here, count, ints, 1 + 2 * count, plan.sizes[1], grain, numbers, NUMBERS
        )
        told += 1
        d = 2
        while d < plan.ndim:
            index[d] += 1
            for k in range(count):
                here[k] += plan.strides[k][d]
            if index[d] < plan.sizes[d]:
                break
            for k in range(count):
                here[k] -= plan.strides[k][d] * plan.sizes[d]
            index[d] = 0
            d += 1
        if d >= plan.ndim:
            return told


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_elsewhere(
    kernel: object, device: Device, call: cython.pointer(Call)
) -> cython.int:
    plan: LoopPlan
    k: cython.int
    d: cython.int
    count: cython.int = call.n + call.n_out
    addresses: list = []
    strides: list = []
    numbers: bytes = b""
    if call.numel == 0:
        return 0
    make_plan(cython.address(plan), call.operands, count, call.ndim, call.sizes)
    for k in range(count):
        value: object = None
        if k >= call.n_out:
            value = cython.cast(object, call.values[k - call.n_out])
        if value is None or is_there(value):
            addresses.append(cython.cast(uintptr_t, call.operands[k].data))
            strides.append(tuple([plan.strides[k][d] for d in range(plan.ndim)]))
            continue
        # a number, or one element of the host's: it goes along with the launch
        addresses.append(None)
        strides.append(None)
        size: cython.Py_ssize_t = call.operands[k].itemsize  # behind it may be anything
        found: bytes = PyBytes_FromStringAndSize(call.operands[k].data, size)
        numbers += found.ljust(16, b"\0")
    backend_of(device).run_elements(
        kernel,
        device,
        tuple(addresses),
        tuple([plan.sizes[d] for d in range(plan.ndim)]),
        tuple(strides),
        numbers,
        call.numel,
    )
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def is_there(value: object) -> cython.bint:
    """Whether a value lies on a device other than the host."""
    return (
        isinstance(value, Tensor)
        and not cython.cast(Tensor, value).storage.device.on_host
    )


# Copies that have a kernel for tiles whose elements lie along different loops: the one, the
# other where it has been made, and what makes it.
_copies = cython.declare(kernel_t[64])
_turned = cython.declare(kernel_t[64])
_makers = cython.declare(list, [])


@cython.cfunc
@cython.exceptval(-1, check=False)
def turn_tiles(fn: kernel_t, make: object) -> cython.int:
    """Lets the kernel that ``make()`` gives do one's work where its operands cross."""
    if len(_makers) < 64:
        _copies[len(_makers)], _turned[len(_makers)] = fn, cython.NULL
        _makers.append(make)
    return 0


@cython.cfunc
def for_tiles(fn: kernel_t) -> kernel_t:
    """The kernel for tiles of operands that cross, or the same."""
    k: cython.int
    for k in range(len(_makers)):
        if _copies[k] == fn:
            if _turned[k] == cython.NULL:
                made: NativeKernel = _makers[k]()
                _turned[k] = made.fn
            return _turned[k]
    return fn


TILE_INNER = cython.declare(int64_t, 16)
TILE_OUTER = cython.declare(int64_t, 64)
SHORT = cython.declare(int64_t, 8)  # elements of a row whose start costs more than they
SHORTEST = cython.declare(int64_t, 3)  # the same where no operand needs a buffer
STRIP = cython.declare(int64_t, 1024)  # elements of a column taken at a time


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def crosses(plan: cython.pointer(LoopPlan)) -> cython.bint:
    """Whether an operand lies densest along the outer of the two native loops.

    Then a row of it touches a new cache line at each step; tiles use all of a line.
    """
    k: cython.int
    if plan.sizes[0] < TILE_INNER or plan.sizes[1] < TILE_INNER:
        return False
    for k in range(plan.n_operands):
        if (
            plan.strides[k][1] != 0
            and plan.strides[k][1] <= 16
            and (plan.strides[k][0] >= 64 * plan.strides[k][1])
        ):
            return True
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def turn(
    plan: cython.pointer(LoopPlan), operands: cython.pointer(Operand)
) -> cython.bint:
    """Swaps the two native loops where the rows are so short that columns take less.

    A row costs as much to start as ten elements; the elements of a column pass through
    buffers, in strips that stay in the first-level cache from one column to the next.
    """
    k: cython.int
    step: int64_t
    most: int64_t = SHORTEST
    for k in range(plan.n_operands):
        if plan.strides[k][0] != operands[k].itemsize:
            most = SHORT
    if plan.sizes[0] > most or plan.sizes[1] < 8 * plan.sizes[0]:
        return False
    step = plan.sizes[0]
    plan.sizes[0] = plan.sizes[1]
    plan.sizes[1] = step
    for k in range(plan.n_operands):
        step = plan.strides[k][0]
        plan.strides[k][0] = plan.strides[k][1]
        plan.strides[k][1] = step
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def run_tiles(
    fn: kernel_t,
    data: cython.pp_char,
    ints: cython.pointer(int64_t),
    plan: cython.pointer(LoopPlan),
    width: int64_t,
) -> cython.int:
    """The two native loops in tiles that fit the first-level cache."""
    part: cython.p_char[12]
    k: cython.int
    i: int64_t = 0
    j: int64_t
    rows: int64_t
    while i < plan.sizes[1]:
        rows = min(TILE_OUTER, plan.sizes[1] - i)
        j = 0
        while j < plan.sizes[0]:
            ints[0] = min(width, plan.sizes[0] - j)
            for k in range(plan.n_operands):
                part[k] = data[k] + i * plan.strides[k][1] + j * plan.strides[k][0]
            run_here(fn, part, ints, rows)
            j += width
        i += TILE_OUTER
    ints[0] = plan.sizes[0]
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_general(fn: kernel_t, call: cython.pointer(Call)) -> cython.int:
    """Strided operands: merge dimensions, loop the outer ones here."""
    plan: LoopPlan
    data: cython.p_char[12]
    index: int64_t[64]
    ints: int64_t[25]
    count: cython.int = call.n + call.n_out
    k: cython.int
    d: cython.int
    grain: int64_t
    make_plan(cython.address(plan), call.operands, count, call.ndim, call.sizes)
    if plan.ndim == 1:
        plan.sizes[1] = 1
        for k in range(count):
            plan.strides[k][1] = 0
    turned: cython.bint = turn(cython.address(plan), call.operands)
    ints[0] = plan.sizes[0]
    for k in range(count):
        data[k] = call.operands[k].data
        ints[1 + k] = plan.strides[k][0]
        ints[1 + count + k] = plan.strides[k][1]
    for d in range(2, plan.ndim):
        index[d] = 0
    grain = GRAIN // plan.sizes[0] + 1
    tiled: cython.bint = turned or crosses(cython.address(plan))
    width: int64_t = STRIP if turned else TILE_INNER
    if watched and plan.ndim <= 2 and not tiled:
        numbers: cython.p_char = cython.cast(cython.p_char, call.scalars)
        total: int64_t = plan.sizes[1]
        tell(fn, data, count, ints, 1 + 2 * count, total, grain, numbers, NUMBERS)
    several: cython.bint = watched >= EVERYTHING and (plan.ndim > 2 or tiled)
    told: int64_t = 0
    before: int64_t = launched()
    if several:
        told = tell_general(fn, call, cython.address(plan), data, ints, grain)
    in_tiles: kernel_t = fn
    if tiled and not turned:
        in_tiles = for_tiles(fn)
    with cython.nogil:
        while True:
            if tiled:
                run_tiles(in_tiles, data, ints, cython.address(plan), width)
            else:
                parallel_for(fn, data, ints, plan.sizes[1], grain)
            d = 2
            while d < plan.ndim:
                index[d] += 1
                for k in range(count):
                    data[k] += plan.strides[k][d]
                if index[d] < plan.sizes[d]:
                    break
                for k in range(count):
                    data[k] -= plan.strides[k][d] * plan.sizes[d]
                index[d] = 0
                d += 1
            if d >= plan.ndim:
                break
    if several:  # so many launches more than were told of
        told = launched() - before - told
        tell(cython.NULL, data, 0, ints, 0, told, 0, cython.NULL, 0)
    return 0
