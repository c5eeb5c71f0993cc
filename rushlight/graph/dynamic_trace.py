"""A module's call made again without Python, at sizes that were not met.

What `rushlight.graph.size_tracing` records are *steps*: functions of tensors with what they
are given, integers read of tensors or computed, and guards. Steps that need nothing but the
arguments' sizes come first: where a guard among them fails nothing has happened. Where one
fails behind calls their results are let go, and Python runs after all: the calls write to
nothing that was there before, and random numbers are drawn again from the same state.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.ref import Py_XDECREF, Py_XINCREF
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core._python import (
    PyObject_Vectorcall,
    p_object,
    pp_object,
)
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.random.generator import Generator

from rushlight.random.generator import default_generator

MISSED = object()  # in place of a result: Python has to run


def writes_to(tensors):
    """How often tensors were written to, all together."""
    t: Tensor
    count: int64_t = 0
    for t in tensors:
        count += t.storage.writes + t.version()
    return count


def place_of_draws():
    """Where the default generator is: another place after each draw."""
    stream: Generator = default_generator
    kept = stream.has_double, stream.next_double, stream.has_float, stream.next_float
    return stream.first_seed, stream.state[0], stream.state[1], stream.left, kept


# -- what steps need -------------------------------------------------------------------


@cython.cfunc
def given(source: tuple, registers: list, made: list, found: pp_object) -> object:
    """What a source stands for."""
    kind: cython.int = source[0]
    what: object = source[1]
    at: cython.Py_ssize_t
    if kind == PLAIN:
        return what
    if kind == KNOWN:
        at = what
        return cython.cast(object, found[at])
    if kind == MADE:
        at = what
        return made[at]
    if kind == REGISTER:
        at = what
        return registers[at]
    if kind == TABLE:
        return {
            name: given(one, registers, made, found)
            for name, one in cython.cast(dict, what).items()
        }
    if kind == SLICE:
        return slice(*[given(one, registers, made, found) for one in what])
    parts: list = [given(one, registers, made, found) for one in what[1]]
    return parts if what[0] is list else what[0](parts)


def tensors_of(source):
    """The numbers of the results of steps that a source reads."""
    kind, what = source
    if kind == MADE:
        return [what]
    if kind == SEQUENCE:
        return [at for one in what[1] for at in tensors_of(one)]
    if kind == TABLE:
        return [at for one in what.values() for at in tensors_of(one)]
    return []


def registers_of(source):
    """The registers that a source reads."""
    kind, what = source
    if kind == REGISTER:
        return [what]
    if kind == SEQUENCE:
        return [at for one in what[1] for at in registers_of(one)]
    if kind == SLICE:
        return [at for one in what for at in registers_of(one)]
    if kind == TABLE:
        return [at for one in what.values() for at in registers_of(one)]
    return []


@cython.final
@cython.cclass
class TraceStep:
    """One step of a call that is made again.

    Args:
        recorded: the step as `rushlight.graph.size_tracing.Recording` has it.
    """

    def __init__(self, recorded):
        self.kind = recorded[0]
        self.dropped = []
        if self.kind == INPUT:
            self.at, self.answer = recorded[1:]
        elif self.kind == SIZES:
            self.at, self.of, self.number, self.count = recorded[1:]
        elif self.kind == COMPUTE:
            self.at, self.function = recorded[1:3]
            self.sources = recorded[3:]
        elif self.kind == GUARD:
            self.function, self.sources, self.answer = (
                recorded[1],
                recorded[2:4],
                recorded[4],
            )
        else:
            self.function, named = recorded[1], recorded[3]
            self.sources = (*recorded[2], *named.values())
            self.names, self.n_named = tuple(named), len(named)
            self.settle()
            if self.kind == FACT:
                self.answer = recorded[4]
            else:
                self.shape, self.lone, self.outputs = recorded[4]

    def all_sources(self):
        """All that it is given."""
        sources = [] if self.sources is None else [*self.sources]
        return [*sources, (self.of, self.number)] if self.kind == SIZES else sources

    def settle(self):
        """Has its arguments at hand."""
        i: cython.Py_ssize_t
        self.n_args = len(self.sources)
        self.values = []
        for i, (kind, what) in enumerate(self.sources):
            self.kinds[i] = kind
            self.values.append(what if kind == PLAIN else (kind, what))
            if kind in (KNOWN, MADE, REGISTER):
                self.positions[i] = what

    def reads(self):
        """The registers that it reads."""
        return [at for one in self.all_sources() for at in registers_of(one)]

    def writes(self):
        """The registers that it sets."""
        if self.kind == SIZES:
            return range(self.at, self.at + self.count)
        return [self.at] if self.kind in (INPUT, COMPUTE) else []

    def is_wanted(self, used):
        """Whether it does more than read sizes that nobody uses."""
        return self.kind != SIZES or not used.isdisjoint(self.writes())

    @cython.cfunc
    def read(self, tensor: Tensor, registers: list) -> object:
        """Takes note of a tensor's sizes."""
        d: cython.Py_ssize_t
        for d in range(tensor.ndim_):
            registers[self.at + d] = tensor.sizes[d]

    @cython.cfunc
    @cython.exceptval(-1)
    def computes(self, registers: list) -> cython.bint:
        """Whether an integer was computed, or a guard gave the answer that it had."""
        one: object = given(self.sources[0], registers, registers, cython.NULL)
        other: object = given(self.sources[1], registers, registers, cython.NULL)
        answer: object = self.function(one, other)
        if self.kind == GUARD:
            return answer is self.answer
        registers[self.at] = answer
        return True

    @cython.cfunc
    def call(self, registers: list, made: list, found: pp_object) -> object:
        """What its function gives."""
        slots = cython.declare(p_object[ARGUMENTS_MOST])
        held: list = None
        i: cython.Py_ssize_t
        at: cython.Py_ssize_t
        item: object
        for i in range(self.n_args):
            at = self.positions[i]
            if self.kinds[i] == PLAIN:
                slots[i] = cython.cast(p_object, self.values[i])
            elif self.kinds[i] == KNOWN:
                slots[i] = found[at]
            elif self.kinds[i] == MADE:
                slots[i] = cython.cast(p_object, made[at])
            elif self.kinds[i] == REGISTER:
                slots[i] = cython.cast(p_object, registers[at])
            else:
                item = given(self.values[i], registers, made, found)
                if held is None:
                    held = []
                held.append(item)
                slots[i] = cython.cast(p_object, item)
        return PyObject_Vectorcall(
            cython.cast(p_object, self.function),
            slots,
            self.n_args - self.n_named,
            cython.cast(p_object, self.names) if self.n_named else cython.NULL,
        )

    @cython.cfunc
    @cython.exceptval(-1)
    def keeps(self, result: object, made: list, found: pp_object) -> cython.bint:
        """Whether a call gave as many tensors as it did, new ones and old ones alike."""
        i: cython.Py_ssize_t
        kind: cython.int
        at: cython.Py_ssize_t
        first: cython.Py_ssize_t = len(made)
        if self.shape is None:
            return result is None
        parts: object = result
        if self.lone:
            parts = (result,)
        elif type(result) is not self.shape or len(result) != len(self.outputs):
            return False
        for i in range(len(self.outputs)):
            kind, place = self.outputs[i]
            one: object = parts[i]
            made.append(one)
            if kind == PLAIN:
                if one is not None:
                    return False
                continue
            at = place
            if kind == KNOWN:
                if cython.cast(object, found[at]) is not one:
                    return False
            elif at < first + i:
                if made[at] is not one:
                    return False
            elif not self.is_new(one, made, found):
                return False
        return True

    @cython.cfunc
    @cython.exceptval(-1)
    def is_new(self, one: object, made: list, found: pp_object) -> cython.bint:
        """Whether a result is none of the tensors that the call was given."""
        kind: cython.int
        at: cython.Py_ssize_t
        source: tuple
        for source in self.sources:
            kind = source[0]
            if kind == KNOWN:
                at = source[1]
                if cython.cast(object, found[at]) is one:
                    return False
            elif kind == MADE:
                at = source[1]
                if made[at] is one:
                    return False
        return True


# -- the call --------------------------------------------------------------------------


@cython.final
@cython.cclass
class DynamicTrace:
    """What Python does in a module's call, for all sizes that its guards let pass.

    Args:
        recording: the record of one such call.
    """

    def __init__(self, recording):
        self.recording = recording
        self.result, self.exact = recording.result, recording.exact
        self.n_registers, self.draws = recording.registers, recording.draws
        self.head, self.body = [], []
        self.sort([TraceStep(one) for one in recording.steps])
        self.let_go()

    def sort(self, steps):
        """Puts what hangs on the arguments' sizes alone first."""
        step: TraceStep
        ready: set = set()
        for step in steps:
            first = step.kind == INPUT or (step.kind == SIZES and step.of == KNOWN)
            if step.kind == COMPUTE or step.kind == GUARD:
                first = ready.issuperset(step.reads())
            if first:
                ready.update(step.writes())
            part = self.head if first else self.body
            part.append(step)

    def let_go(self):
        """Has sizes that nobody uses not be read, and results be dropped after their use."""
        step: TraceStep
        used: set = set(registers_of(self.result))
        for step in self.head + self.body:
            used.update(step.reads())
        self.head, self.body = [
            [step for step in part if step.is_wanted(used)]
            for part in (self.head, self.body)
        ]
        last: dict = {}
        count: cython.Py_ssize_t = 0
        for at, step in enumerate(self.body):
            for one in step.all_sources():
                last.update(dict.fromkeys(tensors_of(one), at))
            if step.kind == CALL:
                last.update(dict.fromkeys(range(count, count + len(step.outputs)), at))
                last.update({n: at for kind, n in step.outputs if kind == MADE})
                count += len(step.outputs)
        kept = set(tensors_of(self.result))
        for number, at in last.items():
            if number not in kept:
                step = self.body[at]
                step.dropped.append(number)

    @cython.cfunc
    def begun(self, found: pp_object, n: cython.int, args: tuple) -> list:
        """The integers that hang on the arguments; None where a guard on these fails."""
        step: TraceStep
        registers: list = [None] * self.n_registers
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        for i in range(self.exact, n):
            for j in range(i):
                if found[i] == found[j]:  # what were two tensors are one
                    return None
        for step in self.head:
            if step.kind == INPUT:
                item: object = args
                for at in step.answer:
                    item = item[at]
                registers[step.at] = item
            elif step.kind == SIZES:
                step.read(cython.cast(object, found[step.number]), registers)
            elif not step.computes(registers):
                return None
        return registers

    @cython.cfunc
    def run(self, found: pp_object, n: cython.int, args: tuple) -> object:
        """What the module's call gives, or `MISSED`.

        Args:
            found: the tensors that it is given, of which there are n.
            args: its arguments.
        """
        i: cython.int
        registers: list = self.begun(found, n, args)
        if registers is None:
            return MISSED
        before = default_generator.state_bytes() if self.draws else None
        for i in range(n):
            Py_XINCREF(found[i])
        try:
            made = self.calls_of(registers, found)
            if made is not None:
                self.times += 1
                return given(self.result, registers, made, found)
        except Exception:  # Python runs into the same, and says where
            pass
        finally:
            for i in range(n):
                Py_XDECREF(found[i])
        self.misses += 1
        if before is not None:
            default_generator.set_state_bytes(before)
        return MISSED

    @cython.cfunc
    def calls_of(self, registers: list, found: pp_object) -> list:
        """Makes the calls again: their results, or None where a guard fails."""
        step: TraceStep
        made: list = []
        for step in self.body:
            if step.kind == SIZES:
                step.read(
                    given((step.of, step.number), registers, made, found), registers
                )
            elif step.kind < FACT:
                if not step.computes(registers):
                    return None
            elif step.kind == FACT:
                if step.call(registers, made, found) != step.answer:
                    return None
            elif not step.keeps(step.call(registers, made, found), made, found):
                return None
            for number in step.dropped:
                made[cython.cast(cython.Py_ssize_t, number)] = None
        return made
