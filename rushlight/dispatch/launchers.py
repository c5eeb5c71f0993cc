"""Runs loop kernels where their operands are: a launcher for each kind of device.

What computes on the host calls the kernel's machine code on the pool; other devices are
asked by the roles of their backend; tensors of ``meta`` have no elements to compute.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t, uintptr_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core.device import Backend, Device, backend_of
from cython.cimports.rushlight.core.dtype import dtype_of
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.dispatch.row_variants import (
    ANY_WAY,
    CONTIGUOUS,
    STRIDED,
    TRANSPOSED,
    Ways,
)
from cython.cimports.rushlight.dispatch.trace import (
    note_check,
    note_flag,
    recording,
    taken_down,
    the_flag,
)
from cython.cimports.rushlight.runtime.cpu.grain import GRAIN
from cython.cimports.rushlight.runtime.cpu.launch import (
    NativeKernel,
    add_operand_ints,
    launch_kernel,
    parallel_for,
    run_here,
    watched,
)

from rushlight.core.roles import host
from rushlight.runtime.cpu.launch import NO_FAULT

_NATIVE = cython.declare(dict, {})


@cython.cfunc
@cython.exceptval(-1, check=False)
def require_host(kernel: object, expected: Tensor, item: Tensor) -> cython.int:
    """Refuses a tensor of another device beside one of the host's, and one without memory."""
    if item.numel_ and not item.storage.device.on_host:
        raise RuntimeError(
            f"Tensor on device {item.storage.device} is not on the expected device "
            f"{expected.device}!\n  operator: {kernel.name}\n"
            "  remedy: move one of them with .to(device)"
        )
    if item.numel_ and item.storage.data == cython.NULL:
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage"
            f"\n  operator: {kernel.name}\n  remedy: compute on a tensor with elements"
        )
    return 0


@cython.cfunc
def addresses_on(device: Device, kernel: object, tensors: object) -> list:
    """Where the tensors' elements are on a device; 0 for what is None.

    Raises:
        RuntimeError: one of them is on another device.
    """
    one: Tensor
    addresses: list = []
    for item in tensors:
        if item is None:
            addresses.append(0)
            continue
        one = item
        if one.storage.device is not device and one.storage.device != device:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two "
                f"devices, {device} and {one.storage.device}!"
                f"\n  operator: {kernel.name}\n"
                "  remedy: move one of them with .to(device)"
            )
        addresses.append(cython.cast(uintptr_t, one.pointer()))
    return addresses


@cython.cfunc
@cython.exceptval(-1, check=False)
def host_spans(
    kernel: object,
    types: dict,
    tensors: object,
    ints: object,
    total: int64_t,
    grain: int64_t,
) -> cython.int:
    """Finds the specialised kernel and calls it with pointers and integers."""
    data: cython.p_char[16]
    values: int64_t[48]
    native: NativeKernel
    operands: list = tensors if type(tensors) is list else list(tensors)
    numbers: list = ints if type(ints) is list else list(ints)
    i: cython.Py_ssize_t
    found = kernel.specialized.get(tuple(types.items()))
    if found is None:
        found = kernel.specialize(**types)
    native = found
    if len(operands) > 16 or len(numbers) > 48:
        host.launch.launch(native, operands, numbers, total, grain)
        return 0
    for i in range(len(operands)):
        item = operands[i]
        data[i] = cython.NULL
        if item is not None:
            data[i] = cython.cast(Tensor, item).pointer()
            if (
                cython.cast(Tensor, item).storage.data == cython.NULL
                or not cython.cast(Tensor, item).storage.device.on_host
            ):
                require_host(kernel, operands[0], item)
    for i in range(len(numbers)):
        values[i] = numbers[i]
    if watched:
        count: cython.int = len(operands)
        n_ints: cython.int = len(numbers)
        for item in operands:
            add_operand_ints(item)
        launch_kernel(
            native.fn, data, count, values, n_ints, total, grain, cython.NULL, 0
        )
    if total <= grain:
        parallel_for(native.fn, data, values, total, grain)
        return 0
    with cython.nogil:
        parallel_for(native.fn, data, values, total, grain)
    return 0


@cython.cfunc
def type_names(operands: list) -> tuple:
    """The names of the types of operands and of how they move."""
    return tuple([cython.cast(Tensor, t).dtype_.name for t, _ in operands])


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
        kinds = type_names(inputs), type_names(outputs), compute
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
    steps_at: cython.int = 2 if ints[1] == 1 else 2 + count
    if not ways.several:
        return ANY_WAY
    for k in range(len(operands)):
        item: int64_t = cython.cast(Tensor, operands[k][0]).dtype_.itemsize
        if (ways.varying >> k) & 1 and ints[2 + 2 * count + k] != item:
            return STRIDED
    if ints[0] > ways.longest:
        return CONTIGUOUS
    for k in range(first_input, len(operands)):
        item = cython.cast(Tensor, operands[k][0]).dtype_.itemsize
        if not (ways.varying >> k) & 1 and ints[steps_at + k] not in (0, item):
            return CONTIGUOUS
    return TRANSPOSED


@cython.cfunc
@cython.exceptval(-1, check=False)
def move_rows(
    operands: list,
    size: int64_t,
    inner: int64_t,
    count: cython.int,
    ints: cython.pointer(int64_t),
) -> cython.int:
    """How the operands of a row kernel move.

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
        if kind == "each":
            ints[2 + k] = size * inner * item
            ints[2 + count + k] = item
            ints[2 + 2 * count + k] = inner * item
        elif kind == "row":
            ints[2 + k] = inner * item
            ints[2 + count + k] = item
            ints[2 + 2 * count + k] = 0
        elif kind == "row_major":
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
def row_integers(
    operands: list, size: int64_t, inner: int64_t, count: cython.int
) -> list:
    """The integers of `place_rows`, for a backend."""
    n_ints: cython.int = 2 + 3 * count
    room: bytearray = bytearray(n_ints * cython.sizeof(int64_t))
    start: cython.p_char = room
    ints: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), start)
    k: cython.int
    move_rows(operands, size, inner, count, ints)
    return [ints[k] for k in range(n_ints)]


@cython.cfunc
@cython.exceptval(check=False)
def grain_for(work: int64_t) -> int64_t:
    return max(1, GRAIN // work) if work > 1 else GRAIN


@cython.cfunc
@cython.exceptval(-1, check=False)
def launch_host(
    native: NativeKernel,
    data: cython.pp_char,
    count: cython.int,
    ints: cython.pointer(int64_t),
    n_ints: cython.int,
    total: int64_t,
    grain: int64_t,
    numbers: cython.p_char,
    n_bytes: cython.int,
    least: cython.int,
) -> cython.int:
    if watched >= least:
        launch_kernel(
            native.fn, data, count, ints, n_ints, total, grain, numbers, n_bytes
        )
    if total <= grain:
        run_here(native.fn, data, ints, total)
        return 0
    with cython.nogil:
        parallel_for(native.fn, data, ints, total, grain)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def row_grain(size: int64_t, inner: int64_t, total: int64_t) -> int64_t:
    """Rows of a task: all of them where they are few."""
    if total * size <= GRAIN:
        return total
    # rows side by side are computed together
    return max(grain_for(size), 128) if inner > 1 else grain_for(size)


@cython.cfunc
@cython.exceptval(-1, check=False)
def host_rows(
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
    move_rows(operands, size, inner, count, ints)
    for k in range(len(operands)):
        data[k] = cython.cast(Tensor, operands[k][0]).pointer()
        if cython.cast(Tensor, operands[k][0]).storage.data == cython.NULL:
            require_host(kernel, operands[0][0], operands[k][0])
    for k in range(n_numbers):
        values[k] = numbers[k]
        data[count - n_numbers + k] = cython.cast(cython.p_char, values + k)
    ways: Ways = ways_for(kernel, outputs, inputs, compute)
    native: NativeKernel = ways.native(
        way_of(ways, operands, len(outputs), count, ints)
    )
    numbers_at: cython.p_char = cython.NULL
    if n_numbers:
        numbers_at = data[count - n_numbers]
    grain: int64_t = row_grain(size, inner, total)
    launch_host(
        native, data, count, ints, n_ints, total, grain, numbers_at, 8 * n_numbers, 1
    )
    return 0


@cython.cfunc
def clear_flag(like: Tensor) -> Tensor:
    """A flag on a tensor's device that says that there was nothing."""
    size: int64_t = 1
    flag = new_empty(
        1, cython.address(size), cython.NULL, dtype_of(4), like.storage.device
    )
    return flag.fill_(NO_FAULT)


def found_in(flag: Tensor):
    """What a flag says once its device is done, or None: no element of the program's."""
    st: cython.pointer(ThreadState) = state()
    before: uint64_t = st.included
    st.included = 0
    try:
        found = flag.item()
    finally:
        st.included = before
    return None if found == NO_FAULT else found


@cython.cclass
class Launcher:
    """Kernels on devices whose backend is asked."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def spans(
        self,
        kernel: object,
        types: dict,
        tensors: object,
        ints: object,
        total: int64_t,
        grain: int64_t,
        whole: cython.bint,
    ) -> cython.int:
        device: Device = cython.cast(Tensor, tensors[0]).storage.device
        backend: Backend = backend_of(device)
        addresses: list = addresses_on(device, kernel, tensors)
        made = backend.launch.specialize(kernel, **types)
        backend.launch.run_spans(
            made, device, tuple(addresses), tuple(ints), total, whole
        )
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def rows(
        self,
        kernel: object,
        outputs: list,
        inputs: list,
        compute: object,
        numbers: tuple,
        outer: int64_t,
        size: int64_t,
        inner: int64_t,
    ) -> cython.int:
        """The numbers' bits come as the last of the integers."""
        device: Device = cython.cast(Tensor, outputs[0][0]).storage.device
        backend: Backend = backend_of(device)
        operands: list = outputs + inputs
        addresses: list = addresses_on(device, kernel, [t for t, _ in operands])
        count: cython.int = len(addresses)
        integers: list = row_integers(operands, size, inner, count + len(numbers))
        positions: list = []
        bits: int64_t
        number: cython.double
        for value in numbers:
            number = value
            memcpy(cython.address(bits), cython.address(number), 8)
            positions.append((len(addresses), len(integers)))
            addresses.append(0)
            integers.append(bits)
        made = backend.launch.specialize(
            kernel, type_names(inputs), type_names(outputs), compute
        )
        backend.launch.run_rows(
            *(made, device, tuple(addresses), tuple(integers)),
            *(outer * inner, size, inner > 1, tuple(positions)),
        )
        return 0

    @cython.cfunc
    def fault_flag(self, like: Tensor) -> Tensor:
        device: Device = like.storage.device
        faults = backend_of(device).launch.faults(device)
        return clear_flag(like) if faults is None else faults.fault_flag()

    @cython.cfunc
    def fault_in(self, flag: Tensor) -> object:
        device: Device = flag.storage.device
        faults = backend_of(device).launch.faults(device)
        return found_in(flag) if faults is None else faults.found(flag)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def refuse_fault(
        self, flag: Tensor, operator: str, make: object, args: tuple
    ) -> cython.int:
        device: Device = flag.storage.device
        faults = backend_of(device).launch.faults(device)
        if faults is not None:
            faults.refuse(flag, operator, make, args)
            return 0
        fault = found_in(flag)
        if fault is not None:
            raise make(fault, *args)
        return 0


@cython.final
@cython.cclass
class HostLauncher(Launcher):
    """Kernels on the host's pool of threads."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def spans(
        self,
        kernel: object,
        types: dict,
        tensors: object,
        ints: object,
        total: int64_t,
        grain: int64_t,
        whole: cython.bint,
    ) -> cython.int:
        return host_spans(kernel, types, tensors, ints, total, grain)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def rows(
        self,
        kernel: object,
        outputs: list,
        inputs: list,
        compute: object,
        numbers: tuple,
        outer: int64_t,
        size: int64_t,
        inner: int64_t,
    ) -> cython.int:
        return host_rows(kernel, outputs, inputs, compute, numbers, outer, size, inner)

    @cython.cfunc
    def fault_flag(self, like: Tensor) -> Tensor:
        flag: Tensor = the_flag()
        if recording:
            note_flag(flag)
        return flag

    @cython.cfunc
    def fault_in(self, flag: Tensor) -> object:
        fault: int64_t = 0
        if recording:
            note_check()
        return fault if taken_down(flag, cython.address(fault)) else None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def refuse_fault(
        self, flag: Tensor, operator: str, make: object, args: tuple
    ) -> cython.int:
        fault: int64_t = 0
        if recording:
            note_check()
        if taken_down(flag, cython.address(fault)):
            raise make(fault, *args)
        return 0


@cython.final
@cython.cclass
class MetaLauncher(Launcher):
    """Nothing runs for tensors without elements."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def spans(
        self,
        kernel: object,
        types: dict,
        tensors: object,
        ints: object,
        total: int64_t,
        grain: int64_t,
        whole: cython.bint,
    ) -> cython.int:
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def rows(
        self,
        kernel: object,
        outputs: list,
        inputs: list,
        compute: object,
        numbers: tuple,
        outer: int64_t,
        size: int64_t,
        inner: int64_t,
    ) -> cython.int:
        return 0

    @cython.cfunc
    def fault_flag(self, like: Tensor) -> Tensor:
        return clear_flag(like)

    @cython.cfunc
    def fault_in(self, flag: Tensor) -> object:
        return None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def refuse_fault(
        self, flag: Tensor, operator: str, make: object, args: tuple
    ) -> cython.int:
        return 0


# By `Device.kind`.
_LAUNCHERS = cython.declare(
    list, [HostLauncher(), Launcher(), MetaLauncher(), Launcher()]
)


@cython.cfunc
def launcher_of(tensor: Tensor) -> Launcher:
    return cython.cast(Launcher, _LAUNCHERS[tensor.storage.device.kind])
