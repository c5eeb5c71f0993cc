"""Runs kernels over the rows of contiguous tensors, whichever axis the rows lie along.

A tensor is seen as ``(outer, size, inner)``, and a row runs along the middle axis.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core.device import Backend, backend_of
from cython.cimports.rushlight.core.geometry import wrap_dim
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.dispatch.row_variants import (
    ALONG,
    ANY_WAY,
    BESIDE,
    TURNED,
    Ways,
)
from cython.cimports.rushlight.runtime.cpu.grain import GRAIN
from cython.cimports.rushlight.runtime.cpu.launch import (
    NativeKernel,
    parallel_for,
    run_here,
    tell,
    watched,
)

# How an operand moves with the outer axis, the inner axis and the row.
EACH = "each"  # an element for every element
ROW = "row"  # an element for every row
SHARED = "shared"  # one row for all
APART = "apart"  # an element for every element, the rows one after the other
OUTER = "outer"  # an element for each place along the outer axis
MOST_NUMBERS = cython.declare(cython.int, 4)  # that a launch takes
_NATIVE = cython.declare(dict, {})


@cython.cfunc
def ways_for(kernel: object, outputs: list, inputs: list, compute: object) -> Ways:
    """The specialised kernels, found by the operands' types."""
    key = (
        kernel,
        tuple([cython.cast(Tensor, t).dtype_ for t, _ in inputs]),
        tuple([cython.cast(Tensor, t).dtype_ for t, _ in outputs]),
        compute,
    )
    found = _NATIVE.get(key)
    if found is None:
        kinds = (
            tuple([cython.cast(Tensor, t).dtype_.name for t, _ in inputs]),
            tuple([cython.cast(Tensor, t).dtype_.name for t, _ in outputs]),
            compute,
        )
        found = _NATIVE.setdefault(key, Ways(kernel, kinds))
    return found


@cython.cfunc
@cython.exceptval(check=False)
def way_of(
    ways: Ways,
    operands: list,
    first_input: cython.int,
    count: cython.int,
    ints: cython.pointer(int64_t),
) -> cython.int:
    """How a kernel works on these rows: what it would find itself, if it had all ways.

    Args:
        count: how many operands ``ints`` is of, the numbers among them.
    """
    k: cython.int
    # a lone inner loop is the outer one
    apart: cython.int = 2 if ints[1] == 1 else 2 + count
    if not ways.several:
        return ANY_WAY
    for k in range(len(operands)):
        item: int64_t = cython.cast(Tensor, operands[k][0]).dtype_.itemsize
        if (ways.varying >> k) & 1 and ints[2 + 2 * count + k] != item:
            return BESIDE
    if ints[0] > ways.longest:
        return ALONG
    for k in range(first_input, len(operands)):
        item = cython.cast(Tensor, operands[k][0]).dtype_.itemsize
        if not (ways.varying >> k) & 1 and ints[apart + k] not in (0, item):
            return ALONG
    return TURNED


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_elsewhere(
    kernel: object,
    outputs: list,
    inputs: list,
    compute: object,
    numbers: tuple,
    rows: int64_t,
    ints: cython.pointer(int64_t),
) -> cython.int:
    """The same where a backend other than the host's has the operands.

    The numbers' bits come as the last of the integers.
    """
    first: Tensor = outputs[0][0]
    t: Tensor
    k: cython.int
    addresses: list = []
    backend: Backend = backend_of(first.storage.device)
    for t, _ in outputs + inputs:
        if t.storage.device.kind != first.storage.device.kind:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two "
                f"devices, {t.storage.device} and {first.storage.device}!\n"
                f"  operator: {kernel.name}\n"
                "  remedy: move one of them with .to(device)"
            )
        addresses.append(cython.cast(uintptr_t, t.pointer()))
    made = backend.launch.specialize(
        kernel,
        tuple([cython.cast(Tensor, t).dtype_.name for t, _ in inputs]),
        tuple([cython.cast(Tensor, t).dtype_.name for t, _ in outputs]),
        compute,
    )
    count: cython.int = len(addresses)
    n_ints: cython.int = 2 + 3 * (count + cython.cast(cython.int, len(numbers)))
    integers: list = [ints[k] for k in range(n_ints)]
    positions: list = []
    bits: int64_t
    number: cython.double
    for k in range(len(numbers)):
        number = numbers[k]
        memcpy(cython.address(bits), cython.address(number), 8)
        addresses.append(0)
        integers.append(bits)
        positions.append((count + k, n_ints + k))
    where = first.storage.device
    beside: cython.bint = ints[1] > 1
    backend.launch.run_rows(
        *(made, where, tuple(addresses), tuple(integers), rows, ints[0], beside),
        tuple(positions),
    )
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def place_rows(
    operands: list,
    size: int64_t,
    inner: int64_t,
    count: cython.int,
    data: cython.pp_char,
    ints: cython.pointer(int64_t),
) -> cython.int:
    """Where the operands of a row kernel start, and how they move.

    Args:
        count: how many there are with the numbers after them, which stay in place.
    """
    k: cython.int
    t: Tensor
    item: int64_t
    ints[0] = size
    ints[1] = inner
    for k in range(len(operands), count):
        ints[2 + k] = ints[2 + count + k] = ints[2 + 2 * count + k] = 0
    for k in range(len(operands)):
        t, kind = operands[k]
        item = t.dtype_.itemsize
        data[k] = t.pointer()
        if kind is EACH or kind == "each":
            ints[2 + k] = size * inner * item
            ints[2 + count + k] = item
            ints[2 + 2 * count + k] = inner * item
        elif kind is ROW or kind == "row":
            ints[2 + k] = inner * item
            ints[2 + count + k] = item
            ints[2 + 2 * count + k] = 0
        elif kind == "apart":
            ints[2 + k] = size * inner * item
            ints[2 + count + k] = size * item
            ints[2 + 2 * count + k] = item
        elif kind == "outer":
            ints[2 + k] = item
            ints[2 + count + k] = 0
            ints[2 + 2 * count + k] = 0
        else:
            ints[2 + k] = 0
            ints[2 + count + k] = 0
            ints[2 + 2 * count + k] = item
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def share_rows(
    native: NativeKernel,
    data: cython.pp_char,
    count: cython.int,
    ints: cython.pointer(int64_t),
    total: int64_t,
    numbers: cython.p_char,
    n_bytes: cython.int,
) -> cython.int:
    """Runs a kernel on all rows: on one thread where they are few."""
    size: int64_t = ints[0]
    grain: int64_t = max(1, GRAIN // max(1, size))
    if ints[1] > 1:  # rows side by side are computed together
        grain = max(grain, 128)
    if total * size <= GRAIN:
        grain = total
    if watched:
        n_ints: cython.int = 2 + 3 * count
        tell(native.fn, data, count, ints, n_ints, total, grain, numbers, n_bytes)
    if total <= grain:
        run_here(native.fn, data, ints, total)
        return 0
    with cython.nogil:
        parallel_for(native.fn, data, ints, total, grain)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def launch_rows(
    kernel: object,
    outputs: list,
    inputs: list,
    compute: object,
    numbers: tuple,
    outer: int64_t,
    size: int64_t,
    inner: int64_t,
) -> cython.int:
    operands: list = outputs + inputs
    few_data: cython.p_char[12]
    few_ints: int64_t[38]
    data: cython.pp_char = few_data
    ints: cython.pointer(int64_t) = few_ints
    values: cython.double[4]
    n_numbers: cython.int = len(numbers)
    count: cython.int = cython.cast(cython.int, len(operands)) + n_numbers
    n_ints: cython.int = 2 + 3 * count
    k: cython.int
    total: int64_t = outer * inner
    many: bytearray = None
    if count > 12:
        width: cython.int = cython.sizeof(cython.p_char)
        many = bytearray(count * width + n_ints * cython.sizeof(int64_t))
        room: cython.p_char = many
        data = cython.cast(cython.pp_char, room)
        ints = cython.cast(cython.pointer(int64_t), room + count * width)
    place_rows(operands, size, inner, count, data, ints)
    for k in range(n_numbers):
        values[k] = numbers[k]
        data[count - n_numbers + k] = cython.cast(cython.p_char, values + k)
    if not cython.cast(Tensor, outputs[0][0]).storage.device.on_host:
        run_elsewhere(kernel, outputs, inputs, compute, numbers, total, ints)
        return 0
    ways: Ways = ways_for(kernel, outputs, inputs, compute)
    native: NativeKernel = ways.native(
        way_of(ways, operands, len(outputs), count, ints)
    )
    numbers_at: cython.p_char = cython.NULL
    if n_numbers:
        numbers_at = data[count - n_numbers]
    share_rows(native, data, count, ints, total, numbers_at, 8 * n_numbers)
    return 0


def run_rows(kernel, outputs, inputs, extents, compute, numbers=()):
    """Launches a rowwise kernel.

    Args:
        kernel: the ``@rowwise`` object.
        outputs: pairs of a contiguous tensor and how it moves.
        inputs: likewise.
        extents: the sizes outer, of a row, and inner.
        compute: the name of the dtype to compute in.
        numbers: the values of the kernel's parameters after ``dim``, four at most.

    Raises:
        ValueError: there are more.
    """
    if len(numbers) > MOST_NUMBERS:
        raise ValueError(
            f"run_rows: {len(numbers)} numbers, not {MOST_NUMBERS} at most"
        )
    outer, size, inner = extents
    first: Tensor = outputs[0][0]
    if outer * inner == 0 or not first.storage.device.has_memory:
        return
    before: list = list(outputs)
    after: list = list(inputs)
    launch_rows(kernel, before, after, compute, tuple(numbers), outer, size, inner)


def over(kernel, operands, dim):
    """A kernel along one dimension; the result looks like the first operand."""
    first: Tensor = operands[0]
    result: Tensor
    axis: cython.int = wrap_dim(dim, first.ndim_)
    i: cython.int
    outer: int64_t = 1
    inner: int64_t = 1
    size: int64_t = first.sizes[axis] if first.ndim_ else 1
    inputs: list = []
    for operand in operands:
        t: Tensor = operand
        inputs.append((t if t.row_major else operand.contiguous(), EACH))
    result = new_empty(
        first.ndim_, first.sizes, cython.NULL, first.dtype_, first.storage.device
    )
    for i in range(first.ndim_):
        if i < axis:
            outer *= first.sizes[i]
        elif i > axis:
            inner *= first.sizes[i]
    if outer * inner and first.storage.device.has_memory:
        outputs: list = [(result, EACH)]
        compute: str = first.dtype_.name
        launch_rows(kernel, outputs, inputs, compute, (), outer, size, inner)
    return result
