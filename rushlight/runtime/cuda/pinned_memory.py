"""Host memory that devices copy from and to by themselves.

The driver takes long to lock memory, so blocks are kept, in sizes of powers of two. One
that a queue still copies from or to, when it is given back, waits for an event there.
"""

import bisect
import threading

from rushlight.runtime.cuda import contexts, driver
from rushlight.runtime.cuda.memory_stats import Figure, figures_of
from rushlight.runtime.cuda.streams import Event

PORTABLE = 1  # every device may use it
LEAST = 512

_lock = threading.RLock()
_free: dict = {}  # by size
_sizes: dict = {}  # those given out, by address
_starts: list = []  # their addresses, sorted
_used: dict = {}  # by address: queues that copy from or to it
_waiting: list = []  # (events, address, size)
_figures = {
    name: Figure() for name in ("allocation", "allocated_bytes", "active_bytes")
}


def allocate(n_bytes):
    """The address of locked memory.

    Raises:
        OutOfMemoryError: no more can be locked.
    """
    if n_bytes <= 0:
        return 0
    size = max(LEAST, 1 << (int(n_bytes) - 1).bit_length())
    with _lock:
        look_at_events()
        free = _free.get(size)
        if free:
            address = free.pop()
        else:
            code, values = contexts.ctx().ask("cuMemHostAlloc", size, PORTABLE)
            if code == driver.OUT_OF_MEMORY and _free:
                release_idle()
                code, values = contexts.ctx().ask("cuMemHostAlloc", size, PORTABLE)
            if code:
                driver.load().refuse(code, "cuMemHostAlloc")
            address = int(values[0])
            _figures["allocation"].change(1)
            _figures["allocated_bytes"].change(size)
        _sizes[address] = size
        bisect.insort(_starts, address)
        _figures["active_bytes"].change(size)
        return address


def used_by(address, stream):
    """A queue copies from or to a block: it is not free before that is done."""
    with _lock:
        block = block_of(address)
        if block is not None:
            _used.setdefault(block, set()).add(stream)


def block_of(address):
    """Where the block begins that an address lies in; None where none was given out."""
    with _lock:
        at = bisect.bisect_right(_starts, address) - 1
        if at < 0 or address >= _starts[at] + _sizes[_starts[at]]:
            return None
        return _starts[at]


def free(address):
    """Gives a block back."""
    with _lock:
        size = _sizes.pop(address, None)
        if size is None:
            return
        del _starts[bisect.bisect_left(_starts, address)]
        _figures["active_bytes"].change(-size)
        users = _used.pop(address, ())
        if users:
            events = [Event(stream.ctx).record(stream) for stream in users]
            _waiting.append((events, address, size))
        else:
            _free.setdefault(size, []).append(address)


def look_at_events():
    """Frees the blocks whose copies are done."""
    still = []
    for events, address, size in _waiting:
        if all(event.query() for event in events):
            _free.setdefault(size, []).append(address)
        else:
            still.append((events, address, size))
    _waiting[:] = still


def release_idle():
    """Gives the blocks that nobody uses back to the system."""
    with _lock:
        look_at_events()
        while _free:
            size, addresses = _free.popitem()
            for address in addresses:
                contexts.ctx().call("cuMemFreeHost", address)
                _figures["allocation"].change(-1)
                _figures["allocated_bytes"].change(-size)


def figures():
    """What is locked, as dictionaries in dictionaries."""
    return {name: figures_of(figure) for name, figure in _figures.items()}


def forget():
    """Lets go of every block: for tests, which put another driver in place."""
    with _lock:
        for table in (_free, _sizes, _starts, _used, _waiting):
            table.clear()
        for name in _figures:
            _figures[name] = Figure()
