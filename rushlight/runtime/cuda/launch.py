"""Launches kernels on a device, by the address of the driver's function."""

from __future__ import annotations

import os

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.rushlight.core.device import (
    Backend,
    Device,
    Elements,
    PlannedLaunch,
    launch_tuple,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.runtime.cpu import launch as counts
from cython.cimports.rushlight.runtime.cpu.launch import (
    count_unheard,
    launch_planned,
    watched,
)

_entry = cython.declare(launch_t, cython.NULL)
KEPT = cython.declare(cython.Py_ssize_t, 128)  # plans of one kernel
ALIGNED = cython.declare(uintptr_t, 16)  # as `LOAD` of `gpu_entries`
blocking = cython.declare(cython.bint, os.environ.get("CUDA_LAUNCH_BLOCKING") == "1")


def set_entry(address: uintptr_t) -> None:
    """Says where the driver's ``cuLaunchKernel`` is."""
    global _entry
    _entry = cython.cast(launch_t, address)


def enter_context(index: cython.int) -> None:
    """Says that this thread's driver calls go to a device; -1: to none that is known."""
    state().cuda_index = index + 1


def entered_context() -> int:
    """The number of the device that this thread's driver calls go to; -1: none."""
    return state().cuda_index - 1


def choose_queue(index: cython.int, handle: uintptr_t) -> None:
    """Says which queue of a device this thread's work goes to; 0: the one it begins with."""
    if index < MOST_DEVICES:
        state().queues[index] = cython.cast(cython.p_void, handle)


def gather(on: cython.bint) -> None:
    """Says whether this thread's elementwise launches wait to be put together."""
    state().gathering = on


def forget_thread() -> None:
    """Lets go of what was said of this thread."""
    st: cython.pointer(ThreadState) = state()
    st.cuda_index = 0
    st.gathering = False
    memset(st.queues, 0, cython.sizeof(st.queues))


_contexts = cython.declare(list, [None] * MOST_DEVICES)
_made = cython.declare(int64_t, 0)


def forget_devices() -> None:
    """Lets go of all devices."""
    for index in range(MOST_DEVICES):
        _contexts[index] = None


@cython.cclass
class DeviceContext:
    """A device, as far as launches are concerned."""

    def __init__(self, index: cython.int):
        global _made
        _made += 1
        self.index = index
        self.serial = _made
        self.fault = 0

    def serve(self):
        """Has compiled code find it."""
        if self.index < MOST_DEVICES:
            _contexts[self.index] = self

    @cython.cfunc
    @cython.exceptval(1, check=True)
    def queue(self, st: cython.pointer(ThreadState)) -> uintptr_t:
        """The handle of where this thread's work goes."""
        if self.index < MOST_DEVICES:
            return cython.cast(uintptr_t, st.queues[self.index])
        return self.current_queue().handle


@cython.cfunc
def context_of(device: Device) -> DeviceContext:
    """The context of a device; None where it was not used yet."""
    index: cython.Py_ssize_t
    if device.index is None:
        return None
    index = device.index
    return _contexts[index] if index < MOST_DEVICES else None


@cython.cclass
class CompiledBackend(Backend):
    """What serves devices, as far as it goes without objects."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def take(
        self, n_bytes: cython.size_t, device: Device, data: cython.pp_char
    ) -> cython.int:
        context: DeviceContext = context_of(device)
        if context is None:
            return Backend.take(self, n_bytes, device, data)
        stream: uintptr_t = context.queue(state())
        data[0] = cython.cast(cython.p_char, context.allocator.take(n_bytes, stream))
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def give(
        self, data: cython.p_char, n_bytes: cython.size_t, device: Device
    ) -> cython.int:
        context: DeviceContext = context_of(device)
        if context is None or state().gathering:
            return Backend.give(self, data, n_bytes, device)
        return context.allocator.let_go_of(cython.cast(uintptr_t, data))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def run_elements(
        self, kernel: object, device: Device, call: cython.pointer(Elements)
    ) -> cython.int:
        context: DeviceContext = context_of(device)
        key: object
        plan: LaunchPlan
        planned: CachedKernel
        if context is None or state().gathering or not isinstance(kernel, CachedKernel):
            return Backend.run_elements(self, kernel, device, call)
        planned = kernel
        key = layout_of(context, call)
        if key is None:
            return Backend.run_elements(self, kernel, device, call)
        found = planned.plans.get(key)
        if found is None:
            found = plan_elements(planned, context, call, key)
        plan = found
        return plan.submit(call.data, call.numbers)


@cython.cfunc
def plan_elements(
    kernel: CachedKernel,
    context: DeviceContext,
    call: cython.pointer(Elements),
    key: object,
) -> LaunchPlan:
    """The plan of an elementwise launch, kept for the next of its layout."""
    made = kernel.plan_elements(context, *launch_tuple(call), call.total)
    if len(kernel.plans) >= KEPT:
        kernel.plans.clear()
    kernel.plans[key] = made
    return made


@cython.cfunc
def layout_of(context: DeviceContext, call: cython.pointer(Elements)) -> object:
    """What the plan of an elementwise launch follows from, as bytes; None: too much."""
    words: int64_t[160]
    n: cython.int = 3
    k: cython.int
    d: cython.int
    ndim: cython.int = call.plan.ndim
    if ndim * (1 + call.plan.n_operands) > 150:
        return None
    words[0] = context.serial
    words[1] = ndim | (call.plan.n_operands << 8)
    words[2] = call.total
    for d in range(ndim):
        words[n] = call.plan.sizes[d]
        n += 1
    for k in range(call.plan.n_operands):
        if call.data[k] == cython.NULL:
            words[1] |= cython.cast(int64_t, 1) << (16 + k)
            continue
        if cython.cast(uintptr_t, call.data[k]) % ALIGNED:
            words[1] |= cython.cast(int64_t, 1) << (32 + k)
        for d in range(ndim):
            words[n] = call.plan.strides[k][d]
            n += 1
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, words), n * 8)


@cython.cclass
class CachedKernel:
    """A kernel of devices that keeps the plans of its launches, by layout."""

    def __init__(self):
        self.plans = {}


@cython.final
@cython.cclass
class LaunchPlan(PlannedLaunch):
    """One launch but for its pointers and numbers: made once for a layout, then repeated.

    Args:
        context: of the device.
        kernel: whose ``launched(cuda_index, code)`` is told of errors.
        function: the driver's handle.
        n_data: how many pointers it takes.
        shape: blocks, threads of each, and bytes of shared memory beside the kernel's own.
        ints: sizes, strides and parameters, as the kernel lays them out.
        total: elements, or the length of the parallel axis.
        chunk: how much of it a thread takes at a time; None of an elementwise kernel,
            which is given numbers instead.
    """

    def __init__(
        self,
        context: DeviceContext,
        kernel,
        function: uintptr_t,
        n_data: cython.int,
        shape: tuple,
        ints,
        total: int64_t,
        chunk=None,
    ):
        i: cython.int
        self.context, self.kernel, self.function = context, kernel, function
        self.grid, self.threads, self.shared = shape
        self.total = total
        self.elementwise = chunk is None
        self.chunk = 0 if chunk is None else chunk
        self.n_data = n_data
        if n_data > MOST_DATA or len(ints) > MOST_INTS:
            raise ValueError(
                f"launch: {n_data} pointers and {len(ints)} integers; a kernel on a card "
                f"takes {MOST_DATA} and {MOST_INTS}"
            )
        memset(self.ints, 0, cython.sizeof(self.ints))
        for i in range(len(ints)):
            self.ints[i] = ints[i]

    def run(self, addresses: tuple, numbers: bytes = b"") -> None:
        """Puts the launch into this thread's queue.

        Args:
            addresses: the operands' first elements; None for those that are numbers.
            numbers: 16 bytes for each of those.
        """
        data: cython.p_char[24]
        room: cython.double[24]
        if len(numbers) > 8 * 24:
            raise ValueError(f"launch: {len(numbers)} bytes of numbers")
        self.take_addresses(addresses, data)
        memcpy(room, cython.cast(cython.p_char, numbers), len(numbers))
        self.submit(data, room)

    def run_with(self, addresses: tuple, ints: tuple) -> bool:
        """The same with other integers than the plan's, of a kernel without numbers.

        False where launches are written down, which a plan of these integers is for.
        """
        data: cython.p_char[24]
        values: int64_t[64]
        i: cython.Py_ssize_t
        if watched:
            return False
        if len(ints) > MOST_INTS or self.elementwise:
            raise ValueError(f"launch: {len(ints)} integers, or numbers, too")
        self.take_addresses(addresses, data)
        memset(values, 0, cython.sizeof(values))
        for i in range(len(ints)):
            values[i] = ints[i]
        self.put_with(data, cython.NULL, values)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def take_addresses(self, addresses: tuple, data: cython.pp_char) -> cython.int:
        """Writes pointers down; 0 for None."""
        i: cython.Py_ssize_t
        address: uintptr_t
        if len(addresses) != self.n_data:
            raise ValueError(f"launch: {len(addresses)} pointers, not {self.n_data}")
        for i in range(len(addresses)):
            address = addresses[i] or 0
            data[i] = cython.cast(cython.p_char, address)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def submit(self, data: cython.pp_char, numbers: cython.p_double) -> cython.int:
        """Puts the launch into this thread's queue; there is room for 24 of both."""
        return self.put_with(data, numbers, self.ints)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put_with(
        self,
        data: cython.pp_char,
        numbers: cython.p_double,
        ints: cython.pointer(int64_t),
    ) -> cython.int:
        """The same with some integers, of which there is room for 64."""
        i: cython.int
        st: cython.pointer(ThreadState) = state()
        parameters: cython.p_void[5]
        code: cython.int
        if self.grid == 0:
            return 0
        if _entry == cython.NULL:
            raise RuntimeError("launch: no driver was loaded")
        for i in range(self.n_data, MOST_DATA):  # the driver copies all of them
            data[i] = cython.NULL
        if watched:
            launch_planned(self, data, self.n_data, numbers)
        if st.cuda_index != self.context.index + 1:
            self.context.enter()
        parameters[0], parameters[1] = data, ints
        if self.elementwise:
            parameters[2] = numbers
            parameters[3] = cython.address(self.total)
        else:
            parameters[2] = cython.address(self.total)
            parameters[3] = cython.address(self.chunk)
        if self.context.fault == 0:
            self.context.fault_address()
        parameters[4] = cython.address(self.context.fault)
        stream: uintptr_t = self.context.queue(st)
        code = put(
            self.function, stream, self.grid, self.threads, parameters, self.shared
        )
        count_unheard()
        if code or blocking:
            self.kernel.launched(self.context, code)
        return 0


MATMUL, SET_ATTRIBUTE, BIAS_POINTER = 0, 1, 8


@cython.final
@cython.cclass
class ProductPlan(PlannedLaunch):
    """A product by cuBLASLt but for its addresses: of out, left, right and what is added.

    Args:
        context: of the device.
        prepared: launches it by the library's Python functions, whose errors have words;
            `cublas.Prepared`.
        functions: the addresses of the library's functions that multiply, and set an
            attribute; 0 where something stands in for it.
        aligned: what the four addresses are to be multiples of.
        still_holds: called without arguments; whether the plan is what is asked for, and
            the library has its descriptions still.
        otherwise: called with the four addresses where that is not so.
    """

    def __init__(
        self,
        context: DeviceContext,
        prepared,
        functions,
        aligned,
        still_holds,
        otherwise,
    ):
        i: cython.int
        word: uintptr_t
        plan = prepared.plan
        self.context, self.prepared = context, prepared
        self.still_holds, self.otherwise = still_holds, otherwise
        self.n_bytes = plan.n_bytes
        words = [*functions, plan.handle, plan.described, *prepared.scales]
        words += [plan.left, plan.right, plan.added, plan.out, plan.algorithm]
        for i in range(len(words)):
            word = int(words[i])
            self.words[i] = cython.cast(cython.p_void, word)
        for i in range(4):
            self.aligned[i] = aligned[i]

    def run(self, addresses: tuple) -> None:
        """Puts the product into this thread's queue."""
        data: cython.p_char[4]
        i: cython.int
        address: uintptr_t
        for i in range(4):
            address = addresses[i]
            data[i] = cython.cast(cython.p_char, address)
        self.submit(data, cython.NULL)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def submit(self, data: cython.pp_char, numbers: cython.p_double) -> cython.int:
        i: cython.int
        none: cython.double[24]
        before: int64_t
        fits: cython.bint = self.still_holds()
        for i in range(4):
            if cython.cast(uintptr_t, data[i]) % self.aligned[i]:
                fits = False
        if not fits:
            self.otherwise([cython.cast(uintptr_t, data[i]) for i in range(4)])
            return 0
        if watched:
            memset(none, 0, cython.sizeof(none))
            launch_planned(self, data, 4, none)
        before = counts.launches
        if self.words[MATMUL] == cython.NULL or self.multiply(data):
            given = [cython.cast(uintptr_t, data[i]) for i in range(4)]
            self.prepared.launch(self.context, given)
            counts.launches = before  # the library's calls are one launch
        count_unheard()
        if blocking:
            self.context.current_queue().synchronize()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def multiply(self, data: cython.pp_char) -> cython.int:
        """Calls the library; what it says: 0 is all right."""
        st: cython.pointer(ThreadState) = state()
        w: cython.pp_void = self.words
        swap: cython.bint = self.prepared.transposed
        room: uintptr_t = 0
        code: cython.int = 0
        vector: cython.p_void = data[3]
        added: cython.p_void = data[3] if self.prepared.adds else data[0]
        if st.cuda_index != self.context.index + 1:
            self.context.enter()
        stream: uintptr_t = self.context.queue(st)
        if self.prepared.biased:
            code = cython.cast(set_attribute_t, w[SET_ATTRIBUTE])(
                w[3], BIAS_POINTER, cython.address(vector), cython.sizeof(vector)
            )
            self.prepared.plan.vector = None
        if self.n_bytes:
            room = self.context.allocator.take(self.n_bytes, stream)
        try:
            if code == 0:
                code = cython.cast(matmul_t, w[MATMUL])(
                    w[2],
                    w[3],
                    w[4],
                    data[2] if swap else data[1],
                    w[6],
                    data[1] if swap else data[2],
                    w[7],
                    w[5],
                    added,
                    w[8],
                    data[0],
                    w[9],
                    w[10],
                    cython.cast(cython.p_void, room),
                    self.n_bytes,
                    cython.cast(cython.p_void, stream),
                )
        finally:
            if room:  # what comes later in the queue may use it
                self.context.allocator.let_go_of(room)
        return code


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
        table: `ROOM` words; see `gpu_entries.list_entry`.
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
