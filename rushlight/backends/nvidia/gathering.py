"""Elementwise launches of one kernel over several tensors, put together into one.

An operator over a list of tensors runs its operator on every tensor, and so on a card one
launch after the other. Inside of a `Gathered` block they wait: launches of one kernel, with
the same numbers, over tensors whose elements lie one step apart, become one
(`DeviceKernel.run_lists`). A launch that does not fit goes after those that wait, and so
does whatever else asks for the queue. Memory that is let go meanwhile is given back
afterwards: nothing that waits reads what is another tensor's by then.
"""

from __future__ import annotations

import bisect
import threading

from rushlight.backends.nvidia import contexts

_thread = threading.local()


def current():
    """The block that this thread is in, or None."""
    return getattr(_thread, "block", None)


def flush():
    """Launches what waits in this thread."""
    block = current()
    if block is not None:
        block.flush()


class Gathered:
    """A block for operators of one result each: the first operand is what they write."""

    def __init__(self):
        self.key = None
        self.waiting: list = []
        self.later: list = []  # memory to give back: device and address
        self.outer = None
        self.forget()

    def forget(self):
        """Nothing waits."""
        self.waiting.clear()
        self.written: list = []  # spans of addresses, in order
        self.read: list = []
        self.longest = 0

    def __enter__(self):
        self.outer = current()
        if self.outer is None:
            _thread.block = self
        return self

    def __exit__(self, *raised):
        if self.outer is not None:
            return
        try:
            self.flush()
        finally:
            _thread.block = None
            for device, address in self.later:
                card = contexts.known(device.index)
                if card is not None:
                    card.allocator.free(address)

    def take(self, card, kernel, addresses, sizes, strides, numbers, total):
        """Has a launch wait; False where it cannot be one of many."""
        if len(sizes) != 1 or any(row and row[0] < 0 for row in strides):
            return False
        steps = tuple(None if row is None else row[0] for row in strides)
        key = card, kernel, steps, numbers, contexts.current_stream(card)
        spans = [
            (address, address + max(step * total, 16))
            for address, step in zip(addresses, steps, strict=True)
            if address is not None
        ]
        if key != self.key or self.meets(spans):
            self.flush()
            self.key = key
        self.waiting.append((addresses, total))
        bisect.insort(self.written, spans[0])
        for span in spans[1:]:
            bisect.insort(self.read, span)
        self.longest = max(self.longest, *(high - low for low, high in spans))
        return True

    def meets(self, spans):
        """Whether a launch reads what waits to be written, or writes what is used."""
        if self.crosses(self.read, spans[0]):
            return True
        return any(self.crosses(self.written, span) for span in spans)

    def crosses(self, known, span):
        """Whether a span has an address with one of a list's."""
        low, high = span
        place = bisect.bisect_left(known, (low - self.longest, 0))
        while place < len(known) and known[place][0] < high:
            if known[place][1] > low:
                return True
            place += 1
        return False

    def flush(self):
        """Launches what waits."""
        if not self.waiting:
            return
        waiting, (card, kernel, steps, numbers, _) = self.waiting[:], self.key
        self.forget()
        if len(waiting) == 1:
            addresses, total = waiting[0]
            rows = tuple(None if step is None else (step,) for step in steps)
            kernel.run_elements(card, addresses, (total,), rows, numbers, total)
            return
        lists, operands = [], []
        for k, step in enumerate(steps):
            operands.append(None if step is None else (len(lists), step))
            if step is not None:
                lists.append(tuple(addresses[k] for addresses, _ in waiting))
        counts = tuple(total for _, total in waiting)
        kernel.run_lists(card, tuple(operands), lists, counts, numbers)
