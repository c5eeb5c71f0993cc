"""What a function launches, as a list that can be done again without Python."""

import bisect
import contextlib
import ctypes
import dataclasses
import hashlib
import sys

from rushlight.core.dtypes import uint8
from rushlight.core.tensor import Tensor
from rushlight.dispatch import trace
from rushlight.dispatch.declared import TAGS
from rushlight.export.launch_recorder import count_launches, listening, place_of
from rushlight.fx.experimental.pre_dispatch import user_frames, user_stack
from rushlight.io.interop import frombuffer
from rushlight.operators.shared import record_ahead
from rushlight.runtime.cpu import code_cache, lapack_library, lapack_tasks, random_bits
from rushlight.runtime.cpu.launch import NativeKernel
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_leaves

# What a pointer of a launch is.
NOTHING, FRESH, STATE, INPUT, NUMBER, FLAG, FUNCTION = range(7)
OUTPUT, ROUTINE = 7, 8  # a place in the caller's memory; a routine of LAPACK
LAUNCH, FILL, BRANCH, JUMP, CHECK = range(5)


class NotExportable(NotImplementedError):
    """A function does something that a library without Python cannot do again."""


@dataclasses.dataclass
class Memory:
    """Memory that launches touch.

    Attributes:
        kind: FRESH, STATE or INPUT.
        number: which one of its kind.
        keep: what keeps the memory from being used again.
    """

    kind: int
    number: int
    start: int
    n_bytes: int
    keep: object


@dataclasses.dataclass
class RecordedStep:
    """One launch, memory that is filled with bytes, a jump, or a look at LAPACK's codes.

    Attributes:
        places: for each pointer its kind, number and offset.
        total: of a jump, how many steps are passed over; a branch jumps where its byte is 0.
    """

    kind: int
    fn: int = 0
    positions: tuple = ()
    ints: tuple = ()
    total: int = 1
    grain: int = 1
    numbers: bytes = b""

    def key(self):
        """What is the same in each run."""
        return (
            self.kind, self.fn, self.positions, self.ints, self.total, self.grain,
            self.numbers,
        )  # fmt: skip


class Run:
    """One run of a function that is listened to.

    Args:
        inputs: the tensors that are given.
        state: tensors that were there before.
    """

    def __init__(self, inputs, state):
        self.steps: list = []
        self.memories: list = []
        self.where = self.operator = None
        self._starts: list = []  # sorted, and the memories beside them
        self._sorted: list = []
        self._counts = [0] * 4
        self.recorded = self.before = 0
        for tensor in inputs:
            self.add(INPUT, tensor)
        for tensor in state:
            if self.at(place_of(tensor)[0]) is None:
                self.add(STATE, tensor)
        self.touched: dict = {}  # (kind, number) of a memory -> the steps that touch it
        self.constants: dict = {}  # number of a state that was looked at -> its bytes
        self.looked: set = set()  # steps that made what was looked at
        self.carried: set = set()  # memories that are other ones in each turn of a loop
        self.functions = code_cache.by_address
        self.draws = 0  # how often random bits were drawn
        flag = getattr(trace._held, "flag", None)
        self.flag = place_of(flag)[2] if flag is not None else None

    def add(self, kind, tensor):
        """One more memory: all of a tensor's storage."""
        start, n_bytes, _ = place_of(tensor)
        made = Memory(kind, self._counts[kind], start, n_bytes, tensor)
        self._counts[kind] += 1
        self.memories.append(made)
        if n_bytes:
            at = bisect.bisect(self._starts, start)
            self._starts.insert(at, start)
            self._sorted.insert(at, made)
        return made

    def at(self, address):
        """The memory that an address lies in, or None."""
        at = bisect.bisect(self._starts, address) - 1
        found = self._sorted[at] if at >= 0 else None
        if found is None or address >= found.start + found.n_bytes:
            return None
        return found

    # -- what is told ------------------------------------------------------------------

    def made(self, tensor):
        """Memory that the function has asked for."""
        self.add(FRESH, tensor)

    def filled(self, tensor):
        """Python's numbers in memory that was asked for just now."""
        start, n_bytes, _ = place_of(tensor)
        memory = self.at(start)
        if memory is None or not n_bytes:
            return
        content = bytes(_bytes_of(tensor, start, n_bytes))
        self.append(
            RecordedStep(
                FILL, positions=((memory.kind, memory.number, 0),), numbers=content
            )
        )

    def known(self, operand):
        """An operand that may have been there before: a table of a function's own."""
        if isinstance(operand, Tensor):
            start, n_bytes, _ = place_of(operand)
            flag = self.flag is not None and start == self.flag
            if n_bytes and not flag and self.at(start) is None:
                self.add(STATE, operand)

    def read(self, tensor):
        """An element is read by Python: that may be if it is the same in each run."""
        memory = None if tensor is None else self.at(place_of(tensor)[0])
        made = None if memory is None else self.made_of_constants(memory)
        if made is None:
            self.refuse("Python reads an element of a tensor")
        self.looked |= made

    def made_of_constants(self, memory):
        """The steps that have made a memory of state alone; None where they took more."""
        todo = [(memory.kind, memory.number, len(self.steps))]
        found: set = set()
        while todo:
            kind, number, before = todo.pop()
            if kind == INPUT or (kind, number) in self.carried:
                return None
            if kind == STATE:
                self.constants.setdefault(number, self.bytes_of_state(number))
                continue
            for at in self.touched.get((kind, number), ()):
                if at < before and at not in found:
                    found.add(at)
                    positions = self.steps[at].positions
                    todo += [(k, n, at) for k, n, _ in positions if FRESH <= k <= INPUT]
        return found

    def bytes_of_state(self, number):
        """A digest of what a state is now."""
        (one,) = [m for m in self.memories if (m.kind, m.number) == (STATE, number)]
        content = _bytes_of(None, one.start, one.n_bytes)
        return hashlib.blake2b(content, digest_size=16).digest()

    def finish(self, results):
        """Leaves out what was made to be looked at alone.

        Args:
            results: what the function gave.

        Raises:
            NotExportable: something that was looked at has changed.
        """
        if any(self.bytes_of_state(n) != kept for n, kept in self.constants.items()):
            self.refuse("Python reads an element that a run changes")
        last = {self.place(place_of(one)[2])[:2] for one in results if one.numel()}
        idle, count = self.looked, -1
        while len(idle) != count:
            count = len(idle)
            idle = {at for at in idle if not self.is_needed(at, idle, last)}
        for at in idle:
            self.steps[at] = RecordedStep(JUMP, total=0)

    def is_needed(self, at, idle, last):
        """Whether others than idle steps touch what a step does, or it is a result."""
        for kind, number, _ in self.steps[at].positions:
            if kind == FRESH and (
                (kind, number) in last
                or not idle.issuperset(self.touched[kind, number])
            ):
                return True
        return False

    # -- branches and loops --------------------------------------------------------------

    def append(self, step):
        """One more step; where it is."""
        at = len(self.steps)
        for kind, number, _ in step.positions:
            if FRESH <= kind <= INPUT:
                self.touched.setdefault((kind, number), []).append(at)
        self.steps.append(step)
        return at

    def branch(self, pred):
        """A step that jumps where a truth value is false; `land` says where to."""
        return self.append(
            RecordedStep(BRANCH, positions=(self.place(place_of(pred)[2]),))
        )

    def jump(self, back=None):
        """A step that jumps: to a step before, or to where `land` says."""
        total = 0 if back is None else back - len(self.steps) - 1
        return self.append(RecordedStep(JUMP, total=total))

    def land(self, at):
        """Has a branch or a jump go on with the next step."""
        self.steps[at].total = len(self.steps) - at - 1

    def launched(self, fn, data, inside, ints, total, grain, numbers):
        """One launch."""
        self.recorded += 1
        task = TASKS.get(fn)
        if task == "random_bits":
            self.draws += 1
            if self.at(data[0]) is None:
                self.add(STATE, stream_of(data[0]))
        elif task == "check_codes":
            codes = (self.place(data[0]),)
            self.append(
                RecordedStep(CHECK, positions=codes, total=ints[0], numbers=numbers)
            )
            return
        positions = tuple(
            (NUMBER, 0, one) if own else self.place(one)
            for one, own in zip(data, inside)
        )
        if fn not in self.functions and task is None:
            self.refuse("what it runs is no kernel that can be taken along")
        if not any(inside):
            numbers = b""  # room that was not needed
        self.append(
            RecordedStep(LAUNCH, fn, positions, tuple(ints), total, grain, numbers)
        )

    def place(self, address):
        """What a pointer points to."""
        if not address:
            return NOTHING, 0, 0
        found = self.at(address)
        if found is not None:
            return found.kind, found.number, address - found.start
        if self.flag is None:
            flag = getattr(trace._held, "flag", None)
            self.flag = place_of(flag)[2] if flag is not None else None
        if address == self.flag:
            return FLAG, 0, 0
        if address in self.functions:
            return FUNCTION, address, 0
        if lapack_library.routine_name(address) is not None:
            return ROUTINE, address, 0
        self.refuse("a kernel works on memory that nobody has told of")
        raise AssertionError

    def settle(self):
        """Refuses launches that have happened and were not told."""
        if count_launches() - self.before != self.recorded:
            self.refuse("it runs loops that nobody has told of")

    def refuse(self, fact):
        """Says what cannot be done without Python, and where.

        Raises:
            NotExportable: always.
        """
        frames = user_stack(user_frames(sys._getframe(1)))
        node = self.where
        operator = "" if self.operator is None else f"{self.operator}: "
        if node is not None:
            operator = f"{node.target}: "
            frames = node.meta.get("stack_trace") or frames
        raise NotExportable(
            f"aot_compile: {operator}{fact}, which a library without Python cannot do\n"
            f"{frames}"
            "  remedy: leave it out of what is compiled; sorting, Fourier transforms, "
            "other generators than the default one, and distributions but the uniform, "
            "normal and Bernoulli's are among what is not taken along yet"
        )


def _bytes_of(tensor, start, n_bytes):
    return ctypes.string_at(start, n_bytes)


class _Seen(TorchDispatchMode):
    """Collects the tensors that operators are given and give."""

    sees_own_operators = True

    def __init__(self):
        super().__init__()
        self.tensors: dict = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves((args, kwargs or {})):
            if isinstance(one, Tensor):
                self.tensors.setdefault(id(one), one)
        return result


def listened(call, inputs, state):
    """One run of a function, with all that it launches.

    Args:
        call: ``call(run)`` runs it and gives the tensors that are its results.
        inputs: what it is given.
        state: tensors that were there before.

    Returns:
        the `Run` and the results.

    Raises:
        NotExportable: something was done that nobody has told of.
    """
    run = Run(inputs, state)
    with Naming(run), record_ahead(), listening(run):
        run.before = count_launches()
        results = call(run)
        run.settle()
    run.finish(results)
    return run, results


@contextlib.contextmanager
def taken_down():
    """A block that runs as what is recorded does, where nobody writes it down."""
    with record_ahead(), listening(None):
        yield


class Naming(TorchDispatchMode):
    """Tells a run which operator is at work, and looks at each whether all was told."""

    sees_own_operators = True

    def __init__(self, run):
        super().__init__()
        self.run = run

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.run.operator = func
        draws = self.run.draws
        result = func(*args, **(kwargs or {}))
        random = "random" in (func.entry[TAGS] if func.entry else ())
        if random and self.run.draws == draws:
            self.run.operator = func
            self.run.refuse("it draws random numbers otherwise than as launches")
        self.run.settle()
        self.run.operator = None
        return result


def seen_by(call):
    """The tensors that a function's operators are given, from one run of it."""
    mode = _Seen()
    with mode:
        call()
    return list(mode.tensors.values())


def checked_alike(first, second):
    """Refuses a function that does not do the same each time.

    Raises:
        NotExportable: two runs differ.
    """
    if len(first.steps) != len(second.steps):
        second.refuse(
            f"it launches {len(first.steps)} kernels, then {len(second.steps)}"
        )
    states = [
        [(one.start, one.n_bytes) for one in run.memories if one.kind == STATE]
        for run in (first, second)
    ]
    for one, other in zip(first.steps, second.steps):
        if one.key() == other.key():
            continue
        fact = "a number that Python computes differs from run to run"
        if one.fn != other.fn or one.total != other.total:
            fact = "it launches other kernels from run to run"
        elif one.positions != other.positions:
            fact = "it works on other memory from run to run (state that is made anew)"
        second.refuse(fact)
    if states[0] != states[1]:
        second.refuse("its state lies in other memory from run to run")


TASKS = lapack_tasks.host_tasks() | random_bits.host_tasks()


def stream_of(address):
    """A generator's words as a tensor: what a library keeps, and a seed writes."""
    words = (ctypes.c_char * random_bits.STREAM_BYTES).from_address(address)
    return frombuffer(words, dtype=uint8)


def kernel_of(address) -> NativeKernel:
    """The kernel that starts at an address."""
    return code_cache.by_address[address]
