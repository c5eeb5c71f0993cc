"""How operator functions run loop kernels: allocate, specialise, launch, check."""

from __future__ import annotations

import threading

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t, uintptr_t
from cython.cimports.rushlight.core.device import Backend, Device, backend_of
from cython.cimports.rushlight.core.dtype import DType, dtype_of
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.state import ThreadState, state, tell_readers
from cython.cimports.rushlight.core.storage import fetch, following
from cython.cimports.rushlight.core.tensor import Tensor, alias, new_empty
from cython.cimports.rushlight.dispatch.kernels import steps_freely
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
    parallel_for,
    tell,
    tell_operand,
    watched,
)

from rushlight.core.dtype import TYPE_NAMES
from rushlight.core.factories import empty_like
from rushlight.core.roles import host
from rushlight.dispatch.trace import NO_FAULT
from rushlight.operators.type_groups import COMPLEX, FLOATS, INTEGERS, REAL

# Kernels that only move elements see them as integers of the same width.
MOVERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}


def fresh(like: Tensor, sizes, dtype: DType = None):
    """An uninitialised row-major tensor on the device of ``like``."""
    extents: int64_t[64]
    ndim: cython.int = 0
    for size in sizes:
        if ndim == 64:
            raise RuntimeError("a tensor has at most 64 dimensions")
        extents[ndim] = size
        ndim += 1
    return new_empty(
        ndim,
        extents,
        cython.NULL,
        like.dtype_ if dtype is None else dtype,
        like.storage.device,
    )


def copy_to_write(x: Tensor, read):
    """The row-major tensor that a result begins as: ``x`` again, or ``x`` itself.

    That is where the call changes ``x`` in place, and nothing that is read lies in the
    same memory (see ``writes_large`` of a declaration).
    """
    st: cython.pointer(ThreadState) = state()
    other: Tensor
    if st.written == cython.cast(cython.p_void, x) and x.row_major:
        st.written = cython.NULL  # what is called from here on makes its copies
        for item in read:
            other = item
            if (
                other.storage is x.storage
                or other.storage.data == x.storage.data
                or not x.storage.device.on_host
            ):
                break
        else:
            return x
    return x.contiguous().clone()


def changed_in_place(function, x: Tensor, *arguments):
    """``function(x, ...)`` where nobody else reads ``x``: it may become the result.

    Where what is called is differentiated or transformed, ``x`` is kept.
    """
    st: cython.pointer(ThreadState) = state()
    if st.included or st.grad_mode or st.forward_ad or x.numel_ < (1 << 14):
        return function(x, *arguments)
    st.written = cython.cast(cython.p_void, x)
    try:
        return function(x, *arguments)
    finally:
        st.written = cython.NULL


def laid_as(x: Tensor, result: Tensor):
    """A result in the layout of what it was made from, gaps left out."""
    if not (x.row_major and result.row_major):
        result = empty_like(x, result.dtype_).copy_(result)
    if not x.row_major:
        return result
    if steps_freely(x):  # where sizes of one leave a choice, it is kept
        return alias(result, x.ndim_, x.sizes, x.strides, result.offset)
    return result


def filled(like: Tensor, sizes, value, dtype: DType = None):
    """A row-major tensor of one value on the device of ``like``."""
    return fresh(like, sizes, dtype).fill_(value)


def name_of(dtype):
    """The dtype's plain name: ``"float32"``."""
    return dtype if isinstance(dtype, str) else dtype.name


def scalar_name(dtype):
    """How PyTorch's messages call a type: ``"Long"``, ``"UInt16"``, ``"Float8_e5m2"``."""
    name = name_of(dtype)
    return TYPE_NAMES.get(name, name)


def require(kernel, dtype: DType, codes, *tensors):
    """Refuses a type that no kernel is there for.

    Args:
        kernel: how PyTorch's message names the kernel.
        codes: the numbers of the types that are fine.
        tensors: operands, for the message.

    Raises:
        NotImplementedError: the type is none of them.
    """
    if dtype.code not in codes:
        lines = "".join(f"\n  operand: {brief(t)}" for t in tensors)
        raise NotImplementedError(
            f"\"{kernel}\" not implemented for '{scalar_name(dtype)}'{lines}\n"
            "  remedy: convert it to another dtype with .to(...)"
        )


def expect(operator, **operands):
    """Refuses operands whose sizes or types are not those that a kernel reads.

    What composes operators hands them what fits; whoever calls one by its own name may
    hand it anything.

    Args:
        operator: whose operands they are.
        operands: by its name each operand, its sizes and its type; None for any.

    Raises:
        RuntimeError: one of them is another.
    """
    for name, (tensor, sizes, dtype) in operands.items():
        if tensor is None:
            continue
        if dtype is not None and tensor.dtype is not dtype:
            raise RuntimeError(
                f"{operator}: expected {name} to have dtype {dtype.name}\n"
                f"  {name}: {brief(tensor)}\n  remedy: convert it with .to(...)"
            )
        if sizes is not None and tuple(tensor.shape) != tuple(sizes):
            raise RuntimeError(
                f"{operator}: expected {name} of sizes {list(sizes)}\n"
                f"  {name}: {brief(tensor)}"
            )


def as_pairs(x):
    """Complex elements as pairs of real ones, in a last dimension; may share memory."""
    return x.contiguous().unsqueeze(-1).view(x.dtype.to_real())


def from_pairs(x, dtype):
    """The inverse of `as_pairs`."""
    return x.view(dtype).squeeze(-1)


@cython.cfunc
@cython.exceptval(-1, check=False)
def run_on(
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
                check_data(kernel, operands, item)
    for i in range(len(numbers)):
        values[i] = numbers[i]
    if watched:
        count: cython.int = len(operands)
        n_ints: cython.int = len(numbers)
        for item in operands:
            tell_operand(item)
        tell(native.fn, data, count, values, n_ints, total, grain, cython.NULL, 0)
    if total <= grain:
        parallel_for(native.fn, data, values, total, grain)
        return 0
    with cython.nogil:
        parallel_for(native.fn, data, values, total, grain)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_data(kernel: object, operands: list, item: Tensor) -> cython.int:
    """Refuses a tensor of another device beside one of the host's."""
    if item.numel_ and not item.storage.device.on_host:
        raise RuntimeError(
            f"Tensor on device {item.storage.device} is not on the expected device "
            f"{operands[0].device}!\n  operator: {kernel.name}\n"
            "  remedy: move one of them with .to(device)"
        )
    return 0


def run(
    kernel,
    tensors,
    ints,
    total: int64_t,
    work: int64_t = 1,
    least: int64_t = 1,
    **types,
):
    """Specialises ``kernel`` and runs it over ``[0, total)``, split by work per item.

    A piece is never shorter than ``least`` items. Nothing runs for tensors without
    storage (meta), so one operator function serves both devices.
    """
    first: Tensor = tensors[0]
    grain: int64_t = GRAIN
    if total <= 0 or not first.storage.device.has_memory:
        return
    if not first.storage.device.on_host:
        run_elsewhere(kernel, types, tensors, ints, total, False)
        return
    if work > 0:
        grain = grain // work
    run_on(kernel, types, tensors, ints, total, max(least, grain))


def run_whole(kernel, tensors, ints, total: int64_t, **types):
    """Runs ``kernel`` over ``[0, total)`` in one piece: items depend on each other."""
    first: Tensor = tensors[0]
    if total <= 0 or not first.storage.device.has_memory:
        return
    if not first.storage.device.on_host:
        run_elsewhere(kernel, types, tensors, ints, total, True)
        return
    run_on(kernel, types, tensors, ints, total, total)


@cython.cfunc
def run_elsewhere(
    kernel: object,
    types: dict,
    tensors: object,
    ints: object,
    total: int64_t,
    whole: cython.bint,
):
    """The same where a backend other than the host's has the operands."""
    first: Tensor = tensors[0]
    one: Tensor
    addresses: list = []
    backend: Backend = backend_of(first.storage.device)
    for item in tensors:
        if item is None:
            addresses.append(0)
            continue
        one = item
        if one.storage.device.kind != first.storage.device.kind:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two "
                f"devices, {one.storage.device} and {first.storage.device}!"
                f"\n  operator: {kernel.name}\n"
                "  remedy: move one of them with .to(device)"
            )
        addresses.append(cython.cast(uintptr_t, one.pointer()))
    made = backend.launch.specialize(kernel, **types)
    backend.launch.run_spans(
        made, first.storage.device, tuple(addresses), tuple(ints), total, whole
    )


def place_of(tensor: Tensor) -> Device:
    """The device of a tensor's memory, which a stand-in may tell otherwise."""
    return tensor.storage.device


def changed(lists) -> None:
    """Counts a change, that no operator made, of every tensor of some lists."""
    tensor: Tensor
    for tensors in lists:
        for item in tensors:
            tensor = item
            tensor.bump_version()


def host_address(tensor: Tensor):
    """Where a tensor's elements are, for functions of the host that take addresses.

    Raises:
        NotImplementedError: they are not in the host's memory.
    """
    device = tensor.storage.device
    if not device.on_host and device.has_memory:
        raise NotImplementedError(
            f"launch: a kernel of the host's cannot read a tensor on {device}\n"
            "  remedy: move it with .cpu()"
        )
    if state().included & RECORDING:  # what waits has no memory
        tell_readers()
    if following:
        fetch(tensor.storage)
    return cython.cast(uintptr_t, tensor.pointer())


def mover(dtype: DType):
    """The integer type that carries elements of ``dtype`` bit for bit, and how many."""
    width: cython.int = dtype.itemsize
    return (MOVERS[width], 1) if width <= 8 else ("int64", width // 8)


def fault_flag(like: Tensor):
    """One int64 of this thread that a kernel overwrites when it meets a bad index."""
    if not like.storage.device.on_host:
        flags = _gathering.flags
        if flags is None:
            graph = written_in(like)
            if graph is not None:
                return graph.noted(lambda: Noted(like)).flag
            return filled(like, (1,), NO_FAULT, dtype_of(4))
        where = str(like.storage.device)
        if where not in flags:
            flags[where] = filled(like, (1,), NO_FAULT, dtype_of(4))
        return flags[where]
    flag: Tensor = the_flag()
    if recording:
        note_flag(flag)
    return flag


def fault_in(flag: Tensor):
    """The offending index that a kernel reported, or None; the flag is clear again."""
    if not flag.storage.device.has_memory:
        return None
    if not flag.storage.device.on_host:
        later = _gathering.flags is not None or written_in(flag) is not None
        return None if later else found_in(flag)
    fault: int64_t = 0
    if recording:
        note_check()
    return fault if taken_down(flag, cython.address(fault)) else None


def found_in(flag: Tensor):
    """The same of a flag on a card, once the card is done: no element of the program's."""
    st: cython.pointer(ThreadState) = state()
    before: uint64_t = st.included
    st.included = 0
    try:
        found = flag.item()
    finally:
        st.included = before
    return None if found == NO_FAULT else found


def written_in(tensor: Tensor):
    """The graph that work on a tensor's device is written down in, or None."""
    device: Device = tensor.storage.device
    if not device.has_memory or device.on_host:
        return None
    return backend_of(device).graphs.recorder(device)


class Noted:
    """A flag for work that was written down, which is looked at when that was done.

    Attributes:
        address: of the flag.
        queues: that know that it is there.
    """

    def __init__(self, like):
        self.flag = new_flag(like)
        self.address = self.flag.data_ptr()
        self.queues = set()

    def clear(self):
        """Has the flag say that there was nothing."""
        self.flag.fill_(NO_FAULT)

    def found(self):
        """What was noted since, or None."""
        return found_in(self.flag)


def new_flag(like: Tensor):
    """Memory for a flag, with nothing in it yet."""
    return fresh(like, (1,), dtype_of(4))


class _Gathering(threading.local):
    """The flags of a `GatheredFaults`, by device."""

    flags = None


_gathering = cython.declare(object, _Gathering())


class GatheredFaults:
    """A block in which a card's kernels share one flag, which nobody waits for.

    Attributes:
        flags: one for each device where there may be faults, for `found_in`.
    """

    def __enter__(self):
        self.flags = {}
        _gathering.flags = self.flags
        return self

    def __exit__(self, *raised):
        _gathering.flags = None


def brief(tensor):
    """``float32[3, 4] on cpu``, for error messages."""
    return f"{name_of(tensor.dtype)}{list(tensor.shape)} on {tensor.device}"
