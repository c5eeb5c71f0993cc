"""A CUDA driver without a card: it checks what it is asked, and does it on the host.

It stands in for the module ``cuda.bindings.driver``. Memory of a card is memory of the
host with guards around it. Work is not done when it is asked for but when somebody waits,
and then the queues are emptied in an order that only events bind, drawn anew for each
seed: who forgets to wait reads what is not there yet. A call with a wrong handle, a wrong
kind of argument, or out of order ends as it does with NVIDIA's driver; what that would
not notice (memory that is freed while work that was asked for still needs it, an object
that is destroyed twice) raises `Misuse`.
"""

from __future__ import annotations

import ctypes
import enum
import hashlib
import itertools
import json
import math
import os
import random
import re
import subprocess
import tempfile
import threading
import types
from pathlib import Path

from tests.codegen.ptxas import PTXAS

GUARD = 256
# Added to a card's addresses, once for each machine before and once more: the host dies of
# using one as its own, and no machine takes another's for one of its.
FAR = 1 << 47
MACHINES = 1 << 14
POISON = 0xA5


class Misuse(AssertionError):
    """A call that a driver would let pass, with who knows what result."""


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908


TEXTS = {
    CUresult.CUDA_ERROR_INVALID_VALUE: "invalid argument",
    CUresult.CUDA_ERROR_OUT_OF_MEMORY: "out of memory",
    CUresult.CUDA_ERROR_NO_DEVICE: "no CUDA-capable device is detected",
    CUresult.CUDA_ERROR_INVALID_CONTEXT: "invalid device context",
    CUresult.CUDA_ERROR_INVALID_HANDLE: "invalid resource handle",
    CUresult.CUDA_ERROR_ILLEGAL_ADDRESS: "an illegal memory access was encountered",
    CUresult.CUDA_ERROR_LAUNCH_FAILED: "unspecified launch failure",
}
CUdevice_attribute = enum.IntEnum(
    "CUdevice_attribute", {f"A{n}": n for n in range(1, 150)}
)
CUfunction_attribute = enum.IntEnum(
    "CUfunction_attribute", {f"A{n}": n for n in range(16)}
)
CUjitInputType = enum.IntEnum("CUjitInputType", {"CUBIN": 0, "PTX": 1, "FATBINARY": 2})
CUstreamCaptureMode = enum.IntEnum(
    "CUstreamCaptureMode", {"GLOBAL": 0, "THREAD_LOCAL": 1, "RELAXED": 2}
)
CUstreamCaptureStatus = enum.IntEnum(
    "CUstreamCaptureStatus", {"NONE": 0, "ACTIVE": 1, "INVALIDATED": 2}
)

ATTRIBUTES = {
    **{
        1: 1024,
        8: 49152,
        10: 32,
        13: 1980000,
        16: 132,
        18: 0,
        33: 9,
        34: 0,
        36: 2619000,
    },
    **{37: 6144, 38: 50 << 20, 39: 2048, 50: 0, 75: 9, 76: 0, 81: 233472, 82: 65536},
    **{84: 0, 97: 232448},
}
# Of a function: threads of a block, and bytes of shared memory that launches may ask for
MOST_THREADS, MOST_SHARED = 0, 8
REGISTERS = 65536  # of a block
# What the driver of a version of CUDA reads: the version of PTX, times ten
PTX_OF_DRIVERS = {11080: 78, 12000: 80, 12040: 84, 12080: 87, 13000: 90}


NUMBERS = itertools.count()


def near(address):
    """Where the host finds what lies at an address of a card's, or its own."""
    return address % FAR


class Failure(Exception):
    """Ends a call with a result code."""

    def __init__(self, code):
        super().__init__(code)
        self.code = CUresult(code)


class Handle:
    """Something that the driver gave out: an integer with a kind."""

    kind = "handle"

    def __init__(self, owner, **facts):
        owner.handles += 16
        self.number = owner.handles
        self.alive = True
        owner.live[self.number] = self
        self.__dict__.update(facts)

    def __int__(self):
        return self.number

    __index__ = __int__


class CUcontext(Handle):
    pass


class CUstream(Handle):
    pass


class CUevent(Handle):
    pass


class CUmodule(Handle):
    pass


class CUfunction(Handle):
    pass


class CUgraph(Handle):
    pass


class CUgraphExec(Handle):
    pass


class CUlinkState(Handle):
    pass


class Work:
    """Something to be done on a queue."""

    def __init__(self, do, waits=None, what=""):
        self.do = do
        self.waits = waits  # (event, turn): not before that moment has come
        self.what = what


class Queue:
    """The work of a stream, in order."""

    def __init__(self):
        self.work: list = []
        self.capture = None


class Capture:
    """What is written down of one or more queues."""

    def __init__(self, origin, mode):
        self.origin = origin
        self.mode = mode
        self.work: list = []
        self.queues = {origin}
        self.joined = {origin}
        self.events: dict = {}
        self.broken = False


class Memory:
    """A run of the host's memory with guards on both sides."""

    def __init__(self, size, where, far=FAR):
        self.size = size
        self.where = where
        self.raw = ctypes.create_string_buffer(size + 2 * GUARD + 512)
        base = ctypes.addressof(self.raw) + GUARD
        self.start = -(-base // 512) * 512
        self.address = self.start + (0 if where == "host" else far)
        ctypes.memset(ctypes.addressof(self.raw), POISON, len(self.raw))

    def check(self):
        """Fails where something was written outside."""
        start = ctypes.addressof(self.raw)
        before = ctypes.string_at(start, self.start - start)
        end = self.start + self.size
        after = ctypes.string_at(end, start + len(self.raw) - end)
        if set(before + after) - {POISON}:
            raise Misuse(
                f"bytes outside of {self.size} at {self.address:#x} were written"
            )


def driver_call(function):
    """Counts a call, lets faults in, and turns failures into result codes."""
    name = function.__name__

    def wrapped(self, *args):
        try:
            with self.lock:
                self.calls.append((name, args))
                self.look_for_faults(name)
                if name not in ("cuInit", "cuGetErrorName", "cuGetErrorString"):
                    self.need_start()
                values = function(self, *args)
        except Failure as failure:
            return (failure.code, *[None] * RESULTS.get(name, 0))
        if values is None:
            return (CUresult.CUDA_SUCCESS,)
        return (
            CUresult.CUDA_SUCCESS,
            *(values if isinstance(values, tuple) else (values,)),
        )

    wrapped.__name__ = name
    return wrapped


RESULTS = {"cuMemAlloc": 1, "cuMemHostAlloc": 1, "cuModuleLoadData": 1}
SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    *[ctypes.c_uint] * 7,
    *[ctypes.c_void_p] * 3,
)


class FakeDriver:
    """The functions of ``cuda.bindings.driver`` that Rushlight uses.

    Args:
        cards: how many devices there are.
        memory: the bytes of each.
        architecture: the generation of all of them, major and minor.
        version: of the driver, as it tells it.
        seed: chooses the order in which queues are emptied.
    """

    CUresult = CUresult
    CUdevice_attribute = CUdevice_attribute
    CUfunction_attribute = CUfunction_attribute
    CUjitInputType = CUjitInputType
    CUstreamCaptureMode = CUstreamCaptureMode

    def __init__(
        self, cards=1, memory=1 << 26, seed=0, architecture=(9, 0), version=13000
    ):
        self.cards = cards
        self.attributes = {**ATTRIBUTES, 75: architecture[0], 76: architecture[1]}
        self.architecture = "sm_{}{}".format(*architecture)
        self.version = version
        self.memory = memory
        self.far = FAR * (1 + next(NUMBERS) % MACHINES)
        self.random = random.Random(seed)
        # A thread that waits does the work of all queues: no other may find a queue
        # empty while its last piece of work is not done.
        self.lock = threading.RLock()
        self.others = threading.Condition(self.lock)
        self.calls: list = []
        self.handles = 0x1000
        self.clock = 0  # pieces of work that were done
        self.live: dict = {}
        self.started = False
        self.entered = threading.local()
        self.contexts: dict = {}
        self.device: dict = {}  # memory of the cards, by address
        self.pinned: dict = {}
        self.taken = [0] * cards
        self.queues: dict = {}
        self.faults: list = []
        self.executors: dict = {}
        self.modules = 0
        self.peers: set = set()
        self.mode = CUstreamCaptureMode.GLOBAL
        self.sticky = None  # an error that ends the context
        self.launch_pointer = SIGNATURE(self.launch_from_c)

    # -- what tests use -----------------------------------------------------------------

    def fail(self, name, code, after=0):
        """The call of a name, ``after`` others, ends with a code."""
        self.faults.append([name, CUresult(code), after])

    def look_for_faults(self, name):
        for fault in self.faults:
            if fault[0] == name:
                if fault[2]:
                    fault[2] -= 1
                    continue
                self.faults.remove(fault)
                raise Failure(fault[1])

    def names(self, *only):
        """The names of the calls so far, or those of some."""
        return [name for name, _ in self.calls if not only or name in only]

    def check(self):
        """Fails where memory outside of what was given was written."""
        self.drain()
        for memory in (*self.device.values(), *self.pinned.values()):
            memory.check()

    def pending(self):
        """How much work waits."""
        return sum(len(queue.work) for queue in self.queues.values())

    # -- inside ------------------------------------------------------------------------

    def need_start(self):
        if not self.started:
            raise Failure(CUresult.CUDA_ERROR_NOT_INITIALIZED)
        if self.sticky is not None:
            raise Failure(self.sticky)

    @property
    def current(self):
        """The context that the calling thread has made its own, or None."""
        return getattr(self.entered, "context", None)

    def need_context(self):
        if self.current is None:
            raise Failure(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return self.current

    def known(self, kind, value):
        """The object of a handle, of the right kind and alive."""
        found = self.live.get(int(value))
        if found is None or not isinstance(found, kind):
            raise Failure(CUresult.CUDA_ERROR_INVALID_HANDLE)
        if not found.alive:
            raise Misuse(f"a {kind.__name__} is used after it was destroyed")
        return found

    def end_of_life(self, kind, value):
        found = self.known(kind, value)
        found.alive = False
        return found

    def is_enum(self, value, kind):
        if not isinstance(value, kind):
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        return value

    def queue(self, handle):
        """The queue of a stream, in the current context."""
        context = self.need_context()
        number = int(handle)
        if number:
            stream = self.known(CUstream, number)
            if stream.context is not context:
                raise Failure(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return self.queues.setdefault((context.number, number), Queue())

    def put(self, handle, work):
        """Work for a queue, or for what is being written down."""
        with self.lock:
            queue = self.queue(handle)
            if queue.capture is not None:
                queue.capture.work.append(work)
            else:
                queue.work.append(work)

    def ready(self, work):
        """Whether what a piece of work waits for has come."""
        if work.waits is None:
            return True
        event, turn = work.waits
        return event.done >= turn

    def step(self):
        """Does one piece of work that nothing holds back; whether there was one."""
        waiting = [q for q in self.queues.values() if q.work]
        heads = [q for q in waiting if self.ready(q.work[0])]
        if not heads:
            return self.wait_for_others(waiting)
        work = self.random.choice(heads).work.pop(0)
        try:
            self.clock += 1
            work.do()
        except Failure as failure:
            self.sticky = failure.code
        except BaseException:  # what was to come after it may write where nothing is
            for queue in self.queues.values():
                queue.work.clear()
            raise
        return True

    def wait_for_others(self, waiting):
        """Lets other threads in, where a queue waits for another process; whether one does."""
        foreign = [q for q in waiting if q.work[0].what == "nccl"]
        if foreign:
            self.others.wait(0.001)
        return bool(foreign)

    def drain(self, queue=None):
        """Does the work of a queue, or all of it."""
        with self.lock:
            while (queue.work if queue is not None else self.pending()) and self.step():
                pass
            if queue.work if queue is not None else self.pending():
                raise Misuse("queues wait for one another")
            if self.sticky is not None:
                raise Failure(self.sticky)

    def refuse_while_capturing(self):
        """What a thread may not do while calls are written down."""
        if self.mode == CUstreamCaptureMode.RELAXED:
            return
        for queue in self.queues.values():
            capture = queue.capture
            if capture is not None and capture.mode != CUstreamCaptureMode.RELAXED:
                capture.broken = True
                raise Failure(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)

    def holder(self, address, size, tables=None):
        """The memory that a span lies in; None where it is other memory of the host's."""
        for table in tables or (self.device, self.pinned):
            for memory in table.values():
                if memory.address <= address < memory.address + memory.size:
                    if address + size > memory.address + memory.size:
                        raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
                    return memory
        if tables is None:
            self.own(address)
        return None

    def own(self, address):
        """Where the host finds what lies at an address of this machine's.

        Raises:
            Misuse: a tensor outlived the machine whose address it is.
        """
        if address >= FAR and address // FAR * FAR != self.far:
            raise Misuse(f"{address:#x} is another machine's address")
        return near(address)

    def still(self, memory, what):
        """Fails where memory was freed before the work that needs it was done."""
        table = self.device if memory.where != "host" else self.pinned
        if table.get(memory.address) is not memory:
            raise Misuse(f"{what}: memory was freed before this was done")

    # -- start, devices, contexts ---------------------------------------------------------

    @driver_call
    def cuInit(self, flags):
        if not self.cards:
            raise Failure(CUresult.CUDA_ERROR_NO_DEVICE)
        self.started = True

    @driver_call
    def cuDriverGetVersion(self):
        return self.version

    @driver_call
    def cuGetErrorName(self, code):
        return CUresult(code).name.encode()

    @driver_call
    def cuGetErrorString(self, code):
        return TEXTS.get(code, CUresult(code).name.lower()).encode()

    @driver_call
    def cuDeviceGetCount(self):
        return self.cards

    @driver_call
    def cuDeviceGet(self, index):
        if not 0 <= index < self.cards:
            raise Failure(CUresult.CUDA_ERROR_INVALID_DEVICE)
        return index

    @driver_call
    def cuDeviceGetName(self, length, device):
        return b"Imagined H200".ljust(length, b"\0")

    @driver_call
    def cuDeviceGetUuid(self, device):
        return types.SimpleNamespace(bytes=bytes([device]) * 16)

    @driver_call
    def cuDeviceTotalMem(self, device):
        return self.memory

    @driver_call
    def cuDeviceGetAttribute(self, attribute, device):
        self.is_enum(attribute, CUdevice_attribute)
        return self.attributes[int(attribute)]

    @driver_call
    def cuDevicePrimaryCtxRetain(self, device):
        if device not in self.contexts:
            self.contexts[device] = CUcontext(self, device=device)
        return self.contexts[device]

    @driver_call
    def cuCtxSetCurrent(self, context):
        self.entered.context = self.known(CUcontext, context)

    @driver_call
    def cuCtxSynchronize(self):
        self.need_context()
        self.refuse_while_capturing()
        self.drain()

    @driver_call
    def cuCtxGetStreamPriorityRange(self):
        self.need_context()
        return 0, -5

    @driver_call
    def cuMemGetInfo(self):
        device = self.need_context().device
        return self.memory - self.taken[device], self.memory

    @driver_call
    def cuDeviceCanAccessPeer(self, device, other):
        return int(device != other)

    @driver_call
    def cuCtxEnablePeerAccess(self, other, flags):
        pair = (self.need_context().number, int(other))
        if pair in self.peers:
            raise Failure(CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        self.peers.add(pair)

    @driver_call
    def cuGetProcAddress(self, name, version, flags):
        if name != b"cuLaunchKernel":
            raise Failure(CUresult.CUDA_ERROR_NOT_FOUND)
        return ctypes.cast(self.launch_pointer, ctypes.c_void_p).value, 0

    # -- memory ---------------------------------------------------------------------------

    @driver_call
    def cuMemAlloc(self, size):
        device = self.need_context().device
        self.refuse_while_capturing()
        if size <= 0:
            raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
        if self.taken[device] + size > self.memory:
            raise Failure(CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        memory = Memory(size, device, self.far)
        self.device[memory.address] = memory
        self.taken[device] += size
        return memory.address

    @driver_call
    def cuMemFree(self, address):
        self.need_context()
        self.refuse_while_capturing()
        self.drain()
        memory = self.device.pop(int(address), None)
        if memory is None:
            raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
        memory.check()
        self.taken[memory.where] -= memory.size

    @driver_call
    def cuMemHostAlloc(self, size, flags):
        self.need_context()
        self.refuse_while_capturing()
        memory = Memory(size, "host")
        self.pinned[memory.address] = memory
        return memory.address

    @driver_call
    def cuMemFreeHost(self, address):
        self.need_context()
        memory = self.pinned.pop(int(address), None)
        if memory is None:
            raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
        self.drain()
        memory.check()

    @driver_call
    def cuMemcpyAsync(self, target, source, size, stream):
        queue = self.queue(stream)
        target, source = int(target), int(source)
        to, where = self.holder(target, size), self.holder(source, size)
        if (to is None or where is None) and queue.capture is not None:
            queue.capture.broken = True
            raise Failure(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        kept = ctypes.string_at(source, size) if where is None else None

        def do():
            for memory in (to, where):
                if memory is not None:
                    self.still(memory, "cuMemcpyAsync")
            data = kept if kept is not None else ctypes.string_at(near(source), size)
            ctypes.memmove(near(target), data, size)

        self.put(stream, Work(do, what="copy"))
        if to is None:
            self.drain(queue)

    @driver_call
    def cuMemcpyPeerAsync(self, target, one, source, other, size, stream):
        self.known(CUcontext, one), self.known(CUcontext, other)
        target, source = int(target), int(source)
        to, where = self.holder(target, size), self.holder(source, size)
        if to is None or where is None:
            raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)

        def do():
            self.still(to, "cuMemcpyPeerAsync"), self.still(where, "cuMemcpyPeerAsync")
            ctypes.memmove(near(target), ctypes.string_at(near(source), size), size)

        self.put(stream, Work(do, what="peer copy"))

    @driver_call
    def cuMemsetD8Async(self, target, value, size, stream):
        memory = self.holder(int(target), size, (self.device,))
        if memory is None:
            raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)

        def do():
            self.still(memory, "cuMemsetD8Async")
            ctypes.memset(near(int(target)), value, size)

        self.put(stream, Work(do, what="fill"))

    # -- queues and moments ---------------------------------------------------------------

    @driver_call
    def cuStreamCreateWithPriority(self, flags, priority):
        return CUstream(self, context=self.need_context(), priority=priority)

    @driver_call
    def cuStreamDestroy(self, stream):
        self.end_of_life(CUstream, stream)

    @driver_call
    def cuStreamSynchronize(self, stream):
        queue = self.queue(stream)
        if queue.capture is not None:
            queue.capture.broken = True
            raise Failure(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        self.drain(queue)

    @driver_call
    def cuStreamQuery(self, stream):
        queue = self.queue(stream)
        if queue.work:
            if self.random.random() < 0.5:
                self.step()
            raise Failure(CUresult.CUDA_ERROR_NOT_READY)

    @driver_call
    def cuEventCreate(self, flags):
        return CUevent(
            self, context=self.need_context(), flags=flags, turn=0, done=0, at=0.0
        )

    @driver_call
    def cuEventDestroy(self, event):
        self.end_of_life(CUevent, event)

    @driver_call
    def cuEventRecord(self, event, stream):
        found, queue = self.known(CUevent, event), self.queue(stream)
        if found.context is not self.current:
            raise Failure(CUresult.CUDA_ERROR_INVALID_HANDLE)
        if queue.capture is not None:
            queue.capture.events[found.number] = queue
            found.captured = queue.capture
            return
        found.captured = None
        found.turn += 1
        turn = found.turn

        def do():
            found.done = max(found.done, turn)
            found.at = float(self.clock)

        self.put(stream, Work(do, what="record"))

    @driver_call
    def cuEventQuery(self, event):
        found = self.known(CUevent, event)
        if getattr(found, "captured", None) is not None:
            found.captured.broken = True
            raise Failure(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        if found.done < found.turn:
            if self.random.random() < 0.5:
                self.step()
        if found.done < found.turn:
            raise Failure(CUresult.CUDA_ERROR_NOT_READY)

    @driver_call
    def cuEventSynchronize(self, event):
        found = self.known(CUevent, event)
        while found.done < found.turn:
            if not self.step():
                raise Misuse("a moment that never comes is waited for")

    @driver_call
    def cuEventElapsedTime(self, start, end):
        first, second = self.known(CUevent, start), self.known(CUevent, end)
        if (first.flags | second.flags) & 2:
            raise Failure(CUresult.CUDA_ERROR_INVALID_HANDLE)
        return (second.at - first.at) / 1000

    @driver_call
    def cuStreamWaitEvent(self, stream, event, flags):
        found, queue = self.known(CUevent, event), self.queue(stream)
        capture = getattr(found, "captured", None)
        if capture is not None:
            if queue.capture is None:
                queue.capture = capture
                capture.queues.add(queue)
            elif capture.events.get(found.number) is not queue:
                capture.joined.add(capture.events[found.number])
            return
        if queue.capture is not None and found.turn:
            queue.capture.broken = True
            raise Failure(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        self.put(stream, Work(lambda: None, (found, found.turn), "wait"))

    # -- graphs -----------------------------------------------------------------------------

    @driver_call
    def cuThreadExchangeStreamCaptureMode(self, mode):
        self.is_enum(mode, CUstreamCaptureMode)
        before, self.mode = self.mode, mode
        return before

    @driver_call
    def cuStreamBeginCapture(self, stream, mode):
        self.is_enum(mode, CUstreamCaptureMode)
        if not int(stream):
            raise Failure(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        queue = self.queue(stream)
        if queue.capture is not None:
            raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
        queue.capture = Capture(queue, mode)

    @driver_call
    def cuStreamIsCapturing(self, stream):
        capture = self.queue(stream).capture
        if capture is None:
            return CUstreamCaptureStatus.NONE
        return (
            CUstreamCaptureStatus.INVALIDATED
            if capture.broken
            else (CUstreamCaptureStatus.ACTIVE)
        )

    @driver_call
    def cuStreamEndCapture(self, stream):
        queue = self.queue(stream)
        capture = queue.capture
        if capture is None or capture.origin is not queue:
            raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
        for member in capture.queues:
            member.capture = None
        if capture.broken:
            raise Failure(CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        if capture.queues - capture.joined:
            raise Failure(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
        return CUgraph(self, work=capture.work)

    @driver_call
    def cuGraphInstantiate(self, graph, flags):
        return CUgraphExec(self, work=list(self.known(CUgraph, graph).work))

    @driver_call
    def cuGraphDestroy(self, graph):
        self.end_of_life(CUgraph, graph)

    @driver_call
    def cuGraphExecDestroy(self, graph):
        self.end_of_life(CUgraphExec, graph)

    @driver_call
    def cuGraphLaunch(self, graph, stream):
        for work in self.known(CUgraphExec, graph).work:
            self.put(stream, Work(work.do, what=work.what))

    # -- kernels ----------------------------------------------------------------------------

    @driver_call
    def cuLinkCreate(self, n, options, values):
        self.need_context()
        return CUlinkState(self, texts=[])

    @driver_call
    def cuLinkAddData(self, state, kind, data, size, name, n, options, values):
        self.is_enum(kind, CUjitInputType)
        if b".entry" not in data or len(data) != size or data[-1:] != b"\0":
            raise Failure(CUresult.CUDA_ERROR_INVALID_PTX)
        self.known(CUlinkState, state).texts.append(bytes(data[:-1]))

    @driver_call
    def cuLinkComplete(self, state):
        found = self.known(CUlinkState, state)
        for text in found.texts:
            self.assemble(text.decode())
        names = re.findall(rb"\.entry ([^(\s]+)", b"".join(found.texts))
        if len(set(names)) < len(names):  # "Multiple definition of"
            raise Failure(CUresult.CUDA_ERROR_INVALID_IMAGE)
        found.image = ctypes.create_string_buffer(b"CUBIN" + b"\0".join(found.texts))
        return ctypes.addressof(found.image), len(found.image) - 1

    @driver_call
    def cuLinkDestroy(self, state):
        self.end_of_life(CUlinkState, state).image = None

    @driver_call
    def cuModuleLoadData(self, image):
        self.need_context()
        if not bytes(image).startswith(b"CUBIN"):
            raise Failure(CUresult.CUDA_ERROR_INVALID_IMAGE)
        self.modules += 1
        return CUmodule(self, text=bytes(image)[5:].decode())

    @driver_call
    def cuModuleUnload(self, module):
        self.end_of_life(CUmodule, module)

    @driver_call
    def cuModuleGetFunction(self, module, name):
        head = rf"\.entry {re.escape(name.decode())}\(([^)]*)\)([^{{]*)"
        texts = self.known(CUmodule, module).text.split("\0")
        found = ((re.search(head, text), text) for text in texts)
        entry, text = next((pair for pair in found if pair[0]), (None, ""))
        if entry is None:
            raise Failure(CUresult.CUDA_ERROR_NOT_FOUND)
        bound = re.search(r"\.maxntid (\d+)", entry[2])
        registers = self.assemble(text).get(name.decode(), 32)
        most = min(1024, REGISTERS // (-(-registers // 8) * 8) // 32 * 32)
        return CUfunction(
            self,
            name=name.decode(),
            text=text,
            parameters=parameters_of(entry[1]),
            most_shared=ATTRIBUTES[8],
            most_threads=min(most, int(bound[1])) if bound else most,
        )

    def assemble(self, text):
        """The registers of each entry of a text that this driver and its cards run."""
        version = re.search(r"\.version (\d+)\.(\d+)", text)
        known = max(v for k, v in PTX_OF_DRIVERS.items() if k <= self.version)
        if int(version[1]) * 10 + int(version[2]) > known:
            raise Failure(CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
        target = re.search(r"\.target (sm_\d+)(a?)", text)
        own = target[1] == self.architecture
        if int(target[1][3:]) > int(self.architecture[3:]) or (target[2] and not own):
            raise Failure(CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU)
        registers = assembled(text, self.architecture + target[2])
        if registers is None:
            raise Failure(CUresult.CUDA_ERROR_INVALID_PTX)
        return registers

    @driver_call
    def cuFuncGetAttribute(self, attribute, function):
        self.is_enum(attribute, CUfunction_attribute)
        found = self.known(CUfunction, function)
        known = {MOST_THREADS: found.most_threads, MOST_SHARED: found.most_shared}
        return known[int(attribute)]

    @driver_call
    def cuFuncSetAttribute(self, function, attribute, value):
        self.is_enum(attribute, CUfunction_attribute)
        found = self.known(CUfunction, function)
        if int(attribute) == MOST_SHARED:
            if not 0 <= value <= ATTRIBUTES[97]:
                raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
            found.most_shared = value

    def launch_from_c(
        self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra
    ):
        with self.lock:
            return self.launch(
                function, (gx, gy, gz), (bx, by, bz), shared, stream, params
            )

    def launch(self, function, grid, block, shared, stream, params):
        """Puts a kernel into a queue; a result code."""
        self.calls.append(("cuLaunchKernel", (function, grid, block, stream)))
        try:
            self.look_for_faults("cuLaunchKernel")
            self.need_start()
            found = self.known(CUfunction, function)
            if 0 in (*grid, *block) or math.prod(block) > 1024:
                raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
            if shared > found.most_shared:
                raise Failure(CUresult.CUDA_ERROR_INVALID_VALUE)
            if block[0] > found.most_threads:
                raise Failure(CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
            addresses = ctypes.cast(params, ctypes.POINTER(ctypes.c_void_p))
            values = [
                ctypes.string_at(addresses[n], size)
                for n, size in enumerate(found.parameters)
            ]
            execute = self.executors.get(found.name) or self.executors.get(None)
            if execute is None:
                raise Misuse(f"nothing executes the kernel {found.name}")
            self.put(
                stream or 0,
                Work(
                    lambda: execute(found, grid, block, values, self, shared),
                    what=found.name,
                ),
            )
        except Failure as failure:
            return int(failure.code)
        return 0


def assembled(text, architecture):
    """The registers of each entry, as ptxas counts them; None where it refuses a text.

    What it said is kept in a folder between runs; without it nothing is known.
    """
    if PTXAS is None:
        return {}
    digest = hashlib.sha256(f"{architecture} {PTXAS} {text}".encode()).hexdigest()
    place = Path(tempfile.gettempdir()) / f"rushlight-ptxas-{os.getuid()}"
    place.mkdir(exist_ok=True)
    kept = place / digest[:32]
    if not kept.exists():
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", suffix=".ptx"
        ) as source:
            source.write(text)
            source.flush()
            done = subprocess.run(
                [PTXAS, f"-arch={architecture}", "-v", source.name, "-o", os.devnull],
                capture_output=True,
                text=True,
                check=False,
            )
        found = re.findall(
            r"entry function '(\w+)'.*?Used (\d+) reg", done.stderr, re.S
        )
        registers = {name: int(count) for name, count in found}
        answer = registers if done.returncode == 0 else None
        whole = kept.with_suffix(f".{os.getpid()}")
        whole.write_text(json.dumps(answer))
        whole.replace(kept)
    return json.loads(kept.read_text())


def parameters_of(text):
    """The sizes of a kernel's parameters, from its head in PTX."""
    sizes = []
    for line in filter(None, (part.strip() for part in text.split(","))):
        array = re.search(r"\.b8 [\w$]+\[(\d+)\]", line)
        scalar = re.search(r"\.[ubsf](\d+)", line)
        sizes.append(int(array[1]) if array else int(scalar[1]) // 8)
    return sizes
