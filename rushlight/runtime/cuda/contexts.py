"""The devices of this machine, and the one that each thread uses.

A `CudaContext` holds a device's primary context, the one that all CUDA libraries of a process
share, and what belongs to it: its memory, its queues, its kernels.
"""

import atexit
import contextlib
import ctypes
import dataclasses
import os
import threading
import uuid
from collections import OrderedDict

from rushlight.core.state import notify_read
from rushlight.core.warning import warn
from rushlight.random.generator import follow
from rushlight.runtime.cuda import driver, launch
from rushlight.runtime.cuda.allocator import Allocator
from rushlight.runtime.cuda.code_cache import Modules
from rushlight.runtime.cuda.faults import FaultBoard
from rushlight.runtime.cuda.generator import PhiloxGenerator
from rushlight.runtime.cuda.streams import Event, Stream, Streams

# Numbers of the driver's device attributes
WARP_SIZE = 10
CLOCK_RATE = 13
MULTIPROCESSORS = 16
INTEGRATED = 18
PCI_BUS, PCI_DEVICE, PCI_DOMAIN = 33, 34, 50
MEMORY_CLOCK_RATE = 36
MEMORY_BUS_WIDTH = 37
CACHE_BYTES = 38
THREADS_PER_MULTIPROCESSOR = 39
THREADS_PER_BLOCK = 1
MAJOR, MINOR = 75, 76
SHARED_BYTES_PER_BLOCK = 8
SHARED_BYTES_PER_MULTIPROCESSOR = 81
REGISTERS_PER_MULTIPROCESSOR = 82
MULTI_GPU_BOARD = 84
SHARED_BYTES_BY_OPTION = 97

_ctxs: dict = {}
_lock = threading.RLock()
sync_debug_mode = 0  # waits are told of by 1 a warning, 2 an error


class Chosen(threading.local):
    """What a thread uses: a device's number, and by device the queue that its work goes to."""

    index = 0
    streams = None


_thread = Chosen()


@dataclasses.dataclass(frozen=True)
class Properties:
    """What a device is like, as PyTorch's ``get_device_properties`` tells it."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    uuid: uuid.UUID
    L2_cache_size: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int
    is_integrated: int
    is_multi_gpu_board: int

    @property
    def gcnArchName(self):
        """The name again, as devices of another maker are asked for it."""
        return self.name

    def __repr__(self):
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, "
            f"minor={self.minor}, total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, "
            f"L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )


class CudaContext(launch.DeviceContext):
    """One device: its context, and what lives there."""

    def __init__(self, cuda, index):
        super().__init__(index)
        self.driver = cuda
        self.handle = cuda.call("cuDeviceGet", index)
        self.context = cuda.call("cuDevicePrimaryCtxRetain", self.handle)
        self.lock = threading.RLock()
        cuda.call("cuCtxSetCurrent", self.context)
        launch.enter_context(index)
        self.default_stream = Stream(self, 0)
        self.streams = Streams(self)
        self.allocator = Allocator(self)
        self.modules = Modules(self)
        self.generator = follow(PhiloxGenerator(index))
        self.peers: set = set()
        self.handles: dict = {}  # of entries, by kernel and layout
        self.block_limits: dict = {}  # of those: threads of a block, at most
        self.plans: OrderedDict = OrderedDict()  # of Fourier transforms
        self.products: dict = {}  # plans of the library's products
        self.prepared: dict = {}  # those by what they are asked for with
        self.convolutions: OrderedDict = OrderedDict()  # plans of them, by thread
        self._properties = self._target = None
        self._writer = None
        self.faults = FaultBoard(self)
        self.launched: dict = {}  # what is to be looked at, and where: None is anywhere
        self.blocking = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"

    def attribute(self, number):
        """One of the driver's figures of this device."""
        which = self.driver.bindings.CUdevice_attribute(number)
        return self.driver.call("cuDeviceGetAttribute", which, self.handle)

    @property
    def properties(self):
        """What the device is like."""
        if self._properties is None:
            self._properties = _ask_properties(self)
        return self._properties

    def fault_address(self):
        """Where kernels note what they refuse."""
        if not self.fault:
            with self.lock:
                if not self.fault:
                    place = int(self.call("cuMemAlloc", 16))
                    self.call("cuMemsetD8Async", place, 0, 16, 0)
                    self.call(
                        "cuStreamSynchronize", 0
                    )  # other queues do not wait for it
                    self.fault = place
        return self.fault

    def take_faults(self):
        """What kernels of this thread's queue noted until now, as bits; forgotten after."""
        place, word = self.fault_address(), ctypes.c_int32(0)
        queue = current_stream(self)
        self.call("cuMemcpyAsync", ctypes.addressof(word), place, 4, queue.handle)
        queue.synchronize()
        if word.value:
            self.call("cuMemsetD8Async", place, 0, 16, queue.handle)
            queue.synchronize()
        return word.value

    def writer(self):
        """The queue whose work is written down for programs."""
        if self._writer is None:
            self._writer = self.streams.give()
        return self._writer

    @property
    def architecture(self):
        """The name of its instruction set, such as ``sm_90``."""
        return f"sm_{self.attribute(MAJOR)}{self.attribute(MINOR)}"

    @property
    def target(self):
        """What kernels are compiled for, to run here."""
        if self._target is None:
            from rushlight.codegen.target import gpu

            self._target = gpu(self.architecture)
        return self._target

    def enter(self):
        """Makes this thread's driver calls go to this device."""
        if launch.entered_context() != self.index:
            self.driver.call("cuCtxSetCurrent", self.context)
            launch.enter_context(self.index)
        return self

    def event(self):
        """A moment in a queue, of whichever device records it first."""
        return Event()

    def current_queue(self):
        """The queue that this thread's work goes to."""
        return current_stream(self)

    def call(self, name, *args):
        """A call of the driver on this device."""
        self.enter()
        return self.driver.call(name, *args)

    def ask(self, name, *args):
        """A call of the driver on this device, with its result code."""
        self.enter()
        return self.driver.ask(name, *args)

    def memory(self):
        """Free and total bytes, as the driver counts them."""
        return tuple(int(n) for n in self.call("cuMemGetInfo"))

    def synchronize(self):
        """Waits until everything that was asked of the device is done."""
        self.call("cuCtxSynchronize")

    def wait(self, queue=None):
        """Waits for a queue, or for all of them, and looks for what kernels refused.

        Raises:
            IndexError: a kernel met an index that is none; or what its operator raises.
        """
        with self.lock:  # what others launch meanwhile may not be done
            last = self.faults.count
            done = [
                pair
                for pair in self.launched
                if queue is None or pair[1] in (None, queue)
            ]
            for pair in done:
                del self.launched[pair]
        if queue is None:
            self.synchronize()
        else:
            queue.synchronize()
        self.faults.look(queue, last)
        for item, _ in done:
            item.look()

    def report_wait(self):
        """Reports that the host will wait for the device, where a program asked for that.

        Raises:
            RuntimeError: it asked for an error.
        """
        words = "called a synchronizing CUDA operation"
        if sync_debug_mode == 2:
            raise RuntimeError(words)
        if sync_debug_mode == 1:
            warn(words)

    def wait_for_event(self, event):
        """Waits for a moment in a queue, and looks for what was refused before it."""
        event.synchronize()
        self.faults.look(event.queue, event.last)
        for item, where in list(self.launched):
            if where == event.queue:
                item.look()

    def look_later(self, item, where):
        """Has an item's ``look`` called when a queue was waited for; None: any."""
        with self.lock:
            self.launched[item, where] = None

    def look_no_more(self, item):
        """Takes that back."""
        with self.lock:
            for pair in [pair for pair in self.launched if pair[0] is item]:
                del self.launched[pair]

    def reaches(self, other):
        """Whether this device can read the other's memory by itself."""
        if other is self:
            return True
        return bool(self.call("cuDeviceCanAccessPeer", self.handle, other.handle))

    def open_to(self, other):
        """Lets this device read the other's memory, if it can; whether it can."""
        if other is self or other.index in self.peers:
            return True
        if not self.reaches(other):
            return False
        code, _ = self.ask("cuCtxEnablePeerAccess", other.context, 0)
        if code not in (0, driver.PEER_ACCESS_ALREADY_ENABLED):
            self.driver.refuse(code, "cuCtxEnablePeerAccess")
        self.peers.add(other.index)
        return True


def _ask_properties(ctx):
    name = ctx.driver.call("cuDeviceGetName", 256, ctx.handle)
    text = name.split(b"\0")[0].decode() if isinstance(name, bytes) else name
    identity = ctx.driver.call("cuDeviceGetUuid", ctx.handle)
    known = {
        "warp_size": WARP_SIZE,
        "clock_rate": CLOCK_RATE,
        "multi_processor_count": MULTIPROCESSORS,
        "is_integrated": INTEGRATED,
        "pci_bus_id": PCI_BUS,
        "pci_device_id": PCI_DEVICE,
        "pci_domain_id": PCI_DOMAIN,
        "memory_clock_rate": MEMORY_CLOCK_RATE,
        "memory_bus_width": MEMORY_BUS_WIDTH,
        "L2_cache_size": CACHE_BYTES,
        "max_threads_per_multi_processor": THREADS_PER_MULTIPROCESSOR,
        "max_threads_per_block": THREADS_PER_BLOCK,
        "major": MAJOR,
        "minor": MINOR,
        "shared_memory_per_block": SHARED_BYTES_PER_BLOCK,
        "shared_memory_per_multiprocessor": SHARED_BYTES_PER_MULTIPROCESSOR,
        "shared_memory_per_block_optin": SHARED_BYTES_BY_OPTION,
        "regs_per_multiprocessor": REGISTERS_PER_MULTIPROCESSOR,
        "is_multi_gpu_board": MULTI_GPU_BOARD,
    }
    return Properties(
        name=text,
        total_memory=int(ctx.driver.call("cuDeviceTotalMem", ctx.handle)),
        uuid=uuid.UUID(bytes=bytes(identity.bytes)[:16]),
        **{name: ctx.attribute(number) for name, number in known.items()},
    )


def count():
    """The number of devices; 0 where there is no driver."""
    if not driver.loaded() and not driver.present():
        return 0
    return driver.load().call("cuDeviceGetCount")


def ctx(index=None):
    """A device, or the one that this thread uses.

    Raises:
        RuntimeError: there is none of that number.
    """
    if index is None:
        index = current_index()
    found = _ctxs.get(index)
    return found if found is not None else _open(index)


def _open(index):
    cuda = driver.load()
    with _lock:
        found = _ctxs.get(index)
        if found is not None:
            return found
        check_index(index)
        _ctxs[index] = made = CudaContext(cuda, index)
        made.serve()
    ctx(current_index()).enter()
    return made


def check_index(index):
    """Refuses the number of a device that is not there."""
    total = count()
    if not 0 <= index < total:
        raise RuntimeError(
            f"CUDA error: invalid device ordinal\n  device cuda:{index} was asked for, and "
            f"{total} can be used\n  remedy: a device below {total}, or CUDA_VISIBLE_DEVICES"
        )


def known(index):
    """A device that has been used; None for others."""
    return _ctxs.get(index)


def opened():
    """The devices that have been used so far."""
    return list(_ctxs.values())


@atexit.register
def join_modules():
    """Has the next process like this one load fewer modules."""
    if driver.in_bad_fork():
        return
    for ctx in opened():
        with contextlib.suppress(RuntimeError, OSError):  # of a device that failed
            ctx.modules.join()


def current_index():
    """The number of the device that this thread uses."""
    return _thread.index


def use(index):
    """Makes a device the one that this thread uses; the number of the one before."""
    before = current_index()
    if index != before:
        notify_read(None)  # operators that wait are the device's before
        check_index(index)
        _thread.index = index
        if index in _ctxs:
            _ctxs[index].enter()
    return before


def current_stream(where):
    """The queue of a device that this thread's work goes to."""
    chosen = _thread.streams
    return (
        chosen.get(where.index, where.default_stream)
        if chosen
        else where.default_stream
    )


def use_stream(stream):
    """Sends this thread's work on the queue's device there; the queue before."""
    before = current_stream(stream.ctx)
    if stream != before:
        notify_read(None)  # operators that wait belong to the queue before
    if _thread.streams is None:
        _thread.streams = {}
    _thread.streams[stream.ctx.index] = stream
    launch.choose_queue(stream.ctx.index, stream.handle)
    return before


def _leave_in_child():
    """In a forked process there is no device: its memory is the parent's."""
    global _lock
    _lock = threading.RLock()
    clear()


os.register_at_fork(after_in_child=_leave_in_child)


def forget():
    """Lets go of every device: for tests, which put another driver in place."""
    with _lock:
        clear()


def clear():
    """Lets go of every device, and of what this thread chose among them."""
    _ctxs.clear()
    launch.forget_devices()
    _thread.__dict__.clear()
    launch.forget_thread()
