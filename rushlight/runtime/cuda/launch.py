"""Launches kernels on a card, by the address of the driver's function."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memcpy

_entry = cython.declare(launch_t, cython.NULL)


def set_entry(address: uintptr_t) -> None:
    """Says where the driver's ``cuLaunchKernel`` is."""
    global _entry
    _entry = cython.cast(launch_t, address)


def launch_elements(
    function: uintptr_t,
    stream: uintptr_t,
    grid: cython.uint,
    threads: cython.uint,
    addresses: tuple,
    ints: tuple,
    numbers: bytes,
    total: int64_t,
    fault: uintptr_t,
) -> int:
    """Puts an elementwise kernel into a queue; the driver's result code.

    Args:
        addresses: the operands' first elements, 0 for those that are numbers.
        ints: sizes and steps; see `emit.device.emit_elements`.
        numbers: 16 bytes for each operand that is a number.
        total: how many elements.
        fault: where the kernel notes what it refuses.
    """
    data: cython.p_void[24]
    values: int64_t[64]
    room: cython.double[24]
    parameters: cython.p_void[5]
    fill(addresses, ints, data, values)
    if len(numbers) > 8 * 24:
        raise ValueError(f"launch: {len(numbers)} bytes of numbers")
    memcpy(room, cython.cast(cython.p_char, numbers), len(numbers))
    parameters[0], parameters[1], parameters[2] = data, values, room
    parameters[3] = cython.address(total)
    parameters[4] = cython.address(fault)
    return put(function, stream, grid, threads, parameters, 0)


def launch_spans(
    function: uintptr_t,
    stream: uintptr_t,
    grid: cython.uint,
    threads: cython.uint,
    addresses: tuple,
    ints: tuple,
    total: int64_t,
    chunk: int64_t,
    fault: uintptr_t,
    shared: cython.uint = 0,
) -> int:
    """Puts a kernel whose threads take spans of its axis into a queue; the result code.

    Args:
        addresses: the data pointers; 0 where there is none.
        ints: sizes, strides and parameters, as the kernel lays them out.
        total: the length of the parallel axis.
        chunk: how much of it a thread takes at a time.
        fault: where the kernel notes what it refuses.
        shared: bytes of shared memory that a block has beside the kernel's own.
    """
    data: cython.p_void[24]
    values: int64_t[64]
    parameters: cython.p_void[5]
    fill(addresses, ints, data, values)
    parameters[0], parameters[1] = data, values
    parameters[2] = cython.address(total)
    parameters[3] = cython.address(chunk)
    parameters[4] = cython.address(fault)
    return put(function, stream, grid, threads, parameters, shared)


def launch_lists(
    function: uintptr_t,
    stream: uintptr_t,
    grid: cython.uint,
    threads: cython.uint,
    table: bytes,
    numbers: bytes,
    tensors: int64_t,
    pieces: int64_t,
    fault: uintptr_t,
) -> int:
    """Puts an elementwise kernel over lists of tensors into a queue; the result code.

    Args:
        table: `ROOM` words; see `emit.device.emit_lists`.
        numbers: 16 bytes for each operand that is a number.
        tensors: how many each list has.
        pieces: how many all of them are cut into.
        fault: where the kernel notes what it refuses.
    """
    words: int64_t[440]
    room: cython.double[24]
    parameters: cython.p_void[5]
    if _entry == cython.NULL:
        raise RuntimeError("launch: no driver was loaded")
    if len(table) != 8 * ROOM or len(numbers) > 8 * 24:
        raise ValueError(
            f"launch: a table of {len(table)} bytes and {len(numbers)} of numbers"
        )
    memcpy(words, cython.cast(cython.p_char, table), len(table))
    memcpy(room, cython.cast(cython.p_char, numbers), len(numbers))
    parameters[0], parameters[1] = words, room
    parameters[2] = cython.address(tensors)
    parameters[3] = cython.address(pieces)
    parameters[4] = cython.address(fault)
    return put(function, stream, grid, threads, parameters, 0)


@cython.cfunc
@cython.exceptval(check=False)
def put(
    function: uintptr_t,
    stream: uintptr_t,
    grid: cython.uint,
    threads: cython.uint,
    parameters: cython.pp_void,
    shared: cython.uint,
) -> cython.int:
    """Puts a launch into a queue; the driver's result code."""
    code: cython.int
    with cython.nogil:
        code = _entry(
            cython.cast(cython.p_void, function),
            grid, 1, 1, threads, 1, 1, shared,
            cython.cast(cython.p_void, stream), parameters, cython.NULL,
        )  # fmt: skip
    return code


@cython.cfunc
@cython.exceptval(-1, check=False)
def fill(
    addresses: tuple,
    ints: tuple,
    data: cython.pointer(cython.p_void),
    values: cython.pointer(int64_t),
) -> cython.int:
    """Pointers and integers where the driver copies them from."""
    i: cython.Py_ssize_t
    address: uintptr_t
    if _entry == cython.NULL:
        raise RuntimeError("launch: no driver was loaded")
    if len(addresses) > MOST_DATA or len(ints) > MOST_INTS:
        raise ValueError(
            f"launch: {len(addresses)} pointers and {len(ints)} integers; a kernel on a "
            f"card takes {MOST_DATA} and {MOST_INTS}"
        )
    for i in range(len(addresses)):
        address = addresses[i]
        data[i] = cython.cast(cython.p_void, address)
    for i in range(len(addresses), MOST_DATA):
        data[i] = cython.NULL
    for i in range(len(ints)):
        values[i] = ints[i]
    for i in range(len(ints), MOST_INTS):
        values[i] = 0
    return 0
