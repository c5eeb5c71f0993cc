"""Recorded launches of kernels: what ran inside of an operator, and on which threads."""

import bisect
from typing import NamedTuple

from rushlight.runtime.cpu.code_cache import by_address


class KernelSpan(NamedTuple):
    """One launch, or what a thread of the pool did of it.

    Args:
        name: the kernel's; where it has none, it is told by the event around it.
        start_ns, end_ns: when it ran, on the clock of events.
        owner: Python's number of the thread that launched it.
        thread: the system's number of the worker that ran; 0: the launching thread.
        worker: the worker's number; 0 of the launch itself.
        size: the length of a launch, or the chunks that a worker took.
        event: the innermost event around the launch, or None.
        launch: of a worker, the place of the launch in the list.
    """

    name: str
    start_ns: int
    end_ns: int
    owner: int
    thread: int
    worker: int
    size: int
    event: object
    launch: int | None


def kernels_of(rows, events):
    """The launches of a recording in the order in which they began.

    Args:
        rows: what `rushlight.core.spans.kernels` gave.
        events: the recording's events, in the order in which they began.
    """
    around = _Around(events)
    found: list = []
    last: dict = {}  # thread -> place of its last launch
    for row in sorted(rows, key=lambda row: (row[0], row[6])):
        start, end, owner, thread, size, address, worker = row
        launch = last.get(owner) if worker else None
        event = found[launch].event if launch is not None else around.at(start)
        kernel = by_address.get(address)
        name = kernel.name if kernel is not None else None
        if launch is not None and found[launch].end_ns < start:
            launch = None  # the launch was left out, for want of room
        if not worker:
            last[owner] = len(found)
        if name is None:
            name = "kernel" if event is None else f"kernel in {event.name}"
        found.append(
            KernelSpan(name, start, end, owner, thread, worker, size, event, launch)
        )
    return found


class _Around:
    """The innermost event around a moment."""

    def __init__(self, events):
        self.events = [e for e in events if e.end_ns > e.start_ns]
        self.starts = [e.start_ns for e in self.events]

    def at(self, moment):
        place = bisect.bisect_right(self.starts, moment) - 1
        event = self.events[place] if place >= 0 else None
        while event is not None and event.end_ns <= moment:
            event = event.cpu_parent
        return event
