"""Runs an elementwise kernel over all elements of a prepared call."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.rushlight.core.device import Device, Elements, backend_of
from cython.cimports.rushlight.core.iteration import LoopPlan, make_plan
from cython.cimports.rushlight.core.keys import OBSERVE_ALL
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.runtime.cpu.grain import GRAIN
from cython.cimports.rushlight.runtime.cpu.launch import (
    NativeKernel,
    kernel_t,
    launch_kernel,
    parallel_for,
    run_here,
    watched,
)

NUMBERS = cython.declare(cython.int, 192)  # bytes of a call's numbers
CHUNK = cython.declare(int64_t, 8192)  # elements of one row of a flat loop


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_call(fn: kernel_t, call: cython.pointer(Call)) -> cython.int:
    """Loop a kernel over all elements."""
    data: cython.p_char[12]
    ints: int64_t[25]
    k: cython.int
    count: cython.int = call.n + call.n_out
    if call.numel == 0:
        return 0
    if watched >= OBSERVE_ALL:
        tidy(call)
    if not call.flat:
        return run_general(fn, call)
    for k in range(count):
        data[k] = call.operands[k].data
        ints[1 + k] = 0
        if k < call.n_out or call.is_tensor[k - call.n_out]:
            ints[1 + k] = call.operands[k].itemsize
    return run_line(fn, call, data, ints)


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_line(
    fn: kernel_t,
    call: cython.pointer(Call),
    data: cython.pp_char,
    ints: cython.pointer(int64_t),
) -> cython.int:
    """Loops over operands that are one line each, in rows that threads share.

    Args:
        ints: from the second on the operands' steps.
    """
    k: cython.int
    count: cython.int = call.n + call.n_out
    rows: int64_t
    ints[0] = call.numel
    for k in range(count):
        ints[1 + count + k] = ints[1 + k] * CHUNK
    if call.numel <= GRAIN:
        if watched:
            numbers: cython.p_char = cython.cast(cython.p_char, call.scalars)
            launch_kernel(fn, data, count, ints, 1 + 2 * count, 1, 1, numbers, NUMBERS)
        return run_here(fn, data, ints, 1)
    rows = call.numel // CHUNK
    ints[0] = CHUNK
    if watched >= OBSERVE_ALL:
        launch_rows(fn, call, data, ints, rows)
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
def launch_rows(
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
    launch_kernel(
        fn, data, count, ints, 1 + 2 * count, rows, GRAIN // CHUNK, numbers, NUMBERS
    )
    if rows * CHUNK < call.numel:
        ints[0] = call.numel - rows * CHUNK
        for k in range(count):
            rest[k] = data[k] + rows * ints[1 + count + k]
        launch_kernel(fn, rest, count, ints, 1 + 2 * count, 1, 1, numbers, NUMBERS)
        ints[0] = CHUNK
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def launch_general(
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
    launches: int64_t = 0
    k: cython.int
    d: cython.int
    for d in range(plan.ndim):
        index[d] = 0
    for k in range(count):
        here[k] = data[k]
    while True:
        launch_kernel(
            fn, here, count, ints, 1 + 2 * count, plan.sizes[1], grain, numbers, NUMBERS
        )
        launches += 1
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
            return launches


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_on_device(
    kernel: object, device: Device, call: cython.pointer(Call)
) -> cython.int:
    found: Elements
    k: cython.int
    size: cython.size_t
    count: cython.int = call.n + call.n_out
    if call.numel == 0:
        return 0
    make_plan(cython.address(found.plan), call.operands, count, call.ndim, call.sizes)
    found.n_numbers = 0
    found.total = call.numel
    for k in range(count):
        if k < call.n_out or on_device(
            cython.cast(object, call.values[k - call.n_out])
        ):
            found.data[k] = call.operands[k].data
            continue
        # a number, or one element of the host's: it goes along with the launch
        found.data[k] = cython.NULL
        size = call.operands[k].itemsize  # behind it may be anything
        found.numbers[2 * found.n_numbers] = found.numbers[2 * found.n_numbers + 1] = 0
        memcpy(
            cython.address(found.numbers[2 * found.n_numbers]),
            call.operands[k].data,
            size,
        )
        found.n_numbers += 1
    return backend_of(device).run_elements(kernel, device, cython.address(found))


@cython.cfunc
@cython.exceptval(check=False)
def on_device(value: object) -> cython.bint:
    """Whether a value lies on a device other than the host."""
    return (
        isinstance(value, Tensor)
        and not cython.cast(Tensor, value).storage.device.on_host
    )


# Copies that have a kernel for tiles whose elements lie along different loops: the one, the
# other where it has been made, and what makes it.
_copies = cython.declare(kernel_t[64])
_transposed = cython.declare(kernel_t[64])
_makers = cython.declare(list, [])


@cython.cfunc
@cython.exceptval(-1, check=False)
def bind_tiled_copy(fn: kernel_t, make: object) -> cython.int:
    """Lets the kernel that ``make()`` gives do one's work where its operands cross."""
    if len(_makers) < 64:
        _copies[len(_makers)], _transposed[len(_makers)] = fn, cython.NULL
        _makers.append(make)
    return 0


@cython.cfunc
def for_tiles(fn: kernel_t) -> kernel_t:
    """The kernel for tiles of operands that cross, or the same."""
    k: cython.int
    for k in range(len(_makers)):
        if _copies[k] == fn:
            if _transposed[k] == cython.NULL:
                made: NativeKernel = _makers[k]()
                _transposed[k] = made.fn
            return _transposed[k]
    return fn


TILE_INNER = cython.declare(int64_t, 16)
TILE_OUTER = cython.declare(int64_t, 32)
TRANSPOSED = cython.declare(
    int64_t, 16384
)  # bytes of a tile's operands that lie across

# The kernels that turn elements of four and of eight bytes, and what gives them.
_turning = cython.declare(kernel_t[2])
_transpose_maker = cython.declare(object, None)


def bind_transpose(function):
    """Name what gives the kernel that turns tiles of elements of so many bytes."""
    global _transpose_maker
    _transpose_maker = function
    _turning[0] = _turning[1] = cython.NULL


@cython.cfunc
def turning(width: int64_t) -> kernel_t:
    """The kernel that turns tiles of elements of four or eight bytes; or none."""
    k: cython.int = width // 8
    if _turning[k] == cython.NULL and _transpose_maker is not None:
        made: NativeKernel = _transpose_maker(width)
        _turning[k] = made.fn
    return _turning[k]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def lies_across(plan: cython.pointer(LoopPlan), k: cython.int) -> cython.bint:
    """Whether an operand lies densest along the outer of the two native loops."""
    return (
        plan.strides[k][1] != 0
        and plan.strides[k][1] <= 16
        and plan.strides[k][0] >= 64 * plan.strides[k][1]
    )


@cython.cfunc
@cython.exceptval(-1, check=False)
def transpose_first(
    nest: cython.pointer(int64_t),
    call: cython.pointer(Call),
    plan: cython.pointer(LoopPlan),
) -> cython.int:
    """Has tiles of inputs that lie across turned before the kernel reads them."""
    k: cython.int
    size: int64_t
    bits: int64_t = 0
    room: int64_t = 0
    for k in range(call.n_out, call.n + call.n_out):
        size = call.operands[k].itemsize
        if not lies_across(plan, k) or plan.strides[k][1] != size:
            continue
        if (size == 4 or size == 8) and turning(size) != cython.NULL:
            bits |= cython.cast(int64_t, size) << (4 * k)
            room += size
    if 0 < room * TILE_OUTER * TILE_INNER <= TRANSPOSED:
        nest[3] = TRANSPOSED // (room * TILE_OUTER) // TILE_INNER * TILE_INNER
        nest[4] = bits
        nest[5] = cython.cast(int64_t, cython.cast(uintptr_t, _turning[0]))
        nest[6] = cython.cast(int64_t, cython.cast(uintptr_t, _turning[1]))
    return 0


SHORT = cython.declare(int64_t, 8)  # elements of a row whose start costs more than they
SHORTEST = cython.declare(int64_t, 3)  # the same where no operand needs a buffer
SHORTER = cython.declare(int64_t, 4)  # the same where loops lie between
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
        if lies_across(plan, k):
            return True
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def swap_loops(
    plan: cython.pointer(LoopPlan), operands: cython.pointer(Operand)
) -> cython.bint:
    """Swaps the inner loop with a long one where rows are so short that columns take less.

    A row costs as much to start as ten elements; the elements of a column pass through
    buffers, in strips that stay in the first-level cache from one column to the next.
    """
    k: cython.int
    d: cython.int
    long: cython.int = 1
    step: int64_t
    most: int64_t = SHORTEST
    for k in range(plan.n_operands):
        if plan.strides[k][0] != operands[k].itemsize:
            most = SHORT
    if plan.sizes[1] < 8 * plan.sizes[0]:
        for d in range(2, plan.ndim):
            if plan.sizes[d] > plan.sizes[long]:
                long = d
        most = min(most, SHORTER)  # the loops between go through every strip
    if plan.sizes[0] > most or plan.sizes[long] < 8 * plan.sizes[0]:
        return False
    step = plan.sizes[0]
    plan.sizes[0] = plan.sizes[long]
    plan.sizes[long] = step
    for k in range(plan.n_operands):
        step = plan.strides[k][0]
        plan.strides[k][0] = plan.strides[k][long]
        plan.strides[k][long] = step
    return True


# Where a nest's loops begin, behind the kernel, its operands, how many loops, the width of
# tiles, which operands are turned (four bits for each: its bytes), and the kernels for it.
NEST = cython.declare(cython.int, 7)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_nest(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """A kernel's two native loops for each place of the loops around them.

    It is a kernel itself, over the rows of all places, or over as many blocks of rows where
    these go in tiles that fit the first-level cache: so one launch is all that is told of,
    and the pool divides all of it.
    """
    fn: kernel_t = cython.cast(kernel_t, cython.cast(uintptr_t, ints[0]))
    count: cython.int = ints[1]
    ndim: cython.int = ints[2]
    width: int64_t = ints[3]
    sizes: cython.pointer(cython.const[int64_t]) = ints + NEST
    strides: cython.pointer(cython.const[int64_t]) = sizes + ndim
    own: int64_t[25]
    laid: int64_t[25]
    here: cython.p_char[12]
    part: cython.p_char[12]
    room: cython.char[16448]
    rows: int64_t = sizes[1]
    faults: cython.int = 0
    i: int64_t
    j: int64_t
    place: int64_t
    first: int64_t
    last: int64_t
    k: cython.int
    d: cython.int
    if width:
        rows = (rows + TILE_OUTER - 1) // TILE_OUTER
    own[0] = sizes[0]
    for k in range(count):
        own[1 + k] = strides[k * ndim]
        own[1 + count + k] = strides[k * ndim + 1]
    while begin < end:
        place = begin // rows
        first = begin - place * rows
        last = min(rows, first + end - begin)
        begin += last - first
        for k in range(count):
            here[k] = data[k]
        for d in range(2, ndim):
            for k in range(count):
                here[k] += place % sizes[d] * strides[k * ndim + d]
            place = place // sizes[d]
        if not width:
            faults |= fn(here, own, first, last)
            continue
        i = first * TILE_OUTER
        while i < min(last * TILE_OUTER, sizes[1]):
            j = 0
            while j < sizes[0]:
                own[0] = min(width, sizes[0] - j)
                for k in range(count):
                    part[k] = here[k] + i * own[1 + count + k] + j * own[1 + k]
                if ints[4]:
                    transpose_tile(
                        part, own, laid, count, sizes[1] - i, width, ints, room
                    )
                    faults |= fn(part, laid, 0, min(TILE_OUTER, sizes[1] - i))
                else:
                    faults |= fn(part, own, 0, min(TILE_OUTER, sizes[1] - i))
                j += width
            i += TILE_OUTER
    return faults


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def transpose_tile(
    part: cython.pp_char,
    own: cython.pointer(int64_t),
    laid: cython.pointer(int64_t),
    count: cython.int,
    rows: int64_t,
    width: int64_t,
    ints: cython.pointer(cython.const[int64_t]),
    room: cython.p_char,
) -> cython.void:
    """Copies a tile of each operand that lies across to where it lies along.

    Args:
        part: where the operands' tiles begin; those of the copies afterwards.
        own: the tile's size and the operands' steps.
        laid: takes them, with the copies' steps.
        rows: how many there are from the tile on.
        ints: as ``run_nest`` has them.
        room: for the copies.
    """
    fn: kernel_t
    pair: cython.p_char[2]
    steps: int64_t[5]
    size: int64_t
    k: cython.int
    at: cython.p_char = room + (64 - cython.cast(uintptr_t, room) % 64) % 64
    for k in range(1 + 2 * count):
        laid[k] = own[k]
    for k in range(count):
        size = (ints[4] >> (4 * k)) & 15
        if not size:
            continue
        pair[0], pair[1] = at, part[k]
        steps[0], steps[1], steps[2] = own[0], size, own[1 + k]
        steps[3], steps[4] = width * size, own[1 + count + k]
        fn = cython.cast(kernel_t, cython.cast(uintptr_t, ints[4 + size // 4]))
        fn(pair, steps, 0, min(TILE_OUTER, rows))
        part[k] = at
        laid[1 + k], laid[1 + count + k] = size, width * size
        at += width * size * TILE_OUTER


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_general(fn: kernel_t, call: cython.pointer(Call)) -> cython.int:
    """Strided operands: merge dimensions, run the two innermost, or all as a nest."""
    plan: LoopPlan
    data: cython.p_char[12]
    ints: int64_t[25]
    count: cython.int = call.n + call.n_out
    k: cython.int
    numbers: cython.p_char = cython.cast(cython.p_char, call.scalars)
    make_plan(cython.address(plan), call.operands, count, call.ndim, call.sizes)
    if plan.ndim == 1:
        for k in range(count):
            data[k] = call.operands[k].data
            ints[1 + k] = plan.strides[k][0]
        return run_line(fn, call, data, ints)
    transposed: cython.bint = swap_loops(cython.address(plan), call.operands)
    ints[0] = plan.sizes[0]
    for k in range(count):
        data[k] = call.operands[k].data
        ints[1 + k] = plan.strides[k][0]
        ints[1 + count + k] = plan.strides[k][1]
    total: int64_t = plan.sizes[1]
    grain: int64_t = GRAIN // plan.sizes[0] + 1
    if transposed or plan.ndim > 2 or crosses(cython.address(plan)):
        return run_outer(fn, call, cython.address(plan), data, ints, transposed)
    if watched:
        launch_kernel(
            fn, data, count, ints, 1 + 2 * count, total, grain, numbers, NUMBERS
        )
    with cython.nogil:
        parallel_for(fn, data, ints, total, grain)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_outer(
    fn: kernel_t,
    call: cython.pointer(Call),
    plan: cython.pointer(LoopPlan),
    data: cython.pp_char,
    ints: cython.pointer(int64_t),
    transposed: cython.bint,
) -> cython.int:
    """More loops than a kernel has, or tiles: one launch of a nest.

    Args:
        ints: what the kernel itself would be given, without tiles.
        transposed: whether the native loops were swapped.
    """
    nest: int64_t[839]
    count: cython.int = call.n + call.n_out
    ndim: cython.int = plan.ndim
    n: cython.int = NEST + ndim * (1 + count)
    k: cython.int
    d: cython.int
    numbers: cython.p_char = cython.cast(cython.p_char, call.scalars)
    total: int64_t = plan.sizes[1]
    grain: int64_t = GRAIN // plan.sizes[0] + 1
    inner: kernel_t = fn
    nest[3] = nest[4] = nest[5] = nest[6] = 0
    if transposed:
        nest[3] = STRIP
    elif crosses(plan):
        nest[3] = TILE_INNER
        inner = for_tiles(fn)
        if inner == fn:
            transpose_first(nest, call, plan)
    launches: int64_t = 0
    everything: cython.bint = watched >= OBSERVE_ALL
    if everything:
        launches = launch_general(fn, call, plan, data, ints, grain)
    nest[0] = cython.cast(int64_t, cython.cast(uintptr_t, inner))
    nest[1] = count
    nest[2] = ndim
    for d in range(ndim):
        nest[NEST + d] = plan.sizes[d]
        for k in range(count):
            nest[NEST + ndim * (1 + k) + d] = plan.strides[k][d]
    if nest[3]:
        total = (total + TILE_OUTER - 1) // TILE_OUTER
        grain = GRAIN // (plan.sizes[0] * TILE_OUTER) + 1
    for d in range(2, ndim):
        total *= plan.sizes[d]
    if watched and not everything:
        launch_kernel(run_nest, data, count, nest, n, total, grain, numbers, NUMBERS)
    with cython.nogil:
        parallel_for(run_nest, data, nest, total, grain)
    if everything:  # so many launches more, or fewer, than were told of
        launch_kernel(cython.NULL, data, 0, ints, 0, 1 - launches, 0, cython.NULL, 0)
    return 0
