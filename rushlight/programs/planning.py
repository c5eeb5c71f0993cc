"""Which memory is asked for, handed on and given back, and when."""

from __future__ import annotations

from rushlight.programs.fusion import is_window
from rushlight.programs.program import Program
from rushlight.programs.steps import last_uses


class Item:
    """One turn of a program before memory is planned: what it touches.

    Attributes:
        turn: the compiled step.
        touches: numbers of the storages that it reads or writes.
        asks: those that it wants memory for.
        group: the elementwise steps that it is, or None.
    """

    def __init__(self, turn, touches, asks=(), group=None):
        self.turn, self.touches = turn, touches
        self.asks, self.group = list(dict.fromkeys(asks)), group


def planned(graph, items):
    """The program, with memory let go of after its last use, or handed on at it."""
    turns = []
    uses = last_uses([item.touches for item in items])
    for item, last in zip(items, uses, strict=True):
        gone = [slot for slot in last if graph.wanted[slot] != 2]
        taken = handed_on(graph, item, gone)
        item.turn.taken.extend(taken)
        for target, source in taken:
            item.turn.redirect(source, target)
        given = {target for target, _ in taken}
        item.turn.asked.extend(slot for slot in item.asks if slot not in given)
        item.turn.freed.extend(gone)
        turns.append(item.turn)
    return Program(turns, graph)


def handed_on(graph, item, gone):
    """Pairs of storages: the first takes the memory of the second, which it replaces.

    A kernel that goes element by element may write where it reads, if it reads there by
    the same steps.
    """
    if item.group is None:
        return []
    reads: dict = {}
    for member in item.group.members:
        for one in filter(is_window, member.inputs):
            reads.setdefault(one.slot, set()).add(one.look)
    looks = {
        one.slot: one.look
        for member in item.group.members
        for one in member.outputs
        if one.slot in item.asks
    }
    free = [
        slot
        for slot in gone
        if graph.wanted[slot] == 1 and slot not in item.group.writes and slot in reads
    ]
    pairs = []
    for target in item.asks:
        for source in free:
            same = {_place(look) for look in reads[source]} == {_place(looks[target])}
            if same and graph.sizes.get(source) == graph.sizes.get(target):
                pairs.append((target, source))
                free.remove(source)
                break
    return pairs


_WIDTHS = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2}
_WIDTHS |= {"float32": 4, "int32": 4, "int8": 1, "uint8": 1, "bool": 1}


def _place(look):
    """Where a window's elements lie, whatever they are."""
    sizes, strides, offset, dtype = look
    return sizes, strides, offset, _WIDTHS.get(dtype)
