"""The integers of a path and its program as a vector, and paths made of other integers.

`Reading` lists the integers in a fixed order, and apart from them all else that the calls
are; `Writing` makes calls and launches that are alike but for their integers.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.graph.program import (
    CONSTANT_OPERAND,
    LAUNCH,
    RAW,
    RUN,
    Instruction,
)
from cython.cimports.rushlight.graph.tape import FRESH, NUMBER, WINDOW, Call, Value
from cython.cimports.rushlight.runtime.cpu.grain import GRAIN

from rushlight.graph.memory_plan import Item

_PLAIN = (type(None), bool, float, str, complex)
_LARGE = cython.declare(int64_t, 1 << 40)  # constants beyond are no sizes


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def is_integer(item: object) -> cython.bint:
    """Whether a constant is one of the integers."""
    return type(item) is int and -_LARGE < item < _LARGE


# -- reading ---------------------------------------------------------------------------


@cython.final
@cython.cclass
class Reading:
    """The integers of a path and its program, and all else that they are.

    Attributes:
        ints: the vector.
        marks: what members of a family have alike.
        starts: where the integers of each call of the path begin.
        sizes: which integers are sizes of dimensions.
        windows: the slot of each window, and where its integers begin and end.
        calls: number of each call of the path, and of each part of one.
        numbers: for each item the number of its call; None where it is none of these.
    """

    def __init__(self):
        self.ints, self.marks, self.starts, self.sizes = [], [], [], []
        self.windows, self.numbers, self.calls = [], [], {}

    @cython.cfunc
    def value(self, v: Value) -> object:
        """Reads a window."""
        d: cython.int
        first: cython.Py_ssize_t = len(self.ints)
        self.marks.append(
            (v.slot, v.ndim, v.row_major, v.deferred, v.wrapped, v.lasting, v.creation)
        )
        self.marks.append((v.of, v.dtype, v.device.kind, v.device.index))
        for d in range(v.ndim):
            self.sizes.append(len(self.ints))
            self.ints.append(v.sizes_[d])
            self.ints.append(v.strides_[d])
        self.ints.append(v.offset)
        self.windows.append((v.slot, first, len(self.ints)))
        self.marks.append(v.root is None)
        if v.root is not None:
            self.value(v.root)

    @cython.cfunc
    def constant(self, item: object) -> object:
        """Reads an argument that is no tensor, or a list with some."""
        if isinstance(item, Value):
            self.value(item)
        elif is_integer(item):
            self.marks.append(int)
            self.ints.append(item)
        elif isinstance(item, (list, tuple)):
            self.marks.append((type(item), len(item)))
            for one in item:
                self.constant(one)
        elif type(item) in _PLAIN:
            self.marks.append((type(item), item))
        else:
            self.marks.append(("one", id(item)))

    @cython.cfunc
    def call(self, call: Call) -> object:
        """Reads a call with its parts."""
        part: Call
        self.calls[id(call)] = len(self.calls)
        self.arguments(call)
        self.marks.append(None if call.parts is None else len(call.parts))
        if call.parts is not None:
            for part in call.parts:
                self.call(part)

    @cython.cfunc
    def arguments(self, call: Call) -> object:
        """Reads what a call is given and gives."""
        i: cython.int
        self.marks.append((call.op, call.keys, call.shape, call.lone, call.first))
        self.marks.append((call.switches, call.stops, call.device.kind))
        self.marks.append(bytes(call.kinds[: call.op.n_args]))
        for i in range(call.op.n_args):
            if call.kinds[i] == NUMBER:
                self.marks.append(call.values[i])
            else:
                self.constant(call.values[i])
        for kind, value in call.results:
            self.marks.append(kind)
            if kind == FRESH or kind == WINDOW:
                self.value(value)
            else:
                self.marks.append(value)
        self.marks.append(len(call.sizes))
        self.ints.extend(call.sizes)

    @cython.cfunc
    def launch(self, step: Instruction) -> object:
        """Reads the launch of a fused kernel."""
        i: cython.int
        d: cython.int
        count: cython.int = step.n_ints if step.mode == RAW else 1 + 2 * step.n
        self.marks.append((step.mode, step.n, count, step.outer, step.rank, step.along))
        self.marks.append(cython.cast(uintptr_t, step.fn))
        for i in range(step.n):
            self.marks.append(step.bases[i])
            if step.bases[i] >= 0:
                self.ints.append(step.shifts[i])
                continue
            self.marks.append((step.shifts[i], step.codes[i]))
            if step.bases[i] == CONSTANT_OPERAND:
                kept = step.constants[i]
                self.marks.append((kept.dtype, repr(kept.tolist())))
        for i in range(count):
            self.ints.append(step.ints[i])
        self.ints.append(step.total)
        if step.mode == RAW:
            return
        for d in range(step.outer):
            self.ints.append(step.sizes[d])
            for i in range(step.n):
                self.ints.append(step.strides[i][d])

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def item(self, item: object) -> cython.bint:
        """Reads a turn of the program; False for one that a family has no place for."""
        step: Instruction = item.instr
        self.marks.append((step.kind, tuple(item.touches), tuple(item.asks)))
        number = self.calls.get(id(step.call))
        self.numbers.append(number)
        self.marks.append(number)
        if step.device_launch is not None or step.kind != LAUNCH and step.kind != RUN:
            return False
        if step.kind == LAUNCH:
            self.launch(step)
        elif number is None:
            self.arguments(step.call)
        return True

    def path(self, calls):
        """Reads the calls of a path."""
        for call in calls:
            self.starts.append(len(self.ints))
            self.call(call)

    def program(self, wanted, graph, items) -> bool:
        """Reads what a program was planned from; False where a family has no place for it."""
        self.marks.append(
            (wanted, graph.wanted, sorted(graph.lasting), len(graph.prepared))
        )
        self.marks.append(tuple(sorted(graph.sizes)))
        for slot in sorted(graph.sizes):
            self.ints.append(graph.sizes[slot])
        if graph.devices:
            return False
        for item in items:
            if not self.item(item):
                return False
        return True


# -- writing ---------------------------------------------------------------------------


@cython.final
@cython.cclass
class Writing:
    """Makes a path and a program of those of a family, and of other integers."""

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def next(self) -> int64_t:
        self.at += 1
        return self.ints[self.at - 1]

    @cython.cfunc
    def value(self, like: Value) -> Value:
        """A window like another one."""
        v: Value = Value.__new__(Value)
        d: cython.int
        v.slot, v.ndim, v.row_major = like.slot, like.ndim, like.row_major
        v.dtype, v.device, v.deferred = like.dtype, like.device, like.deferred
        v.wrapped, v.lasting = like.wrapped, like.lasting
        v.of, v.creation = like.of, like.creation
        v.numel = 1
        for d in range(v.ndim):
            v.sizes_[d] = self.next()
            v.strides_[d] = self.next()
            v.numel *= v.sizes_[d]
        v.offset = self.next()
        if like.root is not None:
            v.root = self.value(like.root)
        return v

    @cython.cfunc
    def constant(self, like: object) -> object:
        """An argument like another one."""
        if isinstance(like, Value):
            return self.value(like)
        if is_integer(like):
            return self.next()
        if isinstance(like, (list, tuple)):
            made: list = [self.constant(one) for one in like]
            return made if type(like) is list else tuple(made)
        return like

    @cython.cfunc
    def call(self, like: Call) -> Call:
        """A call like another one."""
        call: Call = Call()
        i: cython.int
        call.op, call.keys, call.shape, call.lone = (
            like.op,
            like.keys,
            like.shape,
            like.lone,
        )
        call.first, call.switches, call.stops = like.first, like.switches, like.stops
        call.device, call.notes = like.device, like.notes
        memcpy(call.kinds, like.kinds, 24)
        call.values = []
        for i in range(like.op.n_args):
            if like.kinds[i] == NUMBER:
                call.values.append(like.values[i])
            else:
                call.values.append(self.constant(like.values[i]))
        call.results = []
        for kind, value in like.results:
            if kind == FRESH or kind == WINDOW:
                value = self.value(value)
            call.results.append((kind, value))
        call.sizes = [self.next() for _ in like.sizes]
        if like.parts is not None:
            call.parts = [self.call(part) for part in like.parts]
        return call

    @cython.cfunc
    def launch(self, like: Instruction) -> Instruction:
        """A launch like another one."""
        step: Instruction = Instruction(None, like.details)
        i: cython.int
        d: cython.int
        count: cython.int = like.n_ints if like.mode == RAW else 1 + 2 * like.n
        step.kind, step.kernel, step.fn, step.mode = (
            like.kind,
            like.kernel,
            like.fn,
            like.mode,
        )
        step.n, step.n_ints, step.outer = like.n, like.n_ints, like.outer
        step.rank, step.along, step.constants = like.rank, like.along, like.constants
        for i in range(like.n):
            step.bases[i], step.codes[i] = like.bases[i], like.codes[i]
            step.shifts[i] = self.next() if like.bases[i] >= 0 else like.shifts[i]
        for i in range(count):
            step.ints[i] = self.next()
        step.total = self.next()
        if step.mode == RAW:
            step.grain = rows_grain(step)
            return step
        for d in range(step.outer):
            step.sizes[d] = self.next()
            for i in range(step.n):
                step.strides[i][d] = self.next()
        step.grain = GRAIN // max(step.ints[0], 1) + 1
        return step

    @cython.cfunc
    def item(self, like: object, calls: list, number: object, moves: tuple) -> object:
        """A turn like another one.

        Args:
            calls: of the new path, with their parts.
            number: of the turn's call among them; None where it is none of them.
            moves: what memory it takes, asks for and lets go of.
        """
        old: Instruction = like.instr
        made: Instruction
        if old.kind == LAUNCH:
            made = self.launch(old)
        elif number is None:
            made = Instruction(self.call(old.call), old.details)
        else:
            made = Instruction(calls[number], old.details)
        # lists of its own: it is planned anew once its calls are heard
        made.taken, made.asked, made.freed = map(list, moves)
        return Item(made, like.touches, like.asks, like.group, like.stored)


@cython.cfunc
@cython.exceptval(check=False)
def rows_grain(step: Instruction) -> int64_t:
    """How many rows one thread takes at least, as `codegen.frontend.nest.arrange` says."""
    length: int64_t = 1
    i: cython.int
    for i in range(step.rank):
        length *= step.ints[i]
    length = max(1, GRAIN // max(1, length))
    return length if step.along else max(length, 128)


def with_parts(calls) -> list:
    """The calls of a path, each followed by its parts."""
    found: list = []
    for call in calls:
        found.append(call)
        if call.parts is not None:
            found += with_parts(call.parts)
    return found
