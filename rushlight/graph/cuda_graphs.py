"""Programs of a device that are written down once, and launched as one graph from then on.

A graph launches what it launched when it was written down, at the same addresses. So

- **what is given** is read where it lay, if it lies there each time (parameters, what
  another graph gave), and is copied to memory of the graph's own otherwise;
- **what is given back** stays in the graph's memory. Before the next launch, what somebody
  still holds is moved to memory of its own: a storage knows where its bytes are, so that no
  tensor notices;
- **numbers** are part of the launches: others make another graph, a few times at most.

- **random numbers** are read from where the stream is when the graph is launched, and each
  launch moves it on.

What cannot be written down (reads by the host, several devices) makes the program run as it
did, and the log `cudagraphs` says why.
"""

from __future__ import annotations

import weakref

import cython
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.rushlight.core.device import Device, backend_of
from cython.cimports.rushlight.core.storage import Storage, allocate
from cython.cimports.rushlight.graph.tape import Tape

from rushlight.core import logs
from rushlight.dispatch.declared import TAGS

WARM = cython.declare(cython.int, 2)  # runs before the one that is written down
TRIES = cython.declare(cython.int, 4)  # graphs for one program, one after the other
MOST = 64  # programs of one function that are graphs: each keeps its memory


def graphed(program, runner):
    """A program that is launched as a graph; itself where that cannot be.

    Args:
        program: of `rushlight.graph.program`.
        runner: of the function; its ``mode`` asks for graphs.
    """
    why = reason_against(program, runner)
    if why is not None:
        skipped(runner.name, why)
        return program
    runner.graphed += 1
    return Replayed(program, device_of(program), runner.name)


def skipped(name, why):
    """Says that a program is not launched as a graph."""
    logs.counters["inductor"]["cudagraph_skips"] += 1
    if logs.cudagraphs.active:
        logs.cudagraphs.say(f"{name}: not launched as a graph: {why}")


def devices_of(program):
    """The devices that a program's steps work on."""
    found = []
    for step in program.graph.steps:
        windows = (*step.reads, *step.writes)
        for device in [v.device for v in windows] or [step.call.device]:
            if device not in found:
                found.append(device)
    return found


def device_of(program):
    """The one device of a program that may be a graph."""
    return devices_of(program)[0]


def reason_against(program, runner):
    """Why a program cannot be a graph; None where it may be."""
    devices = devices_of(program)
    if len(devices) != 1:
        return "its tensors are on several devices" if devices else "it does nothing"
    device: Device = devices[0]
    if device.on_host:
        return "its tensors are on the host"
    if backend_of(device).graphs.graph(device) is None:
        return f"devices of type {device.type} have no graphs"
    if program.prepared:
        return "it keeps what is made of parameters"
    for step in program.graph.steps:
        tags = step.op.entry[TAGS] if step.op.entry else ("unknown",)
        if "unknown" in tags:
            return f"{step.op} is an operator from outside"
    if runner.graphed >= MOST:
        return f"{MOST} programs of the function are graphs already"
    return None


def span_of(values):
    """The first byte of a storage that some windows show, and the one after the last."""
    first, last = None, 0
    for value in values:
        if not value.count:
            continue
        size = value.dtype.itemsize
        begin = value.offset * size
        reach = sum(
            (n - 1) * s for n, s in zip(value.sizes, value.strides, strict=True)
        )
        first = begin if first is None else min(first, begin)
        last = max(last, begin + (reach + 1) * size)
    return (0, 0) if first is None else (first, last)


@cython.final
@cython.cclass
class Replayed:
    """A program that becomes a graph once it has run.

    Args:
        program: what is written down.
        device: where it runs.
        name: of the function, for the log.
    """

    program = cython.declare(object, visibility="readonly")
    graph = cython.declare(object, visibility="readonly")  # what was written down
    replays = cython.declare(cython.int, visibility="readonly")
    device: Device
    name: object
    given: list
    written: set
    spans: dict
    seen: dict
    fixed: dict
    buffers: dict
    moving: set
    params: list
    outs: list
    lent: list
    runs: cython.int
    tries: cython.int
    over: cython.bint

    def __init__(self, program, device, name):
        self.program, self.device, self.name = program, device, name
        self.seen, self.moving = {}, set()
        self.fixed, self.buffers, self.outs, self.lent = {}, {}, [], []
        graph = program.graph
        values: dict = {}
        for step in graph.steps:
            for value in (*step.reads, *step.writes):
                if graph.wanted[value.slot] == 0:
                    values.setdefault(value.slot, []).append(value)
        self.spans = {slot: span_of(found) for slot, found in values.items()}
        self.given = sorted(values)
        self.written = set(graph.given_and_written())

    def __call__(self, tape: Tape):
        backend = backend_of(self.device)
        if (
            self.over
            or backend.graphs.is_writing(self.device)
            or not self.may_be_read(tape)
        ):
            self.program(tape)
            return
        if self.runs < WARM:
            self.look(tape)
            self.runs += 1
            self.program(tape)
            return
        if self.graph is not None:
            self.graph.enter(self.addresses())
        if not self.move_out():
            self.program(tape)
            return
        if self.graph is None or not self.fits(tape):
            if not self.write(tape):
                self.program(tape)
                return
        self.replay(tape)

    def addresses(self):
        """Where what the graph gives lies."""
        out: Storage
        found: list = []
        for _, item in self.outs:
            out = item
            found.append(cython.cast(uintptr_t, out.data))
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def may_be_read(self, tape: Tape) -> cython.bint:
        """Whether what is given is memory of the backend's, or of a graph."""
        storage: Storage
        for slot in self.given:
            storage = tape.slots[slot]
            if storage.owner is not None and not isinstance(storage.owner, Storage):
                return False
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def look(self, tape: Tape) -> cython.int:
        """Remembers where what is given lies."""
        storage: Storage
        for slot in self.given:
            storage = tape.slots[slot]
            address = cython.cast(uintptr_t, storage.data)
            if self.seen.setdefault(slot, address) != address:
                self.moving.add(slot)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def fits(self, tape: Tape) -> cython.bint:
        """Whether the graph reads what is given, and has its numbers."""
        storage: Storage
        good: cython.bint = self.params == tape.params
        for slot, address in self.fixed.items():
            storage = tape.slots[slot]
            if cython.cast(uintptr_t, storage.data) != address:
                self.moving.add(slot)
                good = False
        return good

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def move_out(self) -> cython.bint:
        """Gives what somebody still holds of the last launch memory of its own.

        Returns:
            False where that cannot be: others look at the bytes.
        """
        target: Storage
        out: Storage
        fresh: Storage
        held: list = []
        for ref, made in self.lent:
            item = ref()
            if item is None:
                continue
            target, out = item, made
            if target.data != out.data:
                continue
            if target.lent:
                return False
            held.append((target, out))
        for target, out in held:
            fresh = allocate(target.n_bytes, self.device)
            copy(self.device, fresh.data, out.data, target.n_bytes)
            target.data, target.capacity = fresh.data, fresh.capacity
            target.owner = None
            fresh.data, fresh.capacity, fresh.n_bytes = cython.NULL, 0, 0
        self.lent = []
        return True

    # -- writing down ---------------------------------------------------------------

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def write(self, tape: Tape) -> cython.bint:
        """Writes the program's work down; whether that could be."""
        self.look(tape)
        self.forget()
        self.tries += 1
        if self.tries > TRIES:
            self.give_up("other numbers, or other memory, too often")
            return False
        graph = backend_of(self.device).graphs.graph(self.device)
        try:
            shadow: Tape = self.shadow(tape)
            self.params = list(tape.params)
            graph.write(lambda: self.program(shadow))
        except RuntimeError as error:
            self.forget()
            self.give_up(str(error).partition("\n")[0])
            return False
        self.graph = graph
        wanted = self.program.graph.wanted
        self.outs = [
            (slot, shadow.slots[slot])
            for slot in range(len(wanted))
            if wanted[slot] == 2
        ]
        return True

    @cython.cfunc
    def shadow(self, tape: Tape) -> Tape:
        """A tape with the memory that the graph reads and writes."""
        made: Tape = Tape()
        storage: Storage
        one: Storage
        buffer: Storage
        wanted = self.program.graph.wanted
        for slot in range(len(wanted)):
            storage = tape.slots[slot]
            one = Storage.__new__(Storage)
            one.device, one.n_bytes, one.can_resize = (
                storage.device,
                storage.n_bytes,
                True,
            )
            if slot in self.spans:  # others that were there before are not read
                if slot not in self.moving:
                    one.data = storage.data
                    self.fixed[slot] = cython.cast(uintptr_t, storage.data)
                else:
                    begin, end = self.spans[slot]
                    buffer = allocate(end - begin, self.device)
                    one.data = buffer.data - cython.cast(cython.size_t, begin)
                    self.buffers[slot] = buffer
                    one.owner = buffer
                one.can_resize = False
            made.slots.append(one)
        made.params.extend(tape.params)
        return made

    @cython.cfunc
    def forget(self):
        """Lets go of the graph and its memory."""
        graph, self.graph = self.graph, None
        self.fixed, self.buffers, self.outs = {}, {}, []
        if graph is not None:
            graph.reset()

    @cython.cfunc
    def give_up(self, why):
        """Runs the program as it is from now on."""
        self.over = True
        skipped(self.name, why)

    # -- launching -------------------------------------------------------------------

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def replay(self, tape: Tape) -> cython.int:
        """Launches the graph, and hands out what it gives."""
        storage: Storage
        out: Storage
        buffer: Storage
        for slot, item in self.buffers.items():
            storage, buffer = tape.slots[slot], item
            begin = self.spans[slot][0]
            source: cython.p_char = storage.data + cython.cast(cython.size_t, begin)
            copy(self.device, buffer.data, source, buffer.n_bytes)
        self.graph.launch()
        self.replays += 1
        for slot in self.written:
            storage = tape.slots[slot]
            storage.writes += 1
            if slot in self.buffers:
                buffer = self.buffers[slot]
                begin = self.spans[slot][0]
                source = storage.data + cython.cast(cython.size_t, begin)
                copy(self.device, source, buffer.data, buffer.n_bytes)
        for slot, item in self.outs:
            storage, out = tape.slots[slot], item
            if not out.n_bytes or storage.data != cython.NULL:
                continue
            storage.data, storage.owner = out.data, out
            self.lent.append((weakref.ref(storage), out))
        return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def copy(
    device: Device, target: cython.p_char, source: cython.p_char, n_bytes: cython.size_t
) -> cython.int:
    """Copies bytes on a device."""
    if n_bytes:
        backend_of(device).memory.copy_bytes(
            cython.cast(uintptr_t, target),
            device,
            cython.cast(uintptr_t, source),
            device,
            n_bytes,
        )
    return 0
