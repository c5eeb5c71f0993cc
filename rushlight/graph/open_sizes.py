"""Paths and programs for a size that was not met, made of three that were.

The integers of a path and of its program (sizes, strides, offsets, bytes, loops of kernels)
are a vector, in an order of their own. Paths that are alike but for it are a *family*. Where
each of its integers is a polynomial of one size through three members, with whole
coefficients, the family is open: the path for another size is written down without a run, and
so is its program, by the plan of the first member. Sizes that differ from the members' by no
multiple of what these differ by are not taken for granted: halves that were rounded down pass
for a polynomial at even ones.

What may hang on a size in other ways is not taken over. A size beyond four times the
largest member is planned by itself, and joins the family if it fits the terms. Which
kernels an operator launches is heard again, or the operator runs; a size of 1 or 0, at which
strides mean nothing, and a path that another kind of value leads to, are noted as ever.
All arguments of each call are compared with the path as if it had been noted.
"""

from __future__ import annotations

from math import gcd

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.rushlight.core._python import pp_object
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import Operator
from cython.cimports.rushlight.graph.call_matching import (
    add_branch,
    chain_branch,
    has_room,
    matches,
)
from cython.cimports.rushlight.graph.program import Instruction
from cython.cimports.rushlight.graph.size_vectors import Reading, Writing, is_integer
from cython.cimports.rushlight.graph.tape import NUMBER, TENSOR, Call, Tape, Value

from rushlight._inductor import config
from rushlight.graph.memory_plan import kinds_of, program_of, replanned
from rushlight.graph.pipeline import planned_anew
from rushlight.graph.size_vectors import with_parts
from rushlight.graph.steps import Graph, step_of

_SAMPLES = cython.declare(cython.Py_ssize_t, 3)
_FAMILIES = 16  # of one function
_COUNTED = cython.declare(cython.Py_ssize_t, 4096)  # sizes whose calls are counted
PASSES = cython.declare(Call, Call())  # in place of a path: the call runs as it comes
_PATIENCE = (
    24  # runs: hearing what operators launch takes six, and saves a fifth of each
)
# Proving modules' traces takes some fifteen calls of a path, and saves a tenth of each.
_UNTRIED = cython.declare(cython.int, 100)


class OpenGraph(Graph):
    """The graph of a program that was made for another size: its steps on demand.

    Args:
        like: the graph of the family's first member.
        calls: the path's.
        sizes: bytes of its storages.
    """

    def __init__(self, like, calls, sizes):
        self.like, self.calls, self.sizes = like, calls, sizes
        self.wanted, self.lasting = like.wanted, like.lasting
        self.prepared, self.devices = like.prepared, like.devices
        self.numbers, self.default_dtype = like.numbers, like.default_dtype
        self.printer, self.kept = like.printer, []

    @property
    def items(self):
        """What the program would be planned from, if nothing were kept of parameters."""
        return planned_anew(self)

    @property
    def steps(self):
        """The calls as steps."""
        return [
            step_of(part)
            for call in self.calls
            for part in ([call] if call.parts is None else call.parts)
        ]

    def given_and_written(self):
        """The storages that were there before and are written to."""
        return self.like.given_and_written()


# -- families --------------------------------------------------------------------------


@cython.final
@cython.cclass
class Family:
    """Paths that are alike but for their integers, and what these are of one size.

    Args:
        state: the default type and more that the paths hang on.
        calls: the first member's.
        reading: its integers and marks.
        marks: how many of the marks are the path's; the others are the program's.
        wanted: what is wanted of each storage.
        program, items: its program, and what that was planned from.
    """

    state: tuple
    calls = cython.declare(list, visibility="readonly")
    reading: Reading
    marks: list  # of the path alone
    graph = cython.declare(object, visibility="readonly")
    wanted = cython.declare(bytes, visibility="readonly")
    items: list
    moves: list
    kinds: list
    vectors: list
    paths: list
    n: cython.Py_ssize_t
    varying: cython.Py_ssize_t  # the first integer that does
    terms: cython.pointer(int64_t)  # three for each integer
    values: cython.pointer(int64_t)
    largest: int64_t  # that members have had
    base: int64_t  # the first member's size
    modulus: int64_t  # sizes that differ from it by multiples of this are open
    counts: dict  # of calls at sizes that have no program yet
    is_open = cython.declare(cython.bint, visibility="readonly")
    is_closed = cython.declare(cython.bint, visibility="readonly")

    def __init__(self, state, calls, reading, marks, wanted, program, items):
        step: Instruction
        self.marks = reading.marks[:marks]
        self.state, self.calls, self.reading = state, calls, reading
        self.wanted, self.graph, self.items = wanted, program.graph, items
        self.kinds = kinds_of(self.graph, items)
        self.moves = []
        self.counts = {}
        self.n = len(reading.ints)
        self.vectors, self.paths = [reading.ints], [calls]
        for item in items:
            step = item.instr
            # the first program is planned anew once its calls were heard
            self.moves.append((step.taken[:], step.asked[:], step.freed[:]))
        self.terms = cython.cast(
            cython.pointer(int64_t), malloc(4 * (self.n + 1) * cython.sizeof(int64_t))
        )
        if self.terms == cython.NULL:
            raise MemoryError("no memory for a family of programs")
        self.values = self.terms + 3 * self.n

    def __dealloc__(self):
        free(self.terms)

    def has(self, state, reading) -> bool:
        """Whether a path is a member."""
        other: Reading = reading
        return (
            self.state == state
            and len(other.ints) == self.n
            and other.marks == self.reading.marks
        )

    def add(self, calls, reading):
        """Takes a member in; with the third the family is open, or closed for good."""
        other: Reading = reading
        if self.is_open:
            self.confirm(other)
            return
        if other.ints in self.vectors:
            return
        self.vectors.append(other.ints)
        self.paths.append(calls)
        if len(self.vectors) < _SAMPLES:
            return
        known = self.sizes_known()
        if known is None:
            self.vectors.pop()
            self.paths.pop()
            return
        self.is_open = self.fit(known)
        self.largest, self.base = max(known), known[0]
        self.modulus = gcd(known[1] - known[0], known[2] - known[0])
        self.is_closed = not self.is_open
        self.vectors = []

    @cython.cfunc
    def confirm(self, reading: Reading) -> object:
        """Takes a size for granted where it fits the terms, and those between and beyond.

        These are sizes up to four times it, and such as differ by what others do.
        """
        i: cython.Py_ssize_t
        size: int64_t = self.solved(self.varying, reading.ints[self.varying])
        if size < 0 or not self.evaluate(size):
            return
        for i in range(self.n):
            if self.values[i] != cython.cast(int64_t, reading.ints[i]):
                return
        self.largest = max(self.largest, size)
        self.modulus = gcd(self.modulus, size - self.base)

    @cython.cfunc
    @cython.exceptval(check=False)
    def reaches(self, size: int64_t) -> cython.bint:
        """Whether what the members have alike is taken for granted at a size."""
        return 0 <= size <= 4 * self.largest and (size - self.base) % self.modulus == 0

    def size_of_path(self, state, reading) -> int:
        """The size for which a path that was noted is the family's; -1 where it is not.

        Args:
            state: the default type and more that it hangs on.
            reading: the path's integers and marks.
        """
        other: Reading = reading
        i: cython.Py_ssize_t
        size: int64_t
        if not self.is_open or self.state != state or other.marks != self.marks:
            return -1
        if len(other.ints) != self.end_of_path():
            return -1
        size = self.solved(self.varying, other.ints[self.varying])
        if not self.reaches(size) or not self.evaluate(size):
            return -1
        for i in range(len(other.ints)):
            if self.values[i] != cython.cast(int64_t, other.ints[i]):
                return -1
        return size

    def sizes_known(self):
        """The size at each of the three members; None where they tell too little of it.

        It is the integer that differs least: others are multiples of it, and more.
        """
        one, two, three = self.vectors
        gap, at = 0, -1
        for i, pair in enumerate(zip(one, two)):
            new = abs(pair[1] - pair[0])
            if new and (at < 0 or new < gap):
                gap, at = new, i
        sizes = one[at], two[at], three[at]
        return sizes if len({*sizes}) == 3 else None

    def fit(self, sizes) -> bool:
        """Whether all integers are polynomials of the size; their terms are kept then."""
        i: cython.Py_ssize_t
        self.varying = self.n
        for i in range(self.n):
            found = terms_of(sizes, [vector[i] for vector in self.vectors])
            if found is None:
                return False
            self.terms[3 * i], self.terms[3 * i + 1], self.terms[3 * i + 2] = found
            if (found[1] or found[2]) and self.varying == self.n:
                self.varying = i
        for i in self.reading.sizes:
            if self.varies(i) and min(vector[i] for vector in self.vectors) < 2:
                return False
        fixed = {slot for prepared in self.graph.prepared for slot in prepared.slots}
        for slot, first, end in self.reading.windows:
            if slot in fixed and any([self.varies(i) for i in range(first, end)]):
                return False
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def varies(self, i: cython.Py_ssize_t) -> cython.bint:
        """Whether an integer is another one for another size."""
        return self.terms[3 * i + 1] != 0 or self.terms[3 * i + 2] != 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def evaluate(self, size: int64_t) -> cython.bint:
        """Sets the integers for a size; False where it has none."""
        i: cython.Py_ssize_t
        term: cython.pointer(int64_t) = self.terms
        if size < 2 or size > 1 << 24:
            return False
        for i in range(self.n):
            self.values[i] = term[0] + size * (term[1] + size * term[2])
            if self.values[i] < 0 and (term[1] or term[2]):
                return False
            term += 3
        for i in self.reading.sizes:
            if self.values[i] < 2 and self.varies(i):
                return False
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def leads_to(self, tape: Tape) -> cython.bint:
        """Whether what was followed is where a member begins, whatever the size."""
        i: cython.Py_ssize_t
        count: cython.Py_ssize_t = len(tape.calls)
        path: list
        if (tape.default, tape.replaced, tape.chosen) != self.state:
            return False
        if count and self.reading.starts[count] > self.varying:
            return False
        for path in self.paths:
            for i in range(count):
                if path[i] is not tape.calls[i]:
                    break
            else:
                return True
        return False

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def size_of(self, call: Call, at: cython.Py_ssize_t, slots: pp_object) -> int64_t:
        """The size at which a call has some arguments; -1 where there is none.

        Args:
            at: where its integers begin.
        """
        i: cython.int
        d: cython.int
        v: Value
        t: Tensor
        for i in range(call.op.n_args):
            item = cython.cast(object, slots[i])
            if call.kinds[i] == NUMBER:
                continue
            if call.kinds[i] == TENSOR:
                v = call.values[i]
                if not isinstance(item, Tensor):
                    return -1
                t = item
                if t.ndim_ != v.ndim:
                    return -1
                for d in range(v.ndim):
                    if self.varies(at + 2 * d):
                        return self.solved(at + 2 * d, t.sizes[d])
                at += 2 * v.ndim + 1
                continue
            for one, like in leaves(item, call.values[i]):
                if isinstance(like, Value):
                    at += 2 * like.ndim + 1
                elif is_integer(like):
                    if self.varies(at) and type(one) is int:
                        return self.solved(at, one)
                    at += 1
        return -1

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def solved(self, i: cython.Py_ssize_t, value: int64_t) -> int64_t:
        """The size for which an integer has a value; -1 where there is none."""
        slope: int64_t = self.terms[3 * i + 1]
        value -= self.terms[3 * i]
        if self.terms[3 * i + 2] or not slope or value % slope:
            return -1
        return value // slope

    @cython.cfunc
    def writing(self, at: cython.Py_ssize_t) -> Writing:
        """What writes a path or a program of the integers that were evaluated last.

        It has a copy: another thread may evaluate them for its size at any call of Python.
        """
        made: Writing = Writing.__new__(Writing)
        made.held = PyBytes_FromStringAndSize(
            cython.cast(cython.p_char, self.values), self.n * cython.sizeof(int64_t)
        )
        made.ints = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(made.held))
        made.at = at
        return made

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def waits(self, size: int64_t) -> cython.bint:
        """Whether a call runs as it comes: a program would not save yet what it costs.

        Writing a path and its program takes some ten calls of a small program, and what a
        program saves is in its memory: of more than `open_size_bytes` it is made at once,
        else where a size has come `open_size_calls` times.
        """
        i: cython.Py_ssize_t
        made: int64_t = 0
        known = self.counts.get(size)
        if known is None:
            if not self.evaluate(size):
                return False
            for i in range(len(self.graph.sizes)):
                made += self.values[self.end_of_path() + i]
            if made >= config.open_size_bytes:
                return False
            if len(self.counts) >= _COUNTED:
                self.counts.clear()
            known = 0
        if known < config.open_size_calls:
            self.counts[size] = known + 1
            return True
        self.counts.pop(size, None)
        return False

    def program(self, leaf, size):
        """The program of a path that the family has made.

        Args:
            leaf: its last call.
        """
        self.evaluate(size)
        made: Writing = self.writing(self.reading.starts[len(self.calls)])
        path = leaf.path
        calls = with_parts(path)
        sizes = {slot: made.next() for slot in sorted(self.graph.sizes)}
        items = [
            made.item(item, calls, number, moves)
            for item, number, moves in zip(self.items, self.reading.numbers, self.moves)
        ]
        program = program_of(OpenGraph(self.graph, path, sizes), items, self.kinds)
        if any([item.instr.is_call for item in items]):
            program.set_items(items, replanned)
        program.patience = _PATIENCE
        return program

    def end_of_path(self):
        """Where the integers of the path end and those of the program begin."""
        return self.reading.starts[len(self.calls)]


def terms_of(sizes, values):
    """The terms of a polynomial of degree 2 with whole terms; None where there is none.

    >>> terms_of((4, 5, 7), (9, 11, 15)), terms_of((4, 5, 7), (32, 50, 98))
    ((1, 2, 0), (0, 0, 2))
    >>> terms_of((4, 5, 7), (2, 2, 3))
    """
    a, b, _ = sizes
    x, y, _ = values
    tries = []
    if (y - x) % (b - a) == 0:
        slope = (y - x) // (b - a)
        tries.append((x - slope * a, slope, 0))
    bent, whole = x * b - y * a, a * b * (a - b)
    if whole and bent % whole == 0:
        square = bent // whole
        if a and (x - square * a * a) % a == 0:
            tries.append((0, (x - square * a * a) // a, square))
    for one in tries:
        if all(one[0] + n * (one[1] + n * one[2]) == v for n, v in zip(sizes, values)):
            return one
    return None


def leaves(item, like):
    """Pairs of what an argument has and what a noted one has, lists opened."""
    if isinstance(like, (list, tuple)):
        if not isinstance(item, (list, tuple)) or len(item) != len(like):
            item = [None] * len(like)
        for one, other in zip(item, like):
            yield from leaves(one, other)
    else:
        yield item, like


@cython.cfunc
def open_branch(
    tape: Tape, op: Operator, slots: pp_object, switches: cython.int
) -> Call:
    """A path for the size that a call has, where a family leads from here; else None.

    It is `PASSES` where the size has not come often enough.
    """
    families: list = tape.owner.families
    family: Family
    call: Call
    size: int64_t
    count: cython.Py_ssize_t = len(tape.calls)
    for family in families:
        if not family.is_open or count >= len(family.calls):
            continue
        call = family.calls[count]
        if call.op is not op or call.switches != switches or not family.leads_to(tape):
            continue
        size = family.size_of(call, family.reading.starts[count], slots)
        if size >= 2 and tape.owner.dynamic is not True and family.waits(size):
            return PASSES
        if not family.reaches(size) or not has_room(tape):
            continue
        if not family.evaluate(size):
            continue
        call = written(tape, family, count, size, op, slots)
        if call is not None:
            return call
    return None


@cython.cfunc
def written(
    tape: Tape,
    family: Family,
    count: cython.Py_ssize_t,
    size: int64_t,
    op: Operator,
    slots: pp_object,
) -> Call:
    """The first call of a family's path for a size, with the others after it; or None.

    Args:
        count: how many calls of it were followed.
    """
    making: Writing = family.writing(family.reading.starts[count])
    first: Call = making.call(family.calls[count])
    call: Call
    before: Call
    i: cython.Py_ssize_t
    if not matches(tape, first, op, slots):
        return None
    first.key, first.look = tape.key, tape.look
    add_branch(tape, tape.at, first)
    before = first
    for i in range(count + 1, len(family.calls)):
        call = making.call(family.calls[i])
        chain_branch(tape, before, call)
        before = call
        put_off(call)
    put_off(first)
    before.opened = family, size
    return first


def program_of_family(owner, tape: Tape, leaf, wanted):
    """The program of a noted path by a family's plan; None where it belongs to none.

    Args:
        owner: has ``families``.
        leaf: the path's last call.
        wanted: what is wanted of each storage.
    """
    family: Family
    reading: Reading = None
    state = (tape.default, tape.replaced, tape.chosen)
    for family in owner.families:
        if not family.is_open or family.wanted != wanted:
            continue
        if reading is None:
            reading = Reading()
            reading.path(leaf.path)
        size = family.size_of_path(state, reading)
        if size >= 0:
            for call in leaf.path:
                put_off(call)
            return family.program(leaf, size)
    return None


@cython.cfunc
@cython.exceptval(check=False)
def put_off(call: Call) -> cython.void:
    """Has modules behind a call run their Python for a while, before it is proven."""
    call.untried = _UNTRIED


def learn(owner, tape: Tape, leaf, wanted, program, items):
    """Takes a path with its program into a family.

    Args:
        owner: has ``families``.
        leaf: the path's last call.
        wanted: what is wanted of each storage.
        program, items: the program, and what it was planned from.
    """
    family: Family
    calls = leaf.path
    reading: Reading = Reading()
    reading.path(calls)
    reading.starts.append(len(reading.ints))
    marks = len(reading.marks)
    if not reading.program(wanted, program.graph, items):
        return
    state = (tape.default, tape.replaced, tape.chosen)
    for family in owner.families:
        if family.has(state, reading):
            if not family.is_closed:
                family.add(calls, reading)
            return
    family = Family(state, calls, reading, marks, wanted, program, items)
    owner.families.insert(0, family)
    del owner.families[_FAMILIES:]
