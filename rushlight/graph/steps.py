"""A path of calls as a list that can be read and changed, with what each reads and writes."""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from rushlight.core.window import make_tensor
from rushlight.dispatch.declared import FUNCTIONAL, INPLACE, OUT, TAGS, says
from rushlight.graph.tape import Value

CONSTANT, TENSOR, TENSORS, NUMBER = range(4)
FRESH, WINDOW, ARGUMENT, NOTHING = range(4)
RUN, LAUNCH, CHECK, FILL, LOOK = range(5)  # what a program's step does


def window(tape, value):
    """The tensor that a window is, once its storage has memory."""
    return make_tensor(
        tape.slots[value.slot], value.sizes, value.strides, value.offset, value.dtype
    )


@dataclass(eq=False)
class OperatorStep:
    """One call: an operator, the windows that it reads, and those that it writes.

    Attributes:
        call: the noted call.
        reads: windows of its tensor arguments.
        writes: windows that it fills or changes.
        makes: numbers of the storages that it makes.
        pure: whether it does nothing but fill what it makes, always with the same.
    """

    call: object
    reads: list = field(default_factory=list)
    writes: list = field(default_factory=list)
    makes: list = field(default_factory=list)
    pure: bool = False

    @property
    def op(self):
        """The operator."""
        return self.call.op

    @cached_property
    def touched(self):
        """The storages that it reads or writes."""
        return {value.slot for value in (*self.reads, *self.writes)}

    def arguments(self):
        """The windows in each argument, with the argument's number."""
        for i, value in enumerate(self.call.values):
            kind = self.call.kind(i)
            if kind == TENSOR:
                yield i, value
            elif kind == TENSORS:
                for one in value:
                    if isinstance(one, Value):
                        yield i, one

    def __str__(self):
        made = [value for kind, value in self.call.results if kind <= WINDOW]
        left = ", ".join(map(str, made)) or "_"
        return f"{left} = {self.op}({', '.join(map(_shown, self._shown_values()))})"

    def _shown_values(self):
        for i, value in enumerate(self.call.values):
            kind = self.call.kind(i)
            yield f"p{value}" if kind == NUMBER else value


def _shown(value):
    if isinstance(value, Value):
        return f"s{value.slot}{list(value.sizes)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    return str(value)


def is_written(op, i):
    """Whether the schema, or the form, says that an operator writes to its argument ``i``."""
    rows = op.signature.rows
    if op.form == INPLACE and i == 0 or op.form == OUT and i == len(rows) - 1:
        return True
    return bool(rows[i][5] & 1)


@lru_cache(1024)
def manners_of(op):
    """What an operator does besides filling what it makes, whatever it is given.

    Returns:
        For each argument whether it may be written to, and whether an operator that
        writes to none of its tensors is pure.
    """
    tags = op.entry[TAGS] if op.entry else ("unknown",)
    unsaid = says(op, "unmarked_writes") or not op.entry
    written = tuple(unsaid or is_written(op, i) for i in range(len(op.signature.rows)))
    quiet = "random" not in tags and "unknown" not in tags
    return written, not unsaid and op.form == FUNCTIONAL and quiet


def step_of(call):
    """A noted call with what it reads and writes."""
    step = OperatorStep(call)
    written, step.pure = manners_of(call.op)
    for i, value in step.arguments():
        step.reads.append(value)
        if written[i]:
            step.writes.append(value)
            step.pure = False
    for kind, value in call.results:
        if kind == FRESH:
            step.writes.append(value)
            if value.slot not in step.makes:
                step.makes.append(value.slot)
    return step


@dataclass(eq=False)
class Kept:
    """What a program keeps of parameters from call to call, for those who read it.

    Attributes:
        number: of the storage that is kept.
        sources: windows of the parameters.
        text: Python with a pair of braces for each source.
    """

    number: int
    sources: list
    text: str


@dataclass(eq=False)
class Graph:
    """The steps of a path, and what is wanted of it.

    Attributes:
        steps: in the order in which the program took them.
        wanted: for each storage 0 if it was there before, 1 if nobody has it any more,
            2 if it is wanted.
        sizes: bytes of the storages that the path makes, by number.
        lasting: numbers of the storages that are parameters, where nobody learns.
        prepared: what the last of the storages are made by, before the program runs
            (`rushlight.graph.constant_folding`).
        kept: how these are made, for those who read programs.
        devices: where storages lie that the path makes elsewhere than on the host.
        items: what the program was planned from.
        numbers: the parameters as they were when it was.
        default_dtype: the default dtype as it was.
        printer: makes text of it that runs (`rushlight.graph.output_code`).
    """

    steps: list
    wanted: bytes
    sizes: dict
    lasting: set = field(default_factory=set)
    prepared: list = field(default_factory=list)
    kept: list = field(default_factory=list)
    devices: dict = field(default_factory=dict)
    items: list = field(default_factory=list)
    numbers: tuple = ()
    default_dtype: object = None
    printer: object = None

    @classmethod
    def of(cls, leaf, wanted):
        """The graph of the path that ends in a call."""
        steps = [
            step_of(part)
            for call in leaf.path
            for part in ([call] if call.parts is None else call.parts)
        ]
        sizes, devices = {}, {}
        for call in leaf.path:
            for number, size in enumerate(call.sizes):
                sizes[call.first + number] = size
                if not call.device.on_host:
                    devices[call.first + number] = call.device
        lasting = {v.slot for c in leaf.path for v in step_of(c).reads if v.lasting}
        lasting |= {v.slot for step in steps for v in step.reads if v.lasting}
        for call in leaf.path:
            lasting.update(running_statistics(call))
        lasting = {s for s in lasting if wanted[s] == 0}
        return cls(steps, wanted, sizes, lasting, devices=devices)

    def fresh(self, slot):
        """Whether the path makes a storage."""
        return self.wanted[slot] != 0

    def lives(self, slot):
        """Whether somebody sees a storage afterwards: its last contents count."""
        return self.wanted[slot] != 1

    def given_and_written(self):
        """The storages that were there before and are written to."""
        slots = {value.slot for step in self.steps for value in step.writes}
        return sorted(slot for slot in slots if self.wanted[slot] == 0)

    def given_windows(self):
        """For each storage that is passed, the window on it that reaches furthest."""
        kept = {one.number for one in self.kept}
        found: dict = {}
        values = [v for step in self.steps for v in (*step.reads, *step.writes)]
        values += [v for one in self.kept for v in one.sources]
        for value in values:
            if self.wanted[value.slot] or value.slot in kept:
                continue
            reach = bytes_needed(value.sizes, value.strides, value.offset, value.dtype)
            if value.slot not in found or reach > found[value.slot][0]:
                found[value.slot] = reach, value
        return {slot: value for slot, (_, value) in sorted(found.items())}

    def drop_unused(self):
        """Takes out what nobody reads; returns how many steps that were."""
        needed = {slot for slot in range(len(self.wanted)) if self.lives(slot)}
        kept = []
        for step in reversed(self.steps):
            useless = step.pure and not any(slot in needed for slot in step.makes)
            if useless and not says(step.op, "checks_elements"):
                continue
            kept.append(step)
            needed.update(value.slot for value in step.reads)
        dropped = len(self.steps) - len(kept)
        self.steps = kept[::-1]
        return dropped

    def __str__(self):
        marks = {0: "input", 1: "inner", 2: "wanted"}
        lines = [str(step) for step in self.steps]
        kinds = [
            f"{word}: {', '.join(f's{s}' for s, w in enumerate(self.wanted) if w == mark)}"
            for mark, word in marks.items()
        ]
        return "\n".join([*kinds, *lines])


def running_statistics(call):
    """The storages of what a call normalises by, which modules have beside parameters."""
    given = dict(zip(call.op.signature.names, call.values, strict=False))
    if given.get("training", True) is not False:
        return []
    seen = (given.get(name) for name in ("running_mean", "running_var"))
    return [value.slot for value in seen if isinstance(value, Value)]


def bytes_needed(sizes, strides, offset, dtype):
    """How many bytes of a storage a window reaches over."""
    if 0 in sizes:
        return 0
    last = offset + sum((size - 1) * step for size, step in zip(sizes, strides))
    return (last + 1) * dtype.itemsize


def last_uses(items):
    """For each item of a program, the storages that it is the last one to touch.

    Args:
        items: for each item, the numbers of the storages that it touches.
    """
    seen, found = set(), []
    for touched in reversed(items):
        found.append([slot for slot in dict.fromkeys(touched) if slot not in seen])
        seen.update(touched)
    return found[::-1]
