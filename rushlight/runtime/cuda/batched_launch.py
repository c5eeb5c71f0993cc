"""Elementwise launches of one kernel over several tensors, put together into one.

An operator over a list of tensors runs its operator on every tensor, and an optimizer its
steps on every parameter: on a device one launch after the other. Inside of a `Gathered` block
they wait in groups: launches of one kernel, with the same numbers, over tensors whose
elements lie one step apart, become one (`DeviceKernel.run_lists`). A launch joins a group
where nothing that waits behind it touches the same memory, else it begins a group of its
own; copies wait among them. What cannot wait goes after all that waits, and so does whatever
else asks for the queue. Memory that is let go meanwhile is given back once nothing waits:
nothing that waits reads what is another tensor's by then.
"""

import bisect
import threading

from rushlight.runtime.cuda import contexts, launch


class Gathering(threading.local):
    """The block that a thread is in, or None."""

    block = None


_thread = Gathering()


def current():
    """The block that this thread is in, or None."""
    return _thread.block


def flush():
    """Launches what waits in this thread."""
    block = current()
    if block is not None:
        block.flush()


MOST_GROUPS = 64  # that wait
MOST_BYTES = 1 << 28  # of memory that waits to be given back


class Group:
    """Launches that become one.

    Args:
        key: what they have in common.
    """

    def __init__(self, key):
        self.key = key
        self.waiting: list = []
        self.written: list = []  # spans of addresses, in order
        self.read: list = []
        self.longest = 0

    def add(self, addresses, total, spans):
        """One more launch."""
        self.waiting.append((addresses, total))
        bisect.insort(self.written, spans[0])
        for span in spans[1:]:
            bisect.insort(self.read, span)
        self.longest = max(self.longest, *(high - low for low, high in spans))

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

    def launch(self):
        """Runs what waits."""
        ctx, kernel, steps, numbers, stream = self.key
        if kernel is None:
            for (target, source), n_bytes in self.waiting:
                ctx.call("cuMemcpyAsync", target, source, n_bytes, stream.handle)
            return
        if len(self.waiting) == 1:
            addresses, total = self.waiting[0]
            rows = tuple(None if step is None else (step,) for step in steps)
            kernel.run_elements(ctx, addresses, (total,), rows, numbers, total)
            return
        lists, operands = [], []
        for k, step in enumerate(steps):
            operands.append(None if step is None else (len(lists), step))
            if step is not None:
                lists.append(tuple(addresses[k] for addresses, _ in self.waiting))
        counts = tuple(total for _, total in self.waiting)
        kernel.run_lists(ctx, tuple(operands), lists, counts, numbers)


class Gathered:
    """A block for operators of one result each: the first operand is what they write."""

    def __init__(self):
        self.groups: list = []  # in the order in which they run
        self.later: list = []  # memory to give back: device and address
        self.held = 0  # how many bytes that is
        self.outer = None

    def __enter__(self):
        self.outer = current()
        if self.outer is None:
            _thread.block = self
            launch.gather(True)
        return self

    def __exit__(self, *raised):
        if self.outer is not None:
            return
        try:
            self.flush()
        finally:
            _thread.block = None
            launch.gather(False)

    def take(self, ctx, kernel, addresses, sizes, strides, numbers, total):
        """Has a launch wait; False where it cannot be one of many."""
        if len(sizes) != 1 or any(row and row[0] < 0 for row in strides):
            return False
        steps = tuple(None if row is None else row[0] for row in strides)
        key = ctx, kernel, steps, numbers, contexts.current_stream(ctx)
        spans = [
            (address, address + max(step * total, 16))
            for address, step in zip(addresses, steps, strict=True)
            if address is not None
        ]
        self.group_for(key, spans).add(addresses, total, spans)
        return True

    def take_copy(self, ctx, target, source, n_bytes):
        """Has bytes that are copied on a device wait."""
        key = ctx, None, None, None, contexts.current_stream(ctx)
        spans = [(target, target + n_bytes), (source, source + n_bytes)]
        self.group_for(key, spans).add((target, source), n_bytes, spans)

    def group_for(self, key, spans):
        """The first group that a launch may join, or a new one.

        The first: what follows on it finds the groups that follow on that.
        """
        found = None
        for group in reversed(self.groups):
            if group.meets(spans):
                break
            if group.key == key:
                found = group
        if found is not None:
            return found
        if len(self.groups) == MOST_GROUPS:
            self.flush()
        self.groups.append(Group(key))
        return self.groups[-1]

    def give_back(self, device, address, n_bytes):
        """Lets go of memory once nothing waits."""
        self.later.append((device, address))
        self.held += n_bytes
        if self.held > MOST_BYTES:
            self.flush()

    def flush(self):
        """Launches what waits, group by group, and gives memory back."""
        groups, self.groups = self.groups, []
        try:
            for group in groups:
                group.launch()
        finally:
            later, self.later, self.held = self.later, [], 0
            for device, address in later:
                ctx = contexts.known(device.index)
                if ctx is not None:
                    ctx.allocator.free(address)
