"""A counted run of bytes on one device, and the pool that host memory comes from.

Blocks have one of a few hundred sizes: multiples of 64 up to 512 bytes, then four
sizes for each power of two. A freed block waits in its size's list, linked through
its own first word, and the next request of that size takes it: no system call, and
no page fault for pages that were touched before. From 2 MiB up, blocks come straight
from the kernel, aligned so that it can back them with huge pages.
"""

import cython
from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_SIMPLE,
    PyBuffer_FillInfo,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.descriptors import Py_TYPE
from cython.cimports.rushlight.core.device import (
    CPU_DEVICE,
    KIND_CPU,
    KIND_CUDA,
    Backend,
    Device,
    as_device,
    backend_of,
)
from cython.cimports.rushlight.core.guard import drop_guarded, guarded_block, guarding
from cython.cimports.rushlight.core.keys import RECORDING
from cython.cimports.rushlight.core.posix import (
    MADV_HUGEPAGE,
    MAP_ANONYMOUS,
    MAP_FAILED,
    MAP_PRIVATE,
    PROT_READ,
    PROT_WRITE,
    __builtin_clzll,
    madvise,
    mmap,
    munmap,
    posix_memalign,
)
from cython.cimports.rushlight.core.spans import note_block, watching_memory
from cython.cimports.rushlight.core.state import notify_readers, state

from rushlight.core import naming

ALIGNMENT = cython.declare(cython.size_t, 64)
LARGE = cython.declare(cython.size_t, 2 << 20)  # from here: mmap and huge pages
SLACK = cython.declare(int64_t, 64 << 20)  # cached beyond the peak, see trim()
N_CLASSES = cython.declare(cython.int, 168)  # up to 2 ** 48 bytes

# Free blocks by size; the first word of each is the next one's address. Lists and counters
# have no lock: blocks are taken and given back by holders of the interpreter's alone.
waiting = cython.declare(cython.p_char[168])
counts = cython.declare(Counters)
any_shrunk = cython.declare(cython.bint, False)
following = cython.declare(cython.int, 0)
_fetcher = cython.declare(object, None)
limit = cython.declare(int64_t, -1)  # cap on reserved bytes; -1: none
memset(cython.address(counts), 0, cython.sizeof(Counters))
memset(waiting, 0, cython.sizeof(waiting))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def class_of(n_bytes: cython.size_t) -> cython.int:
    """Number of the smallest block size that holds ``n_bytes`` (1 or more)."""
    if n_bytes <= 512:
        return cython.cast(cython.int, (n_bytes - 1) >> 6)
    shift: cython.int = 61 - __builtin_clzll(n_bytes - 1)
    quarter: cython.int = cython.cast(cython.int, (n_bytes - 1) >> shift)
    return 8 + (shift - 7) * 4 + quarter - 4


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def class_size(index: cython.int) -> cython.size_t:
    """Bytes of a block of class ``index``."""
    if index < 8:
        return cython.cast(cython.size_t, index + 1) << 6
    quarter: cython.size_t = 5 + (index - 8) % 4
    return quarter << ((index - 8) // 4 + 7)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def pop_block(index: cython.int) -> cython.p_char:
    block: cython.p_char = waiting[index]
    if block != cython.NULL:
        waiting[index] = cython.cast(cython.pp_char, block)[0]
    return block


@cython.cfunc
def take_block(
    n_bytes: cython.size_t, capacity: cython.pointer(cython.size_t)
) -> cython.p_char:
    """A block of ``n_bytes`` (1 or more) or somewhat more."""
    if n_bytes >> 47:
        refuse(n_bytes)
    index: cython.int = class_of(n_bytes)
    block: cython.p_char
    if guarding:
        block = guarded_block(n_bytes)
        if block == cython.NULL:
            refuse(n_bytes)
    else:
        block = pop_block(index)
        if block == cython.NULL:
            block = refill(cython.address(index), n_bytes)
    size: cython.size_t = class_size(index)
    capacity[0] = size
    counts.live += 1
    counts.live_total += 1
    counts.allocated += size
    counts.allocated_total += size
    counts.requested += n_bytes
    counts.requested_total += n_bytes
    if counts.allocated > counts.allocated_peak:
        counts.allocated_peak = counts.allocated
    if counts.requested > counts.requested_peak:
        counts.requested_peak = counts.requested
    if counts.live > counts.live_peak:
        counts.live_peak = counts.live
    if watching_memory:
        note_block(block, n_bytes)
    return block


@cython.cfunc
@cython.exceptval(check=False)
def give_block(
    data: cython.p_char, capacity: cython.size_t, n_bytes: cython.size_t
) -> cython.void:
    """Returns a block to its list; ``n_bytes`` is what had been asked for."""
    index: cython.int = class_of(capacity)  # a class's whole size: it finds the list
    if watching_memory:
        note_block(data, -cython.cast(int64_t, n_bytes))
    if guarding:
        drop_guarded(data, n_bytes)
    else:
        cython.cast(cython.pp_char, data)[0] = waiting[index]
        waiting[index] = data
    counts.live -= 1
    counts.live_freed += 1
    counts.allocated -= capacity
    counts.allocated_freed += capacity
    counts.requested -= n_bytes
    counts.requested_freed += n_bytes


@cython.cfunc
def refill(index: cython.pointer(cython.int), n_bytes: cython.size_t) -> cython.p_char:
    """A block where the list is empty: the next list's if large, or fresh memory."""
    size: cython.size_t = class_size(index[0])
    block: cython.p_char = cython.NULL
    if size >= LARGE:
        block = pop_block(index[0] + 1)
        if block != cython.NULL:
            index[0] += 1
            return block
        trim(size)
    if limit < 0 or counts.reserved + cython.cast(int64_t, size) <= limit:
        block = system_block(size)
    if block == cython.NULL:
        counts.retries += 1
        release_waiting(0)
        if limit < 0 or counts.reserved + cython.cast(int64_t, size) <= limit:
            block = system_block(size)
    if block == cython.NULL:
        refuse(n_bytes)
    counts.segments += 1
    counts.reserved += size
    counts.reserved_total += size
    if counts.reserved > counts.reserved_peak:
        counts.reserved_peak = counts.reserved
    return block


@cython.cfunc
@cython.exceptval(check=False)
def trim(size: cython.size_t) -> cython.void:
    """Returns large idle blocks before ``size`` more would pass 5/4 of the peak.

    A program whose sizes keep changing would otherwise hold a block for each size it
    ever used.
    """
    bound: int64_t = counts.allocated_peak + counts.allocated_peak // 4 + SLACK
    index: cython.int = N_CLASSES - 1
    smallest: cython.int = class_of(LARGE)
    while index >= smallest and counts.reserved + cython.cast(int64_t, size) > bound:
        if waiting[index] == cython.NULL:
            index -= 1
        else:
            release_block(index)


@cython.cfunc
@cython.exceptval(check=False)
def system_block(size: cython.size_t) -> cython.p_char:
    """Fresh memory from the system, or NULL."""
    block: cython.p_void = cython.NULL
    if size < LARGE:
        if posix_memalign(cython.address(block), ALIGNMENT, size) != 0:
            return cython.NULL
        return cython.cast(cython.p_char, block)
    block = mmap(
        cython.NULL,
        size + LARGE,
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS,
        -1,
        0,
    )
    if block == MAP_FAILED:
        return cython.NULL
    start: uintptr_t = cython.cast(uintptr_t, block)
    aligned: uintptr_t = (start + LARGE - 1) & ~(LARGE - 1)
    if aligned > start:
        munmap(block, aligned - start)
    if aligned < start + LARGE:
        munmap(cython.cast(cython.p_void, aligned + size), start + LARGE - aligned)
    madvise(cython.cast(cython.p_void, aligned), size, MADV_HUGEPAGE)
    return cython.cast(cython.p_char, aligned)


@cython.cfunc
@cython.exceptval(check=False)
def release_block(index: cython.int) -> cython.void:
    """Gives one idle block of a class back to the system."""
    block: cython.p_char = pop_block(index)
    size: cython.size_t = class_size(index)
    if size < LARGE:
        free(block)
    else:
        munmap(block, size)
    counts.segments -= 1
    counts.reserved -= size
    counts.reserved_freed += size


@cython.cfunc
@cython.exceptval(check=False)
def release_waiting(first: cython.int) -> cython.void:
    index: cython.int
    for index in range(first, N_CLASSES):
        while waiting[index] != cython.NULL:
            release_block(index)


@cython.cfunc
@cython.exceptval(-1)
def refuse(n_bytes: cython.size_t) -> cython.int:
    counts.failures += 1
    lines = [
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate "
        f"{n_bytes} bytes. Error code 12 (Cannot allocate memory)",
        f"  in use: {counts.allocated} bytes in {counts.live} storages "
        f"(peak {counts.allocated_peak}); idle in the pool: "
        f"{counts.reserved - counts.allocated} bytes",
    ]
    if limit >= 0:
        lines.append(f"  limit: {limit} bytes, from rushlight.cpu.set_memory_limit")
    raise RuntimeError("\n".join(lines))


@cython.cfunc
def take_on(
    device: Device, n_bytes: cython.size_t, capacity: cython.pointer(cython.size_t)
) -> cython.p_char:
    """Memory on a device: of the pool, or what its backend gives."""
    data: cython.p_char = cython.NULL
    if device.on_host:
        return take_block(n_bytes, capacity)
    backend_of(device).take(n_bytes, device, cython.address(data))
    capacity[0] = n_bytes
    return data


@cython.cfunc
@cython.exceptval(-1, check=False)
def give_back(storage: Storage) -> cython.int:
    """The memory of a storage that has some of its own, to where it came from."""
    if storage.device.on_host:
        give_block(storage.data, storage.capacity, storage.n_bytes)
        return 0
    return backend_of(storage.device).give(
        storage.data, storage.capacity, storage.device
    )


@cython.cfunc
@cython.exceptval(-1, check=False)
def move_bytes(
    target: cython.p_char, source: cython.p_char, n_bytes: cython.size_t, device: Device
) -> cython.int:
    """Copies bytes within one device."""
    if device.on_host:
        memcpy(target, source, n_bytes)
    else:
        copy_across(target, device, source, device, n_bytes, False)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def copy_across(
    target: cython.p_char,
    to: Device,
    source: cython.p_char,
    of: Device,
    n_bytes: cython.size_t,
    non_blocking: cython.bint,
) -> cython.int:
    """Copies bytes of which one end or both are not on the host: its backend does."""
    backend: Backend = backend_of(of if to.on_host else to)
    backend.memory.copy_bytes(
        cython.cast(uintptr_t, target),
        to,
        cython.cast(uintptr_t, source),
        of,
        n_bytes,
        non_blocking,
    )
    return 0


@cython.cfunc
def allocate(n_bytes: cython.size_t, device: Device) -> Storage:
    """A storage of ``n_bytes`` whose contents are undefined."""
    storage: Storage = Storage.__new__(Storage)
    if device.kind != KIND_CPU and device.has_memory and device.index is None:
        device = backend_of(device).place(device)
    storage.device = device
    if n_bytes and device.has_memory:
        storage.data = take_on(device, n_bytes, cython.address(storage.capacity))
    storage.n_bytes = n_bytes
    storage.can_resize = True
    return storage


@cython.cfunc
@cython.exceptval(check=False)
def emptied(body: p_object) -> cython.bint:
    if (
        body.ob_refcnt != 1
        or Py_TYPE(body) != cython.cast(p_object, Storage)
        or cython.cast(Storage, body).capacity == 0
        or cython.cast(Storage, body).device is not CPU_DEVICE
        or cython.cast(Storage, body).counter is not None
        or cython.cast(Storage, body).owner is not None
        or cython.cast(Storage, body).lent
        or cython.cast(pp_object, cython.cast(cython.p_char, body) + _WEAK)[0]
        != cython.NULL
    ):
        return False
    give_block(
        cython.cast(Storage, body).data,
        cython.cast(Storage, body).capacity,
        cython.cast(Storage, body).n_bytes,
    )
    cython.cast(Storage, body).data = cython.NULL
    cython.cast(Storage, body).capacity = 0
    cython.cast(Storage, body).n_bytes = 0
    cython.cast(Storage, body).version = 0
    cython.cast(Storage, body).can_resize = True
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def fill_again(storage: Storage, n_bytes: cython.size_t) -> cython.int:
    storage.data = take_block(n_bytes, cython.address(storage.capacity))
    storage.n_bytes = n_bytes
    return 0


@cython.cfunc
def wrap(
    data: cython.p_char, n_bytes: cython.size_t, owner: object, device: Device
) -> Storage:
    """A storage over memory that ``owner`` keeps alive."""
    storage: Storage = Storage.__new__(Storage)
    storage.device = device
    storage.data = data
    storage.n_bytes = n_bytes
    storage.owner = owner
    return storage


@cython.cfunc
@cython.exceptval(-1, check=False)
def resize_storage(storage: Storage, n_bytes: cython.size_t) -> cython.int:
    """Changes the number of bytes; what fits of the contents stays."""
    if n_bytes == storage.n_bytes:
        return 0
    global any_shrunk
    if not storage.can_resize or storage.lent:
        refuse_resize(storage, n_bytes)
    data: cython.p_char = cython.NULL
    capacity: cython.size_t = 0
    if n_bytes and storage.device.has_memory:
        data = take_on(storage.device, n_bytes, cython.address(capacity))
        if storage.data != cython.NULL:
            move_bytes(
                data, storage.data, min(n_bytes, storage.n_bytes), storage.device
            )
    if storage.capacity:
        give_back(storage)
    storage.data = data
    storage.capacity = capacity
    if n_bytes < storage.n_bytes:
        any_shrunk = True
    storage.n_bytes = n_bytes
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_resize(storage: Storage, n_bytes: cython.size_t) -> cython.int:
    owner = "another library, which looks at them without a copy"
    if storage.owner is not None:
        owner = type(storage.owner).__name__
    raise RuntimeError(
        "Trying to resize storage that is not resizable\n"
        f"  its {storage.n_bytes} bytes belong to {owner}; {n_bytes} were asked for\n"
        "  remedy: clone() the tensor, and resize the copy"
    )


def count_following(change: cython.int):
    """Notes that a thread's operators are followed from here on (1), or no longer (-1)."""
    global following
    following += change


def on_missing_memory(function):
    """Calls a function with each storage without memory that a thread is to read."""
    global _fetcher
    _fetcher = function


@cython.cfunc
@cython.exceptval(-1, check=False)
def fetch(storage: Storage) -> cython.int:
    """Has the operators of another thread run that a storage's contents wait for."""
    if (
        storage.data == cython.NULL
        and storage.n_bytes
        and storage.device.has_memory
        and _fetcher is not None
    ):
        _fetcher(storage)
    return 0


@cython.cfunc
def check_readable(storage: Storage):
    if state().included & RECORDING:
        notify_readers()
    if following:
        fetch(storage)
    if storage.n_bytes and storage.data == cython.NULL:
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data!\n"
            f"  storage: {storage.n_bytes} bytes on {storage.device}"
        )


@cython.cfunc
def copy_in(storage: Storage, values: bytes):
    check_readable(storage)
    storage.writes += 1
    source: cython.p_char = values
    size: cython.size_t = len(values)
    memcpy(storage.data, source, min(size, storage.n_bytes))


@cython.cfunc
@cython.exceptval(-1, check=False)
def position(storage: Storage, index) -> cython.Py_ssize_t:
    place: cython.Py_ssize_t = index
    size: cython.Py_ssize_t = storage.n_bytes
    if not -size <= place < size:
        raise IndexError(f"index {place} out of range for storage of size {size}")
    return place + size if place < 0 else place


@cython.final
@cython.no_gc
@cython.cclass
class VersionCounter:
    """How often the tensors that share it have been changed in place."""


@cython.no_gc  # its references never lead back to it, and untracked is faster
@cython.freelist(256)
@cython.cclass
class Storage:
    """A run of bytes on one device, shared by the tensors that view it.

    Args:
        size: the number of bytes, or a sequence of byte values.
        device: where the bytes live; the host by default.

    >>> UntypedStorage([1, 2, 3]).tolist()
    [1, 2, 3]
    """

    def __cinit__(self):
        self.device = CPU_DEVICE

    def __init__(self, size=0, *, device=None):
        if device is not None:
            self.device = as_device(device)
        values = None
        if not isinstance(size, int):
            values = bytes(size)
            size = len(values)
        if size < 0:
            raise RuntimeError(f"UntypedStorage: size must be non-negative, got {size}")
        if size >= 2**63:
            raise RuntimeError(f"UntypedStorage: {size} bytes are too many")
        self.can_resize = True
        resize_storage(self, size)
        if values:
            copy_in(self, values)

    def __dealloc__(self):
        if self.capacity:
            give_back(self)

    def __getbuffer__(self, view: cython.pointer(Py_buffer), flags: cython.int):
        if not self.device.on_host:
            raise BufferError(
                f"the bytes of a storage on {self.device} are not readable"
            )
        check_readable(self)
        PyBuffer_FillInfo(view, self, self.data, self.n_bytes, 0, flags)
        self.lent += 1
        self.writes += 1

    def __releasebuffer__(self, view: cython.pointer(Py_buffer)):
        self.lent -= 1
        self.writes += 1  # who looked at them may have written

    def nbytes(self) -> int:
        """The number of bytes."""
        return self.n_bytes

    def size(self) -> int:
        """The number of elements, which are bytes."""
        return self.n_bytes

    def __len__(self):
        return self.n_bytes

    def element_size(self) -> int:
        """Bytes of an element: 1."""
        return 1

    def data_ptr(self) -> int:
        """Address of the first byte; 0 where there is none."""
        if state().included & RECORDING:
            notify_readers()
        if following:
            fetch(self)
        self.writes += 1  # whoever has the address may
        return cython.cast(uintptr_t, self.data)

    def resizable(self) -> bool:
        """Whether ``resize_`` may change the number of bytes."""
        return self.can_resize and not self.lent

    def resize_(self, size):
        """Changes the number of bytes in place; the contents that fit are kept.

        Raises:
            RuntimeError: the memory is another library's, or one looks at it.
        """
        if size < 0:
            raise RuntimeError(f"UntypedStorage.resize_: got negative size {size}")
        if size >= 2**63:
            raise RuntimeError(f"UntypedStorage.resize_: {size} bytes are too many")
        if state().included & RECORDING:
            notify_readers()
        if following:
            fetch(self)
        resize_storage(self, size)
        return self

    def _memory_owner(self):
        """The object whose memory this is; ``None`` where it is the pool's."""
        if not isinstance(self.owner, HeldBuffer):
            return None
        held: HeldBuffer = self.owner
        return cython.cast(object, held.view.obj)

    def _rest_on(self, buffer):
        """Moves the contents to an object's memory, which it has from now on.

        Raises:
            ValueError: the object has fewer bytes.
        """
        check_readable(self)
        held: HeldBuffer = HeldBuffer(buffer)
        if cython.cast(cython.size_t, held.view.len) < self.n_bytes:
            raise ValueError(f"{self.n_bytes} bytes do not fit into {held.view.len}")
        data: cython.p_char = cython.cast(cython.p_char, held.view.buf)
        if self.n_bytes:
            memcpy(data, self.data, self.n_bytes)
        if self.lent or self.owner is not None or not self.can_resize:
            # others look at the bytes there were: they stay as long as the storage
            former: Storage = wrap(self.data, self.n_bytes, self.owner, self.device)
            former.capacity = self.capacity
            held.former = former
        elif self.capacity:
            give_back(self)
        self.data = data
        self.capacity = 0
        self.owner = held
        self.can_resize = False

    def get_device(self) -> int:
        """The device's number; -1 for the host."""
        return -1 if self.device.index is None else self.device.index

    @property
    def is_cuda(self) -> bool:
        """Whether the bytes are on an NVIDIA GPU."""
        return self.device.kind == KIND_CUDA

    def __getitem__(self, index):
        if not self.device.on_host:
            return self.cpu()[index]
        check_readable(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(self.n_bytes)
            if step != 1:
                raise RuntimeError(
                    f"Trying to slice with a step of {step}, but only a step of 1 is "
                    "supported"
                )
            return Storage.over_buffer(self, offset=start, count=max(stop - start, 0))
        return cython.cast(cython.p_uchar, self.data)[position(self, index)]

    def __setitem__(self, index, value: cython.uchar):
        if not self.device.on_host:
            whole: Storage = self.cpu()
            whole[index] = value
            self.copy_(whole)
            return
        check_readable(self)
        self.writes += 1
        positions = [index]
        if isinstance(index, slice):
            positions = range(*index.indices(self.n_bytes))
        for place in positions:
            cython.cast(cython.p_uchar, self.data)[position(self, place)] = value

    def bytes(self) -> bytes:
        """A copy of the contents."""
        if not self.device.on_host:
            return self.cpu().bytes()
        check_readable(self)
        return PyBytes_FromStringAndSize(self.data, self.n_bytes)

    def tolist(self) -> list:
        """The bytes as a list of numbers."""
        return list(self.bytes())

    def fill_(self, value: cython.uchar):
        """Sets every byte to ``value``."""
        check_readable(self)
        self.writes += 1
        if self.n_bytes and not self.device.on_host:
            return self.copy_(allocate(self.n_bytes, CPU_DEVICE).fill_(value))
        if self.n_bytes:
            memset(self.data, value, self.n_bytes)
        return self

    def copy_(self, source: Storage, non_blocking=None):
        """Copies as many bytes as the shorter of the two storages has."""
        if source.n_bytes != self.n_bytes:
            raise RuntimeError(
                f"size does not match, self was {self.n_bytes} bytes but src was "
                f"{source.n_bytes} bytes"
            )
        copy_span(self, 0, source, 0, self.n_bytes, bool(non_blocking))
        return self

    def clone(self):
        """A storage of its own with the same contents."""
        return allocate(self.n_bytes, self.device).copy_(self)

    def cpu(self):
        """This storage where it is on the host already, else a copy there."""
        check_readable(self)
        if self.device.on_host:
            return self
        return allocate(self.n_bytes, CPU_DEVICE).copy_(self)

    @staticmethod
    def over_buffer(
        buffer, *, count: cython.Py_ssize_t = -1, offset: cython.Py_ssize_t = 0
    ):
        """A storage over an object's memory (``bytearray``, ``mmap``, …), not a copy.

        Args:
            buffer: an object with the buffer protocol; it stays alive and exported.
            count: the number of bytes; all that are left by default.
            offset: the first byte.

        Raises:
            ValueError: the bytes asked for are not all in the buffer.
        """
        held: HeldBuffer = HeldBuffer(buffer)
        left: cython.Py_ssize_t = held.view.len - offset
        if count < 0:
            count = max(left, 0)
        if offset < 0 or count > left:
            raise ValueError(
                f"over_buffer: {count} bytes from byte {offset} were asked for, "
                f"but the buffer has {held.view.len}"
            )
        start = cython.cast(cython.p_char, held.view.buf) + offset
        return wrap(start, count, held, CPU_DEVICE)

    def __repr__(self):
        values = ""
        if self.data != cython.NULL:
            values = "".join(f" {value}\n" for value in self.bytes())
        return (
            f"{values}[{naming.package}.storage.UntypedStorage(device={self.device}) "
            f"of size {self.n_bytes}]"
        )

    def __reduce__(self):
        if not self.device.has_memory:
            return rebuild_storage, (self.n_bytes, self.device)
        return rebuild_storage, (self.cpu().bytes(), None)


@cython.final
@cython.cclass
class HeldBuffer:
    """An exported buffer, released when the last storage over it is gone."""

    view: Py_buffer
    held: cython.bint
    former: Storage  # with memory that others may look at still

    def __cinit__(self, exporter):
        PyObject_GetBuffer(exporter, cython.address(self.view), PyBUF_SIMPLE)
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(cython.address(self.view))


@cython.cfunc
def shared_counter(storage: Storage) -> VersionCounter:
    if storage.counter is None:
        storage.counter = VersionCounter.__new__(VersionCounter)
        storage.counter.value = storage.version
    return storage.counter


UntypedStorage = Storage
# Where in a storage its weak references are.
_WEAK = cython.declare(cython.Py_ssize_t, Storage.__weakrefoffset__)


def copy_span(
    target: Storage,
    to: cython.size_t,
    source: Storage,
    of: cython.size_t,
    n_bytes: cython.size_t,
    non_blocking: cython.bint = False,
):
    """Copies bytes from one place in a storage to one in another, on whatever devices."""
    check_readable(target)
    check_readable(source)
    if n_bytes == 0:
        return
    if to + n_bytes > target.n_bytes or of + n_bytes > source.n_bytes:
        raise RuntimeError(
            f"{n_bytes} bytes to copy are out of bounds: from byte {of} of a storage of "
            f"size {source.n_bytes} to byte {to} of one of size {target.n_bytes}"
        )
    if target.device.on_host and source.device.on_host:
        target.writes += 1
        memcpy(target.data + to, source.data + of, n_bytes)
        return
    copy_across(
        target.data + to,
        target.device,
        source.data + of,
        source.device,
        n_bytes,
        non_blocking,
    )


def rebuild_storage(contents, device):
    """The storage that pickle took apart: its bytes, or how many where it has none."""
    return Storage(contents, device=device)


def wrap_address(address: uintptr_t, n_bytes: cython.size_t, owner, device=None):
    """A storage over the memory at ``address``, kept alive by ``owner``."""
    where: Device = CPU_DEVICE if device is None else as_device(device)
    return wrap(cython.cast(cython.p_char, address), n_bytes, owner, where)


def memory_counts() -> dict:
    """The pool's counters by name."""
    return counts


def reset_peaks() -> None:
    """Starts the peaks again from what is in use now."""
    counts.allocated_peak = counts.allocated
    counts.requested_peak = counts.requested
    counts.reserved_peak = counts.reserved
    counts.live_peak = counts.live


def reset_totals() -> None:
    """Starts the running totals, retries and failures again from zero."""
    counts.allocated_total = counts.allocated_freed = 0
    counts.requested_total = counts.requested_freed = 0
    counts.reserved_total = counts.reserved_freed = 0
    counts.live_total = counts.live_freed = 0
    counts.retries = counts.failures = 0


def empty_cache() -> None:
    """Gives the pool's idle blocks back to the system."""
    release_waiting(0)


def set_limit(n_bytes: int64_t) -> int:
    """Caps the reserved bytes (-1: no cap); returns the earlier cap."""
    global limit
    previous: int64_t = limit
    limit = n_bytes
    if limit >= 0 and counts.reserved > limit:
        release_waiting(0)
    return previous
