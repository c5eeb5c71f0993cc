"""Paths of calls, and the tape of what one thread has followed and not run.

Nothing here decides what is followed: see `rushlight.graph.capture`.
"""

from __future__ import annotations

from time import sleep

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.pythread import PyThread_get_thread_ident
from cython.cimports.cpython.weakref import PyWeakref_GetObject, PyWeakref_NewRef
from cython.cimports.libc.stdint import uint64_t, uintptr_t
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.device import (
    CPU_DEVICE,
    N_KINDS,
    Device,
    backend_of,
)
from cython.cimports.rushlight.core.dtype import DType, default_dtype
from cython.cimports.rushlight.core.keys import (
    BELOW_AUTOGRAD,
    DEFERRED,
    KEY_ABSENT,
    KEY_CONJUGATE,
    KEY_NEGATIVE,
    KEY_PROFILING,
    MEMORY_BITS,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.storage import (
    Storage,
    any_shrunk,
    give_block,
    resize_storage,
    take_block,
)
from cython.cimports.rushlight.core.tensor import (
    Tensor,
    blank,
    exceeds_storage,
    keys_for,
)
from cython.cimports.rushlight.runtime.cpu.launch import launched, watch

from rushlight.core.device import compiles
from rushlight.core.dtype import set_default_dtype
from rushlight.nn.parameter import Parameter

_ONE = cython.declare(uint64_t, 1)
_PROFILING = cython.declare(uint64_t, _ONE << KEY_PROFILING)
_ABSENT = cython.declare(uint64_t, _ONE << KEY_ABSENT)
_CPU = cython.declare(uint64_t, 1)


@cython.final
@cython.cclass
class Value:
    """A window on one of the storages of a path: sizes, strides, type."""

    @property
    def sizes(self):
        """The sizes."""
        return tuple([self.sizes_[d] for d in range(self.ndim)])

    @property
    def strides(self):
        """The strides, in elements."""
        return tuple([self.strides_[d] for d in range(self.ndim)])

    @property
    def count(self):
        """How many elements there are."""
        return self.numel

    @property
    def plain(self):
        """Whether it stands for the numbers in its memory."""
        return self.deferred == 0

    @property
    def marks(self):
        """Whether the numbers in its memory are to be conjugated, and negated."""
        conjugate: uint64_t = self.deferred & (_ONE << KEY_CONJUGATE)
        negative: uint64_t = self.deferred & (_ONE << KEY_NEGATIVE)
        return conjugate != 0, negative != 0

    @property
    def look(self):
        """Sizes, strides, offset and type: equal windows on a storage look equal."""
        return (self.sizes, self.strides, self.offset, self.dtype.name)

    def __repr__(self):
        sizes = ", ".join(map(str, self.sizes))
        return f"s{self.slot}: {self.dtype.name}[{sizes}]"

    @cython.cfunc
    @cython.exceptval(check=False)
    def fits(self, t: Tensor) -> cython.bint:
        """Whether a tensor is such a window, on whatever storage."""
        d: cython.int
        if (
            t.dtype_ is not self.dtype
            or t.ndim_ != self.ndim
            or t.offset != self.offset
            or (t.keys & DEFERRED) != self.deferred
            or t.wrapped_number != self.wrapped
            or (any_shrunk and exceeds_storage(t))
            or not is_same(t.storage.device, self.device)
        ):
            return False
        for d in range(self.ndim):
            if t.sizes[d] != self.sizes_[d] or t.strides[d] != self.strides_[d]:
                return False
        return True

    @cython.cfunc
    def window(self, storage: Storage) -> Tensor:
        """A tensor that looks like this on a storage."""
        t: Tensor = blank()
        d: cython.int
        t.reserve(self.ndim)
        for d in range(self.ndim):
            t.sizes[d] = self.sizes_[d]
            t.strides[d] = self.strides_[d]
        t.offset = self.offset
        t.numel_ = self.numel
        t.row_major = self.row_major
        t.dtype_ = self.dtype
        t.storage = storage
        t.keys = keys_for(storage.device) | self.deferred
        t.inference = state().inference_mode
        t.wrapped_number = self.wrapped
        return t


@cython.ccall
def value_of(t: Tensor, slot: cython.int) -> Value:
    """The window that a tensor is, on the storage of a number."""
    v: Value = Value.__new__(Value)
    d: cython.int
    v.slot = slot
    v.ndim = t.ndim_
    for d in range(t.ndim_):
        v.sizes_[d] = t.sizes[d]
        v.strides_[d] = t.strides[d]
    v.offset = t.offset
    v.numel = t.numel_
    v.row_major = t.row_major
    v.dtype = t.dtype_
    v.device = t.storage.device
    v.deferred = t.keys & DEFERRED
    v.wrapped = t.wrapped_number
    v.lasting = (
        not state().grad_mode
        and not state().reentrant_depth  # a sweep back: there it does learn
        and not t.inference
        and isinstance(t if t.base is None else t.base, Parameter)
    )
    return v


@cython.final
@cython.cclass
class Call:
    """One operator's call on a path, and the calls that came after it."""

    def __cinit__(self):
        self.children = []
        self.branches = {}
        self.programs = {}
        self.device = CPU_DEVICE

    def kind(self, i: cython.int) -> int:
        """What argument ``i`` is: see the declarations."""
        return self.kinds[i]

    def device_of(self):
        """Where its operands lie, or else its results."""
        for i in range(len(self.values)):
            if self.kinds[i] == TENSOR:
                return self.values[i].device
        return self.device

    @property
    def path(self):
        """The calls from the root of the path to this one."""
        found: list = []
        call: Call = self
        while call is not None and call.op is not None and not call.barrier:
            found.append(call)
            call = call.parent
        found.reverse()
        return found

    def touched(self):
        """The numbers of the storages that it is given and makes."""
        found: list = []
        for i in range(len(self.values)):
            if self.kinds[i] == TENSOR:
                found.append(self.values[i].slot)
            elif self.kinds[i] == TENSORS:
                found += [v.slot for v in self.values[i] if isinstance(v, Value)]
        found += [v.slot for kind, v in self.results if kind == FRESH]
        return list(dict.fromkeys(found))

    def continued(self):
        """Where the path goes on once it was run to here."""
        if self.barrier or self.op is None:
            return self
        if self.after is None:
            self.after = Call()
        return self.after

    @property
    def last_taken(self):
        """The call after it that was taken last, on this path or the next; or None."""
        return self.after if self.last is None else self.last

    @property
    def opened_by(self):
        """The family that made the path ending here, and for which size; or None."""
        return self.opened

    def keep_program(self, wanted, program):
        """Keeps the program for what is wanted of the path that ends here."""
        self.programs[wanted] = program

    def forget(self):
        """Forgets all branches and programs."""
        self.children = []
        self.branches = {}
        self.seen = None
        self.last = None
        self.programs = {}
        self.segments = None
        self.after = None


def made_call(op: Operator, values: list, kinds: list, like: Call, lone=None):
    """A call in place of others, with the results of the last of them.

    Args:
        lone: a window that it makes instead of these.
    """
    call: Call = Call()
    i: cython.int
    call.op, call.keys, call.values = op, like.keys, values
    call.device = like.device
    for i in range(len(kinds)):
        call.kinds[i] = kinds[i]
    call.results, call.shape, call.lone = like.results, like.shape, like.lone
    if lone is not None:
        call.results, call.shape, call.lone = [(FRESH, lone)], None, True
    call.sizes, call.first, call.notes = like.sizes, like.first, like.notes
    return call


@cython.cfunc
@cython.exceptval(check=False)
def usable(t: Tensor) -> cython.bint:
    """Whether a tensor is one of elements in memory that kernels of ours work on."""
    return (
        t.ndim_ <= 8
        and followed(t.keys)
        and not t.keys & _ABSENT
        and (t.storage.device is CPU_DEVICE) == ((t.keys & _CPU) != 0)
        and not (any_shrunk and exceeds_storage(t))
    )


_known = cython.declare(uint64_t, _CPU)  # keys of backends that compile


@cython.cfunc
@cython.exceptval(check=False)
def followed(keys: uint64_t) -> cython.bint:
    bits: uint64_t = keys & MEMORY_BITS
    if bits & (bits - 1):
        return False
    return (bits & _known) != 0 or asks(bits)


@cython.cfunc
@cython.exceptval(check=False)
def asks(bits: uint64_t) -> cython.bint:
    """Whether kernels of ours run where tensors of some keys are: their backends say."""
    global _known
    kind: cython.int
    for kind in range(N_KINDS):
        if (bits >> kind) & 1 and compiles(kind):
            _known |= _ONE << kind
    return (bits & _known) != 0


@cython.cfunc
@cython.exceptval(check=False)
def is_same(one: Device, other: Device) -> cython.bint:
    return one is other or (one.kind == other.kind and one.index == other.index)


@cython.cclass
class Notes:
    """Is told of each operator that a module's call asks for."""

    @cython.cfunc
    def begin(self, op: Operator, slots: pp_object) -> object:
        """An operator is about to run; gives what `end` wants."""

    @cython.cfunc
    def end(self, call: object, slots: pp_object, result: object) -> object:
        """It has run."""


@cython.cclass
class Owner:
    """What each call of a compiled function looks at; the rest is `Runner`'s."""


@cython.final
@cython.cclass
class Tape:
    """What one thread has followed and not run."""

    def __cinit__(self):
        self.calls = []
        self.slots = []
        self.params = []
        self.shared = []
        self.room = 256
        self.keys = cython.cast(
            cython.pointer(uintptr_t), calloc(self.room, cython.sizeof(uintptr_t))
        )
        self.numbers = cython.cast(
            cython.pointer(cython.int), calloc(self.room, cython.sizeof(cython.int))
        )
        self.fresh = cython.cast(cython.p_uchar, calloc(self.room, 1))
        if (
            self.keys == cython.NULL
            or self.numbers == cython.NULL
            or self.fresh == cython.NULL
        ):
            raise MemoryError("no memory to follow a program")

    def __dealloc__(self):
        free(self.keys)
        free(self.numbers)
        free(self.fresh)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def find(self, storage: Storage) -> cython.int:
        """The number of a storage, or -1."""
        key: uintptr_t = cython.cast(uintptr_t, cython.cast(p_object, storage))
        at: cython.int = self.place(key)
        number: cython.int
        if not self.keys[at]:
            return -1
        number = self.numbers[at]
        if self.noting and cython.cast(
            p_object, PyWeakref_GetObject(self.slots[number])
        ) != cython.cast(p_object, storage):
            return -1  # another one was there before
        return number

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def place(self, key: uintptr_t) -> cython.int:
        """Where an address is in the table, or would be."""
        mixed: uintptr_t = (key >> 4) ^ (key >> 13)
        at: cython.int = cython.cast(cython.int, mixed & (self.room - 1))
        while self.keys[at] and self.keys[at] != key:
            at = (at + 1) & (self.room - 1)
        return at

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(self, storage: Storage, fresh: cython.bint) -> cython.int:
        """Gives a storage the next number."""
        number: cython.int = len(self.slots)
        if 2 * (number + 1) > self.room:
            self.grow()
        # calls that run as they come see nobody hold their storages
        self.slots.append(PyWeakref_NewRef(storage, None) if self.noting else storage)
        self.fresh[number] = fresh
        self.put(storage, number)
        if not fresh and (storage.lent or storage.owner is not None):
            self.shared.append(number)
            if is_exposed(storage):
                self.exposed = True
        return number

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def overlaps(self, storage: Storage) -> cython.bint:
        """Whether a storage that has no number lies on the memory of one that has."""
        number: cython.int
        other: Storage
        if not storage.lent and storage.owner is None:
            return False
        for number in self.shared:
            item = self.slots[number]
            if self.noting:
                item = cython.cast(object, PyWeakref_GetObject(item))
            if item is None or item is storage:
                continue
            other = item
            if (
                other.data < storage.data + storage.n_bytes
                and storage.data < other.data + other.n_bytes
            ):
                self.clashes = True
                return True
        return False

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def enter(self) -> cython.int:
        """Waits until no other thread runs what waits here.

        A thread that reads a storage of another one runs that one's operators: so what
        waits never depends on when its own thread goes on.
        """
        thread: cython.ulong = PyThread_get_thread_ident()
        while self.runner and self.runner != thread:
            sleep(0.0001)
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def put(self, storage: Storage, number: cython.int) -> cython.void:
        key: uintptr_t = cython.cast(uintptr_t, cython.cast(p_object, storage))
        at: cython.int = self.place(key)
        self.keys[at] = key
        self.numbers[at] = number

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self) -> cython.int:
        room: cython.int = self.room * 2
        keys = cython.cast(
            cython.pointer(uintptr_t), calloc(room, cython.sizeof(uintptr_t))
        )
        numbers = cython.cast(
            cython.pointer(cython.int), calloc(room, cython.sizeof(cython.int))
        )
        fresh = cython.cast(cython.p_uchar, realloc(self.fresh, room))
        if fresh != cython.NULL:
            self.fresh = fresh
        if keys == cython.NULL or numbers == cython.NULL or fresh == cython.NULL:
            free(keys)
            free(numbers)
            raise MemoryError("no memory to follow a program")
        free(self.keys)
        free(self.numbers)
        self.keys = keys
        self.numbers = numbers
        self.room = room
        self.put_all()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put_all(self) -> cython.int:
        i: cython.int
        for i in range(len(self.slots)):
            item = self.slots[i]
            if self.noting:
                item = cython.cast(object, PyWeakref_GetObject(item))
            if item is not None:
                self.put(item, i)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def drop(self, count: cython.int) -> cython.int:
        """Takes numbers back, the last ones first, until ``count`` are left."""
        storage: Storage
        at: cython.int
        key: uintptr_t
        while self.shared and self.shared[len(self.shared) - 1] >= count:
            self.shared.pop()
        while len(self.slots) > count:
            storage = self.slots.pop()
            key = cython.cast(uintptr_t, cython.cast(p_object, storage))
            at = self.place(key)
            self.keys[at] = 0  # nothing was put behind it that is still there
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def forget_from(self, count: cython.int) -> cython.int:
        """Takes numbers back while calls are noted, until ``count`` are left."""
        if len(self.slots) > count:
            while self.shared and self.shared[len(self.shared) - 1] >= count:
                self.shared.pop()
            del self.slots[count:]
            memset(self.keys, 0, self.room * cython.sizeof(uintptr_t))
            self.put_all()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def loosen(self) -> cython.int:
        """Lets go of the storages: calls run as they come from here on."""
        i: cython.int
        for i in range(len(self.slots)):
            item = self.slots[i]
            self.slots[i] = PyWeakref_NewRef(item, None)
        self.noting = True
        self.count_launches(True)
        self.launches = launched()
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def count_launches(self, on: cython.bint) -> cython.int:
        """Has kernels be counted, while calls are noted."""
        if on != self.watching:
            watch(1 if on else -1)
            self.watching = on
        return 0

    @cython.cfunc
    def clear(self) -> object:
        """Forgets the storages and calls of the path; they have run."""
        if self.slots:
            memset(self.keys, 0, self.room * cython.sizeof(uintptr_t))
            self.slots = []
        if self.calls:
            self.calls = []
        if self.params:
            self.params = []
        if self.shared:
            self.shared = []
        if self.views:
            self.views = {}
        self.exposed = False
        self.clashes = False
        self.done = 0
        self.noting = False
        self.count_launches(False)

    @cython.cfunc
    def execute(self, call: Call) -> object:
        """Runs one call of the path with its storages."""
        bind(self, call, self.result_of(call))

    @cython.cfunc
    def result_of(self, call: Call) -> object:
        """What an operator gives for the storages of a call."""
        slots: p_object[24]
        held: list = []
        i: cython.int
        v: Value
        for i in range(call.op.n_args):
            item = call.values[i]
            if call.kinds[i] == TENSOR:
                v = item
                item = v.window(self.slots[v.slot])
                held.append(item)
            elif call.kinds[i] == TENSORS:
                item = windows(self, item)
                held.append(item)
            elif call.kinds[i] == NUMBER:
                item = self.params[cython.cast(cython.int, item)]
                held.append(item)
            slots[i] = cython.cast(p_object, item)
        return call.op.run(slots, call.keys)

    @cython.cfunc
    def execute_into(self, call: Call) -> object:
        """Runs one call whose results have memory already."""
        v: Value
        t: Tensor
        target: Storage
        i: cython.int
        result: object = self.result_of(call)
        results: object = (result,) if call.shape is None else result
        for i in range(len(call.results)):
            if call.results[i][0] == FRESH:
                v = call.results[i][1]
                t = results[i]
                target = self.slots[v.slot]
                if not v.fits(t) or t.storage.n_bytes != target.n_bytes:
                    refuse_look(call, v, t)
                if target.n_bytes:
                    memcpy(target.data, t.storage.data, target.n_bytes)

    @cython.cfunc
    def flush(self, why: object) -> object:
        """Runs what is waiting, and begins a new path where this one ends."""
        self.enter()
        outer: cython.ulong = self.runner
        self.runner = PyThread_get_thread_ident()
        try:
            self.flush_now(why)
        finally:
            self.runner = outer

    @cython.cfunc
    def flush_now(self, why: object) -> object:
        """The same, where this thread is the only one to."""
        leaf: Call = self.at
        before: uint64_t
        excluded: uint64_t
        modes: cython.int
        factory_device: cython.bint
        st: cython.pointer(ThreadState)
        if self.done < len(self.calls):
            st = state()
            before = st.included
            excluded = st.excluded
            modes = st.modes
            factory_device = st.factory_device
            st.included = before & _PROFILING
            st.excluded = excluded | BELOW_AUTOGRAD
            st.modes = 0
            st.factory_device = False
            default: DType = default_dtype()
            if default is not self.default:  # it was another when these were called
                set_default_dtype(self.default)
            try:
                self.run_waiting(leaf, why)
            except BaseException:
                fill_rest(self)
                raise
            finally:
                st.included = before
                st.excluded = excluded
                st.modes = modes
                st.factory_device = factory_device
                if default is not self.default:
                    set_default_dtype(default)
                self.at = leaf.continued()
                self.root = self.at
                self.clear()
        else:
            if leaf is not self.root:
                if why is not None:
                    self.owner.ended(leaf, why)
                self.at = leaf.continued()
                self.root = self.at
            self.clear()

    @cython.cfunc
    def run_waiting(self, leaf: Call, why: object) -> object:
        i: cython.int
        if why is None:
            # the path is left: what was followed runs as it was noted
            for i in range(self.done, len(self.calls)):
                self.execute(cython.cast(Call, self.calls[i]))
            return
        wanted = liveness(self)
        program = leaf.programs.get(wanted)
        if program is None:
            program = self.owner.build(self, leaf, wanted, why)
            leaf.programs[wanted] = program
        program(self)


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_exposed(storage: Storage) -> cython.bint:
    """Whether others than operators may read or write a storage's memory at any time.

    They may where it was lent out; where it is an array's that somebody else holds, too; and
    where it is a writable buffer's. A mapped file is its loader's own.
    """
    holder: object = storage.owner
    if storage.lent:
        return True
    if holder is None:
        return False
    flags = getattr(holder, "flags", None)
    if flags is None:
        return isinstance(storage._memory_owner(), (bytearray, memoryview))
    if not flags.writeable:
        return False
    # ours: the storage's, and the local name's
    others: cython.bint = cython.cast(p_object, holder).ob_refcnt > 2
    return others or holder.base is not None


@cython.cfunc
@cython.exceptval(-1, check=False)
def take_on(
    device: Device,
    n_bytes: cython.size_t,
    data: cython.pp_char,
    capacity: cython.pointer(cython.size_t),
) -> cython.int:
    """Memory on a device: of the pool, or what its backend gives."""
    if device.on_host:
        data[0] = take_block(n_bytes, capacity)
        return 0
    backend_of(device).take(n_bytes, device, data)
    capacity[0] = n_bytes
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def give_on(
    device: Device, data: cython.p_char, capacity: cython.size_t, n_bytes: cython.size_t
) -> cython.int:
    """Gives it back."""
    if device.on_host:
        give_block(data, capacity, n_bytes)
        return 0
    return backend_of(device).give(data, capacity, device)


@cython.cfunc
def liveness(tape: Tape) -> bytes:
    """For each storage: 0 it was there before, 1 nobody has it any more, 2 it is wanted."""
    i: cython.int
    n: cython.int = len(tape.slots)
    found: bytes = PyBytes_FromStringAndSize(cython.NULL, n)
    kinds: cython.p_char = found
    item: p_object
    for i in range(n):
        kinds[i] = 0
        if tape.fresh[i]:
            item = cython.cast(p_object, tape.slots[i])
            kinds[i] = 2 if item.ob_refcnt > 1 else 1
    return found


@cython.cfunc
def fill_rest(tape: Tape):
    """No tensor that outlives an error is left without memory."""
    i: cython.int
    storage: Storage
    for i in range(len(tape.slots)):
        if tape.slots[i] is None:
            continue
        storage = tape.slots[i]
        if tape.fresh[i] and storage.data == cython.NULL and storage.n_bytes:
            if not storage.device.on_host:
                resize_storage(storage, 0)  # it may be that there is no room
                continue
            storage.data = take_block(storage.n_bytes, cython.address(storage.capacity))
            memset(storage.data, 0, storage.n_bytes)


@cython.cfunc
def windows(tape: Tape, items: object) -> object:
    """A list argument with its tensors."""
    v: Value
    made: list = []
    for item in items:
        if isinstance(item, Value):
            v = item
            made.append(v.window(tape.slots[v.slot]))
        else:
            made.append(item)
    return made if type(items) is list else tuple(made)


@cython.cfunc
def bind(tape: Tape, call: Call, result: object):
    """Gives the storages of a call's results the memory that it filled."""
    kind: cython.int
    v: Value
    i: cython.int
    t: Tensor
    results: object = (result,) if call.shape is None else result
    for i in range(len(call.results)):
        kind = call.results[i][0]
        if kind == FRESH:
            v = call.results[i][1]
            t = results[i]
            if not v.fits(t):
                refuse_look(call, v, t)
            adopt(tape.slots[v.slot], t)


def hold(tape: Tape, value: Value, made):
    """Gives a storage that waits what a function made for it.

    Args:
        value: the window of it that the function was to make.
    """
    target: Storage = tape.slots[value.slot]
    t: Tensor = made
    if target.data != cython.NULL:
        return
    if (
        value.fits(t)
        and t.storage.n_bytes == target.n_bytes
        and not (t.keys & _ABSENT)
        and is_same(t.storage.device, target.device)
    ):
        adopt(target, t)
        return
    if target.n_bytes:
        take_on(
            target.device,
            target.n_bytes,
            cython.address(target.data),
            cython.address(target.capacity),
        )
    value.window(target).copy_(t)


@cython.cfunc
def refuse_look(call: Call, v: Value, t: Tensor):
    """An operator whose results' sizes hang on elements, and that was not known to."""
    raise RuntimeError(
        f"{call.op.name}: its result is {t.dtype_.name}{list(t.shape)} with strides "
        f"{list(t.stride())}, but was {v!r} with strides {list(v.strides)} for the same "
        "operands\n  remedy: keep it out of compiled functions with "
        "torch.compiler.disable"
    )


@cython.cfunc
def adopt(target: Storage, made: Tensor) -> object:
    """Moves the memory of a fresh tensor to a storage that is waiting for it."""
    source: Storage = made.storage
    if target.data != cython.NULL or source is target or not source.n_bytes:
        return None  # another window of the same results brought it
    if source.capacity and source.owner is None and not source.lent:
        if cython.cast(p_object, source).ob_refcnt <= 2:
            target.data = source.data
            target.capacity = source.capacity
            target.n_bytes = source.n_bytes
            source.data = cython.NULL
            source.capacity = 0
            source.n_bytes = 0
            return None
    target.data = source.data
    target.n_bytes = source.n_bytes
    target.can_resize = False
    target.owner = source
    return None
