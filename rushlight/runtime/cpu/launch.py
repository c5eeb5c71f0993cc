"""Native kernels, and the calls that jump into generated code."""

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.rushlight.core.device import PlannedLaunch
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.spans import (
    begin_kernel,
    end_kernel,
    timing_kernels,
)
from cython.cimports.rushlight.core.state import notify_launchers, state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.runtime.cpu.grain import GRAIN
from cython.cimports.rushlight.runtime.cpu.pool import run_chunks

# What a kernel returns besides 0; the compiler's numbers are the same.
OUT_OF_MEMORY = cython.declare(cython.int, 2)
INDEX = cython.declare(cython.int, 8)
watched = cython.declare(cython.int, 0)
SMALLEST_TASK: object = GRAIN  # the same for modules that are not compiled
launches = cython.declare(int64_t, 0)
# A word for faults starts at this value; a kernel that meets a bad index writes it there.
# It is no round number: the lowest and the highest int64 are bad indices that occur.
NO_FAULT = -0x5F3A_91C4_27D6_B80E


@cython.cfunc
@cython.exceptval(check=False)
def watch(more: cython.int) -> cython.void:
    """One thread more, or fewer, that wants launches to be counted."""
    global watched
    watched += more


@cython.cfunc
@cython.exceptval(check=False)
def launched() -> int64_t:
    """How many launches were counted."""
    return launches


@cython.cfunc
@cython.exceptval(check=False)
def count_unheard() -> cython.void:
    global launches
    launches += 1


def count_launch() -> None:
    """Counts a launch that the host does not make: a device's, or a library's."""
    global launches
    launches += 1


@cython.cclass
class LaunchObserver:
    """Who wants to know of launches."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def on_launch(self, launch: cython.pointer(Launch)) -> cython.int:
        """One launch that is about to happen."""
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def on_operand(self, operand: object) -> cython.int:
        """One of its operands, which may have been there before the call."""
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def on_planned(
        self,
        plan: PlannedLaunch,
        data: cython.pp_char,
        n_data: cython.int,
        numbers: cython.p_double,
    ) -> cython.int:
        """One of another device's that is about to happen."""
        return 0


_observer = cython.declare(LaunchObserver, LaunchObserver())


@cython.cfunc
@cython.exceptval(check=False)
def set_observer(observer: LaunchObserver) -> cython.void:
    """Names who is told."""
    global _observer
    _observer = observer


@cython.cfunc
@cython.exceptval(-1, check=False)
def launch_kernel(
    fn: kernel_t,
    data: cython.pp_char,
    n_data: cython.int,
    ints: cython.pointer(cython.const[int64_t]),
    n_ints: cython.int,
    total: int64_t,
    grain: int64_t,
    numbers: cython.p_char,
    n_bytes: cython.int,
) -> cython.int:
    launch: Launch
    launch.fn, launch.data, launch.n_data = fn, data, n_data
    launch.ints, launch.n_ints = ints, n_ints
    launch.total, launch.grain = total, grain
    launch.numbers, launch.n_bytes = numbers, n_bytes
    return _observer.on_launch(cython.address(launch))


@cython.cfunc
@cython.exceptval(-1, check=False)
def add_operand_ints(operand: object) -> cython.int:
    return _observer.on_operand(operand)


@cython.cfunc
@cython.exceptval(-1, check=False)
def launch_planned(
    plan: PlannedLaunch,
    data: cython.pp_char,
    n_data: cython.int,
    numbers: cython.p_double,
) -> cython.int:
    return _observer.on_planned(plan, data, n_data, numbers)


@cython.cfunc
@cython.exceptval(-1, check=False)
def launch_own(
    fn: kernel_t,
    data: cython.pp_char,
    n_data: cython.int,
    ints: cython.pointer(cython.const[int64_t]),
    n_ints: cython.int,
    numbers: cython.p_char,
    n_bytes: cython.int,
) -> cython.int:
    global launches
    launches += 1
    return launch_kernel(fn, data, n_data, ints, n_ints, 1, 1, numbers, n_bytes)


@cython.cclass
class NativeKernel:
    """A generated function ``(data, ints, begin, end)`` in executable memory.

    Args:
        name: what errors and traces call it.
        address: where its machine code starts.
        keep: the object that owns that memory.
    """

    def __init__(self, name: str, address: uintptr_t, keep=None):
        self.name = name
        self.fn = cython.cast(kernel_t, address)
        self.keep = keep

    @property
    def address(self):
        """Where the machine code starts."""
        return cython.cast(uintptr_t, self.fn)

    @property
    def owner(self):
        """What owns that memory."""
        return self.keep

    def __repr__(self):
        return f"<NativeKernel {self.name} at {self.address:#x}>"


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def raise_fault(faults: cython.int) -> cython.int:
    """Raises what the bits that a kernel returned stand for; see `expr.FAULTS`."""
    with cython.gil:
        if faults & OUT_OF_MEMORY:
            raise MemoryError("no memory for what a kernel works on")
        if faults & INDEX:
            raise IndexError(
                "index out of range: a kernel was given an index that is outside of the "
                "tensor it leads into"
            )
        raise RuntimeError("ZeroDivisionError")


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def parallel_for(
    fn: kernel_t,
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    total: int64_t,
    grain: int64_t,
) -> cython.int:
    """Runs ``fn`` over ``[0, total)``: on the pool where that is more than a grain."""
    global launches
    faults: cython.int = 0
    begun: int64_t = 0
    if watched:
        launches += 1
    if timing_kernels:
        begun = begin_kernel()
    if total > grain:
        faults = run_chunks(fn, data, ints, total, grain)
    elif total > 0:
        faults = fn(data, ints, 0, total)
    if begun:
        end_kernel(cython.cast(cython.p_void, fn), total, begun, 0, 0)
    if faults:
        raise_fault(faults)
    return 0


@cython.cfunc
@cython.exceptval(check=True)
def pointer_of(item) -> cython.p_char:
    """Address of a launch operand: a Tensor, an integer address, or None."""
    if isinstance(item, Tensor):
        return tensor_pointer(item)
    if item is None:
        return cython.NULL
    if isinstance(item, int):
        return cython.cast(cython.p_char, cython.cast(uintptr_t, item))
    if isinstance(item, NativeKernel):
        return cython.cast(cython.p_char, cython.cast(NativeKernel, item).fn)
    raise TypeError(
        "launch: a data pointer is a Tensor, an address, a NativeKernel or None, not "
        f"{type(item).__name__}"
    )


@cython.cfunc
@cython.exceptval(check=True)
def tensor_pointer(tensor: Tensor) -> cython.p_char:
    if not tensor.storage.device.on_host and tensor.storage.device.has_memory:
        raise NotImplementedError(
            f"launch: a kernel of the host's cannot read a tensor on "
            f"{tensor.storage.device}\n  remedy: move it with .cpu()"
        )
    start: cython.p_char = tensor.pointer()
    if tensor.storage.data == cython.NULL and tensor.numel_:
        raise NotImplementedError(
            f"launch: a tensor on {tensor.storage.device} has no data for a kernel"
        )
    return start


def launch(
    kernel: NativeKernel, tensors, ints, total: int64_t = 1, grain: int64_t = 1
) -> None:
    """Runs a kernel over ``[0, total)`` in chunks of ``grain`` or a multiple of it.

    Args:
        kernel: what to run.
        tensors: a Tensor, an address, a NativeKernel or None for each data pointer.
        ints: sizes, strides and parameters, as the kernel lays them out.
        total: the length of the parallel axis.
        grain: below this length the work stays on the calling thread.
    """
    if state().included & RECORDING:
        notify_launchers()
    operands: tuple = tensors if type(tensors) is tuple else tuple(tensors)
    numbers: tuple = ints if type(ints) is tuple else tuple(ints)
    n_data: cython.Py_ssize_t = len(operands)
    n_ints: cython.Py_ssize_t = len(numbers)
    near_data: cython.p_char[16]
    near_ints: int64_t[48]
    far: cython.p_void = cython.NULL
    data: cython.pp_char = near_data
    values: cython.pointer(int64_t) = near_ints
    i: cython.Py_ssize_t
    if n_data > 16 or n_ints > 48:
        far = malloc((n_data + n_ints) * 8)
        if far == cython.NULL:
            raise MemoryError(f"launch: {n_data} pointers and {n_ints} integers")
        data = cython.cast(cython.pp_char, far)
        values = cython.cast(cython.pointer(int64_t), far) + n_data
    try:
        for i in range(n_data):
            data[i] = pointer_of(operands[i])
        for i in range(n_ints):
            values[i] = numbers[i]
        if watched:
            for item in operands:
                add_operand_ints(item)
            launch_kernel(
                kernel.fn, data, n_data, values, n_ints, total, grain, cython.NULL, 0
            )
        if total <= grain:
            parallel_for(kernel.fn, data, values, total, grain)
        else:
            with cython.nogil:  # `operands` keeps what the pointers lead to
                parallel_for(kernel.fn, data, values, total, grain)
    finally:
        free(far)
