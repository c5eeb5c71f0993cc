"""Which memory is asked for, handed on and given back, and when."""

from itertools import accumulate

from rushlight.graph.program import Program
from rushlight.graph.steps import last_uses


class Item:
    """One turn of a program before memory is planned: what it touches.

    Attributes:
        instr: the compiled step.
        touches: numbers of the storages that it reads or writes.
        asks: those that it wants memory for.
        group: the elementwise steps that it is, or None.
        stored: the storages that the group's kernel writes.
    """

    def __init__(self, instr, touches, asks=(), group=None, stored=frozenset()):
        self.instr, self.touches = instr, touches
        self.asks, self.group = list(dict.fromkeys(asks)), group
        self.stored = stored


class Holding:
    """What groups keep from being let go of while they wait for more members.

    Args:
        graph: whose steps are grouped.
        limit: bytes that one group may hold.
    """

    def __init__(self, graph, limit):
        self.graph, self.limit = graph, limit
        self.last = {}
        for number, step in enumerate(graph.steps):
            for slot in step.touched:
                self.last[slot] = number

    def is_too_much(self, group, number):
        """Whether a group holds more than it gives, before a step that it does not take."""
        held = sum(
            self.graph.sizes.get(slot, 0)
            for slot in group.reads
            if self.graph.wanted[slot] == 1 and self.last[slot] < number
            if slot not in group.writes
        )
        made = sum(
            self.graph.sizes.get(slot, 0)
            for slot in group.writes
            if self.last[slot] >= number or self.graph.lives(slot)
        )
        return held - made > self.limit


def peak_of(graph, parts):
    """The most memory that parts have of what the path makes, if they run in this order.

    Args:
        parts: steps and groups. What a group writes and nobody else reads has no memory.
    """
    first, last = {}, {}
    for number, part in enumerate(parts):
        for slot in part.touched:
            first.setdefault(slot, number)
            last[slot] = number
    changes = [0] * (len(parts) + 1)
    for slot, begun in first.items():
        kind = graph.wanted[slot]
        if kind and (kind == 2 or last[slot] > begun):
            size = graph.sizes.get(slot, 0)
            changes[begun] += size
            changes[last[slot] + 1 if kind == 1 else -1] -= size
    return max(accumulate(changes[:-1]), default=0)


GIVEN, KEPT, INNER = range(3)


def planned(graph, items, extra=()):
    """The program, with memory let go of after its last use, or handed on at it.

    Args:
        extra: bytes of the places that are no storages of the path.
    """
    plan_moves(graph, items)
    kinds = kinds_of(graph, items)
    return program_of(graph, items, kinds, extra)


def plan_moves(graph, items):
    """Writes down in each turn what memory it takes, asks for and lets go of."""
    for item, (taken, asked, freed) in zip(items, moves_of(graph, items), strict=True):
        instr = item.instr
        instr.taken[:], instr.asked[:], instr.freed[:] = taken, asked, freed


def moves_of(graph, items):
    """For each item the memory that it takes from another storage, asks for and lets go of.

    Returns:
        Lists of pairs of storages (the first gets the memory of the second), of storages
        and of storages.
    """
    uses = last_uses([item.touches for item in items])
    count, moves = len(graph.wanted), []
    for item, last in zip(items, uses, strict=True):
        gone = [slot for slot in last if slot >= count or graph.wanted[slot] != 2]
        taken = handed_on(graph, item, gone)
        given = {target for target, _ in taken}
        asked = [slot for slot in item.asks if slot not in given]
        moves.append((taken, asked, gone))
    return moves


def kinds_of(graph, items):
    """For each storage of the path what it is to its program."""
    kinds = [(GIVEN, INNER, KEPT)[kind] for kind in graph.wanted]
    for item in items:
        if item.instr.is_call:
            for slot in item.touches:
                kinds[slot] = kinds[slot] and KEPT
    return kinds


def program_of(graph, items, kinds, extra=()):
    """The program of turns whose memory is planned."""
    count = len(kinds)
    kinds = [*kinds, *[INNER] * len(extra)]
    sizes = [graph.sizes.get(slot, 0) for slot in range(count)] + list(extra)
    instrs = [item.instr for item in items]
    kept = graph.prepared, graph.given_and_written()
    return Program(instrs, graph, kinds, sizes, count, *kept, graph.devices)


def listening(graph, items):
    """The program as it runs for the first time, when calls are listened to."""
    program = planned(graph, items)
    if any(item.instr.is_call for item in items):
        program.set_items(items, replanned)
    return program


def replanned(program, items):
    """The program once calls have been heard: their launches in place of them."""
    found = []
    for item in items:
        if item.instr.parts is None:
            found.append(item)
        else:
            found += recorded(program.graph, item)
    return planned(program.graph, found, program.extra)


def recorded(graph, item):
    """The launches of a call, each with what it wants memory for."""
    missing = set(item.instr.call.touched())
    missing -= {value.slot for value in item.instr.details.reads}
    items = []
    for instr in item.instr.parts:
        positions = instr.positions
        if instr.call is not None:  # it may run in place of its steps
            positions = [*positions, *item.touches]
        positions = [place for place in positions if place is not None]
        asks = [p for p in positions if p in missing or p >= len(graph.wanted)]
        asks = [
            p for p in dict.fromkeys(asks) if not any(p in one.asks for one in items)
        ]
        items.append(Item(instr, positions, asks))
    return items


def handed_on(graph, item, gone):
    """Pairs of storages: the first takes the memory of the second, which it replaces.

    A kernel that goes element by element may write where it reads, if it reads there by
    the same steps.
    """
    if item.group is None or item.group.axes is not None:
        return []  # a row may be read again after some of it is written
    reads, looks = item.group.reads, item.group.writes
    free = [
        slot
        for slot in gone
        if graph.wanted[slot] == 1 and slot not in looks and slot in reads
    ]
    pairs = []
    for target in item.asks:
        for source in free:
            same = {*map(_place, reads[source])} == {*map(_place, looks[target])}
            same = same and graph.devices.get(source) == graph.devices.get(target)
            if same and graph.sizes.get(source) == graph.sizes.get(target):
                pairs.append((target, source))
                free.remove(source)
                break
    return pairs


_WIDTHS = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2}
_WIDTHS |= {"float32": 4, "int32": 4, "int8": 1, "uint8": 1, "bool": 1}


def _place(key):
    """Where a window's elements lie, whatever they are."""
    _, offset, dtype, steps = key
    return offset, _WIDTHS.get(dtype), steps
