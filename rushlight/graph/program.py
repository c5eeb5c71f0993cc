"""Programs as they run: a list of steps, and the compiled routine that takes them.

A step asks for memory, launches a kernel or runs an operator, and lets go of memory that
no later step reads. Memory is by *places*: the storages of the path by their numbers, then
what operators ask for inside. A place that nobody sees but kernels has no object at all.
"""

from __future__ import annotations

from time import sleep, thread_time_ns
from weakref import WeakKeyDictionary

import cython
from cython.cimports.cpython.pythread import PyThread_get_thread_ident
from cython.cimports.cpython.weakref import PyWeakref_GetObject, PyWeakref_NewRef
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.rushlight.core._python import p_object
from cython.cimports.rushlight.core.device import CPU_DEVICE, Device
from cython.cimports.rushlight.core.spans import (
    SPAN_PROGRAM,
    begin_span,
    end_span,
    is_profiled,
    recording_spans,
)
from cython.cimports.rushlight.core.storage import Storage
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.trace import taken_down, the_flag
from cython.cimports.rushlight.graph.tape import Call, Tape, give_on, take_on
from cython.cimports.rushlight.runtime.cpu.grain import GRAIN
from cython.cimports.rushlight.runtime.cpu.launch import (
    NativeKernel,
    kernel_t,
    parallel_for,
    run_here,
)

from rushlight.graph.launch_recorder import listen

CHUNK = cython.declare(int64_t, 8192)  # elements of one row of a flat loop
# What a place of a program is.
GIVEN = cython.declare(cython.int, 0)  # it was there before
KEPT = cython.declare(cython.int, 1)  # a storage with an object: somebody sees it
INNER = cython.declare(cython.int, 2)  # memory that only kernels see
NEAR = cython.declare(cython.int, 256)  # places whose addresses are on the stack


@cython.final
@cython.cclass
class Instruction:
    """A kernel to launch or an operator to run, and the memory around it.

    Args:
        call: the operator's call; None for kernels.
        details: what the step does, for those who read programs.
    """

    def __init__(self, call=None, details=None):
        self.kind = RUN
        self.call = call
        self.details = details
        self.asked = []
        self.taken = []
        self.freed = []

    def __dealloc__(self):
        free(self.moves)

    def set_kernel(self, kernel, operands, itemsizes):
        """Makes the step a launch.

        Args:
            kernel: the native kernel.
            operands: for each of its pointers, a place and a shift in bytes, a tensor, or
                ``("number", index, code)`` for a parameter passed as that dtype.
            itemsizes: bytes of an element of each.
        """
        self.kernel = kernel
        self.fn = cython.cast(NativeKernel, kernel).fn
        self.set_operands(operands)

    def set_launch(self, device_launch):
        """Makes the step a launch on another device than the host.

        Args:
            device_launch: called with addresses and parameters (`factory_device.Launch`).
        """
        self.device_launch = device_launch
        self.kernel = device_launch.kernel
        self.set_operands(device_launch.operands)

    def set_operands(self, operands):
        """Writes down where the kernel's operands lie."""
        i: cython.int
        self.kind = LAUNCH
        self.n = len(operands)
        self.constants = []
        if self.n > OPERANDS:
            raise ValueError(f"a kernel takes {OPERANDS} operands, not {self.n}")
        for i in range(self.n):
            operand = operands[i]
            self.constants.append(None)
            self.shifts[i] = 0
            if isinstance(operand, Tensor):
                self.bases[i] = CONSTANT_OPERAND
                self.constants[i] = operand
            elif operand[0] == "number":
                self.bases[i] = NUMBER_OPERAND
                self.shifts[i] = operand[1]
                self.codes[i] = operand[2]
            else:
                self.bases[i] = operand[0]
                self.shifts[i] = operand[1]

    def set_loops(self, sizes, strides, itemsizes):
        """The loops of an elementwise kernel: sizes, and byte strides of each operand.

        Args:
            sizes: of the dimensions, the innermost first; merged where possible.
            strides: for each operand, its byte strides in that order.
            itemsizes: bytes of an element of each operand.
        """
        i: cython.int
        d: cython.int
        count: cython.int = self.n
        flat: cython.bint = len(sizes) <= 1
        self.mode = STRIDED
        self.total = sizes[1] if len(sizes) > 1 else 1
        self.ints[0] = sizes[0] if len(sizes) else 1
        self.outer = max(len(sizes) - 2, 0)
        for d in range(self.outer):
            self.sizes[d] = sizes[2 + d]
        for i in range(count):
            self.ints[1 + i] = strides[i][0] if len(sizes) else 0
            self.ints[1 + count + i] = strides[i][1] if len(sizes) > 1 else 0
            flat = flat and self.ints[1 + i] in (0, itemsizes[i])
            for d in range(self.outer):
                self.strides[i][d] = strides[i][2 + d]
        self.grain = GRAIN // max(self.ints[0], 1) + 1
        if flat:
            self.mode = FLAT
            self.total = self.ints[0]

    def set_raw(self, ints, total, grain):
        """The integers of a kernel with loops of its own."""
        i: cython.int
        self.mode = RAW
        self.n_ints = len(ints)
        if self.n_ints > 96:
            raise ValueError(f"a kernel takes 96 integers, not {self.n_ints}")
        for i in range(self.n_ints):
            self.ints[i] = ints[i]
        self.total = total
        self.grain = grain

    @property
    def is_flat(self):
        """Whether the kernel goes over one run of elements."""
        return self.mode == FLAT

    @property
    def is_call(self):
        """Whether an operator is run."""
        return self.kind == RUN

    @property
    def positions(self):
        """The places of the kernel's operands; None for numbers."""
        return [
            self.bases[i] if self.bases[i] >= 0 else None
            for i in range(self.n if self.kind in (LAUNCH, FILL, LOOK) else 0)
        ]

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def settle(self, touched: list) -> cython.int:
        """Writes the lists down as integers.

        Args:
            touched: the storages whose addresses a call may change.
        """
        i: cython.int = 0
        free(self.moves)
        self.n_asked = len(self.asked)
        self.n_taken = len(self.taken)
        self.n_freed = len(self.freed)
        self.n_touched = len(touched)
        whole: cython.int = (
            self.n_asked + 2 * self.n_taken + self.n_freed + self.n_touched
        )
        self.moves = cython.cast(
            cython.p_int, calloc(whole + 1, cython.sizeof(cython.int))
        )
        if self.moves == cython.NULL:
            raise MemoryError("no memory for a program")
        for target, source in self.taken:
            self.moves[i] = target
            self.moves[i + 1] = source
            i += 2
        for place in [*self.asked, *self.freed, *touched]:
            self.moves[i] = place
            i += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def launch_on_device(self, tape: Tape, positions: cython.pp_char) -> cython.int:
        """Has another device's backend run the kernel."""
        addresses: list = []
        i: cython.int
        for i in range(self.n):
            if self.bases[i] < 0:
                addresses.append(None)
            else:
                addresses.append(
                    cython.cast(uintptr_t, positions[self.bases[i]]) + self.shifts[i]
                )
        self.device_launch(tuple(addresses), tape.params)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def launch(self, tape: Tape, positions: cython.pp_char) -> cython.int:
        """Runs the kernel over the memory of its places."""
        data: cython.p_char[24]
        part: cython.p_char[24]
        numbers: cython.double[48]
        ints: int64_t[64]
        index: int64_t[8]
        i: cython.int
        d: cython.int
        base: cython.int
        rows: int64_t
        number: cython.double
        own: cython.bint = False
        count: cython.int = self.n
        if self.device_launch is not None:
            self.launch_on_device(tape, positions)
            return 0
        for i in range(count):
            base = self.bases[i]
            if base >= 0:
                data[i] = positions[base] + self.shifts[i]
            elif base == CONSTANT_OPERAND:
                data[i] = cython.cast(Tensor, self.constants[i]).pointer()
            elif base == NUMBER_OPERAND:
                number = tape.params[self.shifts[i]]
                data[i] = cython.cast(cython.p_char, cython.address(numbers[2 * i]))
                if self.codes[i] == 6:
                    cython.cast(cython.p_float, data[i])[0] = cython.cast(
                        cython.float, number
                    )
                else:
                    numbers[2 * i] = number
            elif base == OWN_OPERAND:
                if not own:
                    # kernels of several threads must not share what some write to
                    memcpy(numbers, self.numbers, 192)
                    own = True
                data[i] = cython.cast(cython.p_char, numbers) + self.shifts[i]
            elif base == FIXED_OPERAND:
                data[i] = cython.cast(
                    cython.p_char, cython.cast(uintptr_t, self.shifts[i])
                )
            elif base == FLAG_OPERAND:
                data[i] = the_flag().pointer()
            else:
                data[i] = cython.NULL
        if self.mode == RAW:
            if self.total <= self.grain:
                run_here(self.fn, data, self.ints, self.total)
            else:
                with cython.nogil:
                    parallel_for(self.fn, data, self.ints, self.total, self.grain)
            return 0
        if self.mode == FLAT:
            if self.total <= GRAIN:
                run_here(self.fn, data, self.ints, 1)
                return 0
            for i in range(count + 1):
                ints[i] = self.ints[i]
            rows = self.total // CHUNK
            ints[0] = CHUNK
            for i in range(count):
                ints[1 + count + i] = ints[1 + i] * CHUNK
            with cython.nogil:
                parallel_for(self.fn, data, ints, rows, GRAIN // CHUNK)
                if rows * CHUNK < self.total:
                    ints[0] = self.total - rows * CHUNK
                    for i in range(count):
                        data[i] += rows * ints[1 + count + i]
                    run_here(self.fn, data, ints, 1)
            return 0
        for d in range(self.outer):
            index[d] = 0
        with cython.nogil:
            while True:
                for i in range(count):
                    part[i] = data[i]
                parallel_for(self.fn, part, self.ints, self.total, self.grain)
                d = 0
                while d < self.outer:
                    index[d] += 1
                    for i in range(count):
                        data[i] += self.strides[i][d]
                    if index[d] < self.sizes[d]:
                        break
                    for i in range(count):
                        data[i] -= self.strides[i][d] * self.sizes[d]
                    index[d] = 0
                    d += 1
                if d >= self.outer:
                    break
        return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def launch(step: Instruction, tape: Tape, positions: cython.pp_char) -> cython.int:
    """A launch: as a span where a profiler records the thread."""
    if not recording_spans or not is_profiled():
        return step.launch(tape, positions)
    name = getattr(step.kernel, "name", None)
    token: int64_t = begin_span(SPAN_PROGRAM, name or "kernel", None, -1)
    try:
        return step.launch(tape, positions)
    finally:
        end_span(token)


@cython.cfunc
@cython.exceptval(-1, check=False)
def redo(tape: Tape, step: Instruction, data: cython.pp_char) -> cython.int:
    """Runs the operator of a call whose kernels met a bad index, or would not do.

    Memory that kernels alone see is lent to the storages meanwhile.
    """
    storage: Storage
    place: cython.int
    lent: list = []
    for place in step.call.touched():
        storage = cython.cast(Storage, tape.slots[place])
        if storage is not None and storage.data == cython.NULL:
            storage.data = data[place]
            lent.append(storage)
    try:
        tape.execute_into(step.call)
    finally:
        for storage in lent:
            storage.data = cython.NULL
    return 0


def recorded_launch(address, keep, operands, numbers, ints, total, grain, details=None):
    """The step of a launch that was heard while an operator ran.

    Args:
        address: of the machine code.
        keep: what keeps it.
        operands: for each pointer the place or the number of a kind, and a shift.
        numbers: bytes that some pointers look at.
        ints, total, grain: as they were.
    """
    step: Instruction = Instruction(None, details)
    i: cython.int
    step.kind = LAUNCH
    step.kernel = keep
    step.fn = cython.cast(kernel_t, cython.cast(uintptr_t, address))
    step.n = len(operands)
    for i in range(step.n):
        step.bases[i], step.shifts[i] = operands[i]
    if numbers:
        memcpy(step.numbers, cython.cast(cython.p_char, numbers), len(numbers))
    step.set_raw(ints, total, grain)
    return step


def recorded_check(call):
    """The step that looks whether a kernel met a bad index; the call says which."""
    step: Instruction = Instruction(call)
    step.kind = CHECK
    return step


def recorded_layout(call, place, shift, truth):
    """The step that looks whether a call takes the trace that was heard."""
    step: Instruction = Instruction(call)
    step.kind = LOOK
    step.n = 1
    step.bases[0] = place
    step.shifts[0] = shift
    step.truth = truth
    return step


def run_steps(steps, tape: Tape, address):
    """Takes launches one after the other, over places at an address.

    Raises:
        RuntimeError: a kernel met a bad index.
    """
    data: cython.pp_char = cython.cast(cython.pp_char, cython.cast(uintptr_t, address))
    step: Instruction
    fault: int64_t = 0
    for item in steps:
        step = item
        if step.kind == LAUNCH:
            step.launch(tape, data)
        elif step.kind == FILL:
            memcpy(
                data[step.bases[0]],
                cython.cast(cython.p_char, step.content),
                len(step.content),
            )
        elif step.kind == LOOK:
            if data[step.bases[0]][step.shifts[0]] != step.truth:
                raise RuntimeError("another trace")
        elif taken_down(the_flag(), cython.address(fault)):
            raise RuntimeError("a bad index")


def table(place, content):
    """The step that puts a table's bytes into a place."""
    step: Instruction = Instruction()
    step.kind = FILL
    step.n = 1
    step.bases[0] = place
    step.content = content
    return step


@cython.cfunc
@cython.exceptval(-1, check=False)
def ask(storage: Storage) -> cython.int:
    """Gives a storage that waits its memory."""
    if storage.data == cython.NULL and storage.n_bytes:
        take_on(
            storage.device,
            storage.n_bytes,
            cython.address(storage.data),
            cython.address(storage.capacity),
        )
    return 0


@cython.final
@cython.cclass
class Prepared:
    """What follows from parameters alone: made once, and again when one has changed.

    Args:
        slots: the parameters' numbers.
        make: from their storages to one of what follows.
    """

    def __init__(self, slots, make):
        self.slots, self.make = list(slots), make
        self.seen = []
        self.known = WeakKeyDictionary()

    @cython.cfunc
    def storage(self, tape: Tape) -> Storage:
        """What follows from the elements that the parameters have now."""
        i: cython.int
        look: Look
        if self.made is None:
            return self.remade(tape)
        for i in range(len(self.slots)):
            look = cython.cast(Look, self.seen[i])
            if not look.fits(cython.cast(Storage, tape.slots[self.slots[i]])):
                return self.remade(tape)
        return self.made

    @cython.cfunc
    def remade(self, tape: Tape) -> Storage:
        """The same for other parameters than last time, or changed ones."""
        sources: list = [tape.slots[slot] for slot in self.slots]
        look: Look
        found = self.known.get(sources[0])
        if found is not None:
            for look, source in zip(found[0], sources):
                if not look.fits(source):
                    found = None
                    break
        if found is None:
            looks: list = [look_of(source) for source in sources]
            found = looks, self.make(*sources)
            self.known[sources[0]] = found
        self.seen, self.made = found
        return self.made


@cython.final
@cython.cclass
class Look:
    """What a storage was when something was made of it."""

    @cython.cfunc
    @cython.exceptval(check=False)
    def fits(self, storage: Storage) -> cython.bint:
        """Whether it is that storage, and nobody can have written to it since."""
        return (
            cython.cast(p_object, PyWeakref_GetObject(self.of))
            == cython.cast(p_object, storage)
            and self.writes == storage.writes
            and self.data == cython.cast(uintptr_t, storage.data)
            and not storage.lent
            and storage.owner is None
        )


@cython.cfunc
def look_of(storage: Storage) -> Look:
    look: Look = Look.__new__(Look)
    look.of = PyWeakref_NewRef(storage, None)
    look.writes = storage.writes
    look.data = cython.cast(uintptr_t, storage.data)
    return look


def is_own(storage: Storage) -> bool:
    """Whether operators alone write to memory: no file, array or other process."""
    return storage.owner is None and not storage.lent


@cython.final
@cython.cclass
class Program:
    """The steps for a path, with what is wanted of it.

    Attributes:
        n_running: how many threads are in the middle of its steps. They change where that
            is none: kernels let other threads run.
        patience: how often it runs before its calls are heard.
        planner: the thread that plans it anew; 0 where none does.

    Args:
        steps: a list of `Instruction`.
        graph: what they were made from (`rushlight.graph.steps.Graph`).
        kinds: for each place whether it was there before, has an object, or is memory
            that kernels alone see: 0, 1, 2.
        sizes: bytes of each place.
        prepared: what has to be there before: the last of the storages that it has not
            made, each a `Prepared`.
        written: the storages among these that it writes to.
        devices: of the places that are not on the host, by number.
    """

    steps = cython.declare(list, visibility="readonly")
    graph = cython.declare(object, visibility="readonly")
    spots: cython.pointer(Spot)
    n_spots: cython.int
    n_slots: cython.int
    items: list
    replan: object
    where: list
    listens: cython.bint
    n_running: cython.int
    planner: cython.ulong
    patience = cython.declare(cython.int, visibility="public")
    timed = cython.declare(cython.bint, visibility="public")
    n_positions = cython.declare(cython.int, visibility="readonly")
    extra = cython.declare(list, visibility="readonly")
    prepared = cython.declare(list, visibility="readonly")
    written = cython.declare(list, visibility="readonly")

    def __init__(
        self,
        steps,
        graph=None,
        kinds=(),
        sizes=(),
        n_slots=0,
        prepared=(),
        written=(),
        devices=None,
    ):
        i: cython.int
        step: Instruction
        self.steps = steps
        self.extra = []
        self.prepared, self.written = list(prepared), list(written)
        self.graph = graph
        self.where = [(devices or {}).get(i, CPU_DEVICE) for i in range(len(kinds))]
        self.n_slots = n_slots
        self.n_spots = len(kinds)
        self.spots = cython.cast(
            cython.pointer(Spot), calloc(self.n_spots + 1, cython.sizeof(Spot))
        )
        if self.spots == cython.NULL:
            raise MemoryError("no memory for a program")
        for i in range(self.n_spots):
            self.spots[i].kind = kinds[i]
            self.spots[i].n_bytes = sizes[i]
        for item in steps:
            step = item
            touched = []
            if step.kind == RUN:
                touched = step.call.touched()
            step.settle(touched)

    def __dealloc__(self):
        free(self.spots)

    def set_items(self, items, replan):
        """Keeps what the steps were planned from; calls are listened to while it is there.

        Args:
            items: of `rushlight.graph.memory_plan`; None where all is settled.
            replan: ``replan(program, items)`` makes the program once calls were heard.
        """
        self.items, self.replan = items, replan
        self.listens = items is not None
        self.n_positions = self.n_spots

    def take_over(self, other):
        """Becomes another program, which does the same.

        What goes is let go of last: other threads may run then.
        """
        made: Program = other
        gone = self.steps, self.where, self.items
        self.steps = made.steps
        self.spots, made.spots = made.spots, self.spots
        self.n_spots, made.n_spots = made.n_spots, self.n_spots
        self.where = made.where
        self.items, self.listens = None, False
        del gone

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def listen_to(self, tape: Tape, step: Instruction) -> cython.int:
        """Runs a call for the first time, and keeps the launches that it was."""
        step.tried = True
        found = listen(tape, step.call, self.n_positions)
        if found is not None:
            step.parts, temporaries = found
            self.extra.extend(temporaries)
            self.n_positions += len(temporaries)
        return 0

    def bytes_of(self, place: cython.int):
        """How much memory a place has."""
        return self.spots[place].n_bytes

    @property
    def code(self):
        """The program as text that runs: a function for each kernel, then the steps."""
        return self.graph.printer(self.graph)

    def __call__(self, tape: Tape):
        near: cython.p_char[256]
        sizes: cython.size_t[256]
        far: cython.p_void = cython.NULL
        data: cython.pp_char = near
        held: cython.pointer(cython.size_t) = sizes
        i: cython.int
        n: cython.int
        while self.planner:
            if self.planner == PyThread_get_thread_ident():
                return self.pass_by(tape)
            sleep(0.0001)
        n = self.n_spots
        if n > NEAR:
            far = malloc(n * 2 * cython.sizeof(cython.size_t))
            if far == cython.NULL:
                raise MemoryError("no memory to run a program")
            data = cython.cast(cython.pp_char, far)
            held = cython.cast(cython.pointer(cython.size_t), far) + n
        memset(held, 0, n * cython.sizeof(cython.size_t))
        self.n_running += 1
        try:
            for item in self.prepared:
                tape.add(cython.cast(Prepared, item).storage(tape), False)
            for item in self.written:
                cython.cast(Storage, tape.slots[item]).writes += 1
            for i in range(self.n_slots):
                data[i] = cython.NULL
                if self.spots[i].kind != INNER:
                    data[i] = cython.cast(Storage, tape.slots[i]).data
            if recording_spans:
                self.take_profiled(tape, data, held)
            else:
                self.take(tape, data, held)
        finally:
            for i in range(n):
                if held[i]:
                    self.give(i, data[i], held[i])
            self.n_running -= 1
            free(far)
        if self.listens:
            self.plan_again()

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def records_launches(self) -> cython.bint:
        """Whether calls are listened to: in one thread, as what is heard has one order."""
        return self.listens and self.patience <= 0 and self.n_running == 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def plan_again(self) -> cython.int:
        """Plans from the launches that calls were, once it has run often enough.

        Planning writes to the steps: other threads wait before they begin.
        """
        if self.patience > 0:
            self.patience -= 1
        elif not self.n_running and not self.planner:
            self.planner = PyThread_get_thread_ident()
            try:
                self.take_over(self.replan(self, self.items))
            finally:
                self.planner = 0
        return 0

    @cython.cfunc
    def pass_by(self, tape: Tape) -> object:
        """Runs the calls of a path one by one.

        A collection may run anything while a program is planned, and even that program: its
        thread cannot wait for itself.
        """
        i: cython.Py_ssize_t
        for i in range(tape.done, len(tape.calls)):
            tape.execute(cython.cast(Call, tape.calls[i]))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def take_profiled(
        self, tape: Tape, data: cython.pp_char, held: cython.pointer(cython.size_t)
    ) -> cython.int:
        """Takes the steps as one span, where a profiler records the thread."""
        token: int64_t = -1
        if is_profiled():
            token = begin_span(SPAN_PROGRAM, "## Call CompiledFxGraph", None, -1)
        try:
            return self.take(tape, data, held)
        finally:
            end_span(token)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def take(
        self, tape: Tape, data: cython.pp_char, held: cython.pointer(cython.size_t)
    ) -> cython.int:
        """Takes the steps, one after the other."""
        step: Instruction
        i: cython.int
        k: cython.int
        at: cython.p_int
        n: cython.int = len(self.steps)
        fault: int64_t = 0
        begun: int64_t = 0
        i = 0
        while i < n:
            step = cython.cast(Instruction, self.steps[i])
            if self.timed:
                begun = thread_time_ns()
            at = step.moves
            for k in range(step.n_taken):
                self.hand_on(tape, data, held, at[2 * k], at[2 * k + 1])
            at += 2 * step.n_taken
            for k in range(step.n_asked):
                self.ask_for(tape, data, held, at[k])
            at += step.n_asked
            if step.kind == LAUNCH:
                launch(step, tape, data)
            elif step.kind == RUN:
                if step.tried or not self.records_launches():
                    tape.execute(step.call)
                else:
                    self.listen_to(tape, step)
                for k in range(step.n_touched):
                    data[at[step.n_freed + k]] = cython.cast(
                        Storage, tape.slots[at[step.n_freed + k]]
                    ).data
            elif step.kind == FILL:
                memcpy(
                    data[step.bases[0]],
                    cython.cast(cython.p_char, step.content),
                    len(step.content),
                )
            elif step.kind == CHECK:
                if taken_down(the_flag(), cython.address(fault)):
                    # the operator itself knows what to say
                    redo(tape, step, data)
            elif data[step.bases[0]][step.shifts[0]] != step.truth:
                i = self.go_round(tape, data, held, i)
                for k in range(step.n_freed):
                    self.let_go(tape, data, held, at[k])
                continue
            for k in range(step.n_freed):
                self.let_go(tape, data, held, at[k])
            if self.timed:
                step.spent += thread_time_ns() - begun
            i += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def go_round(
        self,
        tape: Tape,
        data: cython.pp_char,
        held: cython.pointer(cython.size_t),
        i: cython.int,
    ) -> cython.int:
        """Runs a call that takes another trace this time, in place of its steps.

        Returns:
            The step after them.
        """
        look: Instruction = cython.cast(Instruction, self.steps[i])
        step: Instruction
        k: cython.int
        j: cython.int
        at: cython.p_int
        end: cython.int = i + 1 + look.steps_after
        for j in range(i + 1, end):
            step = cython.cast(Instruction, self.steps[j])
            at = step.moves
            for k in range(step.n_taken):
                self.hand_on(tape, data, held, at[2 * k], at[2 * k + 1])
            for k in range(step.n_asked):
                self.ask_for(tape, data, held, at[2 * step.n_taken + k])
        redo(tape, look, data)
        for j in range(i + 1, end):
            step = cython.cast(Instruction, self.steps[j])
            at = step.moves + 2 * step.n_taken + step.n_asked
            for k in range(step.n_freed):
                self.let_go(tape, data, held, at[k])
        return end

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def give(
        self, place: cython.int, data: cython.p_char, capacity: cython.size_t
    ) -> cython.int:
        """Gives back the memory of a place that only kernels see."""
        return give_on(
            cython.cast(Device, self.where[place]),
            data,
            capacity,
            self.spots[place].n_bytes,
        )

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def ask_for(
        self,
        tape: Tape,
        data: cython.pp_char,
        held: cython.pointer(cython.size_t),
        place: cython.int,
    ) -> cython.int:
        storage: Storage
        n_bytes: cython.size_t = self.spots[place].n_bytes
        if self.spots[place].kind == INNER:
            data[place] = cython.NULL
            if n_bytes:
                take_on(
                    cython.cast(Device, self.where[place]),
                    n_bytes,
                    cython.address(data[place]),
                    cython.address(held[place]),
                )
            return 0
        storage = cython.cast(Storage, tape.slots[place])
        ask(storage)
        data[place] = storage.data
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def hand_on(
        self,
        tape: Tape,
        data: cython.pp_char,
        held: cython.pointer(cython.size_t),
        target: cython.int,
        source: cython.int,
    ) -> cython.int:
        """Gives a place the memory of another one that nobody reads after this step.

        The other's address stays where it is: the step itself reads there.
        """
        to: Storage
        of: Storage
        block: cython.size_t = held[source]
        if self.spots[source].n_bytes != self.spots[target].n_bytes:
            block = 0
        elif self.spots[source].kind == KEPT:
            of = cython.cast(Storage, tape.slots[source])
            block = of.capacity
            if (
                of.owner is not None
                or of.lent
                or of.n_bytes != self.spots[target].n_bytes
            ):
                block = 0
        if self.spots[target].kind == KEPT:
            to = cython.cast(Storage, tape.slots[target])
            if to.data != cython.NULL:
                block = 0
        if not block:
            self.ask_for(tape, data, held, target)
            return 0
        if self.spots[source].kind == KEPT:
            of = cython.cast(Storage, tape.slots[source])
            of.data = cython.NULL
            of.capacity = 0
            of.n_bytes = 0
        held[source] = 0
        data[target] = data[source]
        if self.spots[target].kind == INNER:
            held[target] = block
            return 0
        to = cython.cast(Storage, tape.slots[target])
        to.data = data[source]
        to.capacity = block
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def let_go(
        self,
        tape: Tape,
        data: cython.pp_char,
        held: cython.pointer(cython.size_t),
        place: cython.int,
    ) -> cython.int:
        if self.spots[place].kind == INNER:
            if held[place]:
                self.give(place, data[place], held[place])
                held[place] = 0
            return 0
        if place < self.n_slots:
            tape.slots[place] = None
        return 0
