"""From a path to a program: the passes in their order."""

from __future__ import annotations

from rushlight.programs import logs
from rushlight.programs.program import Program
from rushlight.programs.program import Step as Turn
from rushlight.programs.steps import FRESH, Graph, last_uses


def build(leaf, wanted, name):
    """The program of a path that ends in a call.

    Args:
        leaf: the last call.
        wanted: what is wanted of each storage; see `Graph`.
        name: the function's, for the logs.
    """
    graph = Graph.of(leaf, wanted)
    if logs.graph.active:
        logs.graph.say(f"{name}:\n{graph}")
    graph.drop_unused()
    program = planned(graph, [alone(step) for step in graph.steps])
    return program


class Item:
    """One turn of a program before memory is planned: what it touches.

    Attributes:
        turn: the compiled step.
        touches: numbers of the storages that it reads or writes.
        asks: those that it wants memory for.
    """

    def __init__(self, turn, touches, asks=()):
        self.turn, self.touches, self.asks = turn, touches, asks


def alone(step):
    """A step that runs its operator."""
    windows = [value.slot for value in step.reads]
    made = [value.slot for kind, value in step.call.results if kind == FRESH]
    return Item(Turn(step.call, step), [*windows, *made])


def planned(graph, items):
    """The program, with memory let go of after its last use."""
    turns = []
    uses = last_uses([item.touches for item in items])
    for item, last in zip(items, uses, strict=True):
        item.turn.asked.extend(item.asks)
        item.turn.freed.extend(slot for slot in last if graph.wanted[slot] != 2)
        turns.append(item.turn)
    return Program(turns, graph)
