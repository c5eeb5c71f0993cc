"""Memory of a card, kept for the next one who asks.

The driver's own allocation waits for the whole card. So memory is taken in *segments*,
cut into *blocks*, and a block that is given back goes to the free list of the queue that
it was used on: work of that queue is done in order, and what comes later may use the
block at once. Another queue that used it is waited for, by an event, before the block is
free (`Allocator.used_by`).

Small requests, up to 1 MiB, come out of segments of 2 MiB; those below 10 MiB out of
segments of 20 MiB; the rest have segments of their own. Sizes, figures and their names
are those of PyTorch's allocator, so that a program's accounts agree.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import threading

from rushlight.core.errors import OutOfMemoryError
from rushlight.runtime.cuda import driver
from rushlight.runtime.cuda.memory_stats import Statistics
from rushlight.runtime.cuda.streams import Event

UNIT = 512
SMALL = 1 << 20  # requests up to here are small
SMALL_SEGMENT = 2 << 20
MIDDLE = 10 << 20  # requests below here share segments
MIDDLE_SEGMENT = 20 << 20
ROUND_LARGE = 2 << 20
RELAXED = 2  # the driver's mode in which a thread may do anything during a capture
GENERAL = (0, 0)  # the pool of those who name none


class Block:
    """A part of a segment."""

    __slots__ = (
        *("address", "size", "asked", "pool", "stream", "segment"),
        *("before", "after", "taken", "users", "waits"),
    )

    def __init__(self, address, size, pool, stream, segment):
        self.address = address
        self.size = size
        self.asked = 0  # bytes, before rounding
        self.pool = pool
        self.stream = stream  # the handle of the queue that it is used on
        self.segment = segment
        self.before = self.after = None  # the segment's neighbouring parts
        self.taken = False
        self.users: set = set()  # other queues that use it
        self.waits = 0  # events that it waits for before it is free


class Segment:
    """A run of memory that the driver gave."""

    __slots__ = ("address", "first", "pool", "size", "stream")

    def __init__(self, address, size, pool, stream):
        self.address = address
        self.size = size
        self.pool = pool
        self.stream = stream
        self.first = Block(address, size, pool, stream, self)

    def blocks(self):
        """Its parts in order."""
        block = self.first
        while block is not None:
            yield block
            block = block.after


class Pool:
    """Free blocks of one kind, by queue, smallest first."""

    def __init__(self, small, name):
        self.small = small
        self.name = name  # GENERAL, or that of a graph's or user's own memory
        self.rows: dict = {}  # by queue: (size, address), sorted
        self.blocks: dict = {}  # by address

    def add(self, block):
        """One more free block."""
        rows = self.rows.setdefault(block.stream, [])
        bisect.insort(rows, (block.size, block.address))
        self.blocks[block.address] = block

    def remove(self, block):
        """Takes a block out."""
        rows = self.rows[block.stream]
        del rows[bisect.bisect_left(rows, (block.size, block.address))]
        del self.blocks[block.address]

    def best(self, stream, size, limit):
        """The smallest free block of at least a size, taken out; None if there is none.

        Blocks of ``limit`` bytes or more are not cut: only requests of about their size
        get them.
        """
        rows = self.rows.get(stream)
        if not rows:
            return None
        at = bisect.bisect_left(rows, (size, 0))
        if at == len(rows):
            return None
        found, address = rows[at]
        if size < limit <= found:
            return None
        if size >= limit and found >= size + MIDDLE_SEGMENT:
            return None
        del rows[at]
        return self.blocks.pop(address)

    def whole(self):
        """The free blocks that are segments."""
        return [b for b in self.blocks.values() if b.size == b.segment.size]


class Turn:
    """One thread at a time; what is given back meanwhile is given back at the end.

    Python may collect garbage anywhere, and with it tensors: a block that comes back in
    the middle of an allocation has to wait until the lists are whole again.
    """

    def __init__(self, owner):
        self.owner = owner
        self.lock = threading.RLock()
        self.depth = 0
        self.late: list = []

    def __enter__(self):
        self.lock.acquire()
        self.depth += 1

    def __exit__(self, *raised):
        try:
            while self.depth == 1 and self.late:
                self.owner.give_back(self.late.pop())
        finally:
            self.depth -= 1
            self.lock.release()


class Settings:
    """What ``PYTORCH_CUDA_ALLOC_CONF`` says.

    Args:
        text: entries ``name:value`` with commas between them.

    Raises:
        ValueError: an entry is unknown or its value is not sensible.
    """

    IGNORED = (
        *("backend", "expandable_segments", "release_lock_on_cudamalloc"),
        *("pinned_use_cuda_host_register", "pinned_num_register_threads"),
        "pinned_use_background_threads",
    )

    def __init__(self, text=""):
        self.largest_cut = 1 << 62  # free blocks from here on are not cut
        self.collect_from = 0.0  # the share of the cap from which idle memory goes back
        self.divisions = 0  # steps between powers of two that sizes are rounded to
        for entry in filter(None, (part.strip() for part in text.split(","))):
            name, colon, value = (part.strip() for part in entry.partition(":"))
            if not colon:
                raise ValueError(f"Unrecognized CUDA allocator option: {entry!r}")
            self.set(name, value)

    def set(self, name, value):
        """Takes one entry."""
        if name == "max_split_size_mb":
            if int(value) <= MIDDLE_SEGMENT >> 20:
                raise ValueError(
                    f"CachingAllocator option max_split_size_mb too small: {value}, must "
                    f"be > {MIDDLE_SEGMENT >> 20}"
                )
            self.largest_cut = int(value) << 20
        elif name == "garbage_collection_threshold":
            self.collect_from = float(value)
            if not 0 < self.collect_from < 1:
                raise ValueError(
                    f"garbage_collection_threshold must be in (0, 1), not {value}"
                )
        elif name == "roundup_power2_divisions":
            self.divisions = int(value)
            if self.divisions < 0 or self.divisions & (self.divisions - 1):
                raise ValueError(
                    "For roundups, the divisions has to be power of 2 or 0 to disable "
                    f"roundup: roundup_power2_divisions is {value}"
                )
        elif name not in self.IGNORED:
            raise ValueError(f"Unrecognized CUDA allocator option: {name}")

    def rounded(self, n_bytes):
        """The size of the block for a request."""
        if self.divisions > 1 and n_bytes > UNIT * self.divisions:
            step = (1 << (n_bytes.bit_length() - 1)) // self.divisions
            if n_bytes & (n_bytes - 1):
                return -(-n_bytes // step) * step
            return n_bytes
        return max(-(-n_bytes // UNIT) * UNIT, UNIT)


class Allocator:
    """The memory of one card.

    Args:
        card: whose memory it is.
    """

    def __init__(self, card):
        self.card = card
        self.turn = Turn(self)
        text = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        self.settings = Settings(os.environ.get("PYTORCH_ALLOC_CONF", text))
        self.statistics = Statistics()
        self.pools = {GENERAL: (Pool(True, GENERAL), Pool(False, GENERAL))}
        self.segments: dict = {}
        self.blocks: dict = {}  # those that are taken, by address
        self.waiting: dict = {}  # by queue: events and the blocks that wait for them
        self.idle: list = []  # events to be used again
        self.held: list = []  # blocks given back while a graph is being written down
        self.writing = 0  # graphs that are being written down
        self.routes: list = []  # (pool's name, whether a queue's requests go there)
        self.holders: dict = {}  # how often a pool of somebody's own is in use
        self.share = 1.0  # of the card's memory that may be taken
        self.limit = None  # the same in bytes, when it is known

    # -- asking and giving back ---------------------------------------------------------

    def allocate(self, n_bytes, stream=None):
        """The address of memory that the queue's next work may use.

        Args:
            n_bytes: how much; 0 is address 0.
            stream: the handle of a queue, 0 for the one that the card begins with.

        Raises:
            OutOfMemoryError: neither the card nor the cap has room, even after all that
                is kept was given back.
        """
        if n_bytes <= 0:
            return 0
        stream = stream or 0
        with self.turn:
            if self.waiting and not self.capturing():
                self.look_at_events()
            size = self.settings.rounded(n_bytes)
            pool = self.pool_for(size, stream)
            block = self.find(pool, size, stream)
            if block is None:
                block = self.take_segment(pool, size, stream, n_bytes)
            if self.may_cut(block, size):
                self.cut(block, size)
            block.taken = True
            block.asked = n_bytes
            self.blocks[block.address] = block
            self.count(block, 1)
            return block.address

    def free(self, address):
        """Gives memory back.

        Raises:
            RuntimeError: nothing was given out at this address.
        """
        if not address:
            return
        with self.turn:
            if self.turn.depth > 1:
                self.turn.late.append(address)
            else:
                self.give_back(address)

    def give_back(self, address):
        """Gives memory back, when it is this thread's turn."""
        block = self.blocks.pop(address, None)
        if block is None:
            raise RuntimeError(f"Invalid device pointer: {address:#x}")
        block.taken = False
        small = block.pool.small
        change = self.statistics.change
        change("allocation", small, -1)
        change("allocated_bytes", small, -block.size)
        if block.size >= self.settings.largest_cut:
            self.statistics.alone["oversize_allocations"].change(-1)
        if not block.users:
            self.settle(block)
        elif self.capturing():
            self.held.append(block)
        else:
            self.wait_for_users(block)

    def used_by(self, address, stream):
        """Another queue uses a block: it is not free before that queue's work is done."""
        with self.turn:
            block = self.blocks.get(address)
            if block is not None and block.stream != stream.handle:
                block.users.add(stream)

    def users_of(self, address):
        """The other queues that use a block, which whoever asks waits for."""
        with self.turn:
            block = self.blocks.get(address)
            if block is None:
                return set()
            found, block.users = block.users, set()
            return found

    def pool_for(self, size, stream):
        """Where a request is served from."""
        name = GENERAL
        for owner, wants in self.routes:
            if wants(stream):
                name = owner
                break
        return self.pools[name][0 if size <= SMALL else 1]

    def find(self, pool, size, stream):
        """A free block for a size; None if there is none."""
        block = pool.best(stream, size, self.settings.largest_cut)
        if block is not None and (block.before or block.after):
            self.statistics.change("inactive_split", pool.small, -1)
            self.statistics.change("inactive_split_bytes", pool.small, -block.size)
        return block

    def may_cut(self, block, size):
        """Whether what remains of a block is worth keeping."""
        rest = block.size - size
        if block.pool.small:
            return rest >= UNIT
        return size < self.settings.largest_cut and rest > SMALL

    def cut(self, block, size):
        """Makes a free block of what a request leaves."""
        rest = Block(
            block.address + size,
            block.size - size,
            block.pool,
            block.stream,
            block.segment,
        )
        rest.before, rest.after = block, block.after
        if rest.after is not None:
            rest.after.before = rest
        block.after = rest
        block.size = size
        block.pool.add(rest)
        self.statistics.change("inactive_split", block.pool.small, 1)
        self.statistics.change("inactive_split_bytes", block.pool.small, rest.size)

    def count(self, block, sign):
        """Counts a block that was taken."""
        small = block.pool.small
        change = self.statistics.change
        change("allocation", small, sign)
        change("allocated_bytes", small, sign * block.size)
        change("active", small, sign)
        change("active_bytes", small, sign * block.size)
        change("requested_bytes", small, sign * block.asked)
        if block.size >= self.settings.largest_cut:
            self.statistics.alone["oversize_allocations"].change(sign)

    def settle(self, block):
        """Puts a block among the free ones, joined with its free neighbours."""
        small = block.pool.small
        change = self.statistics.change
        change("active", small, -1)
        change("active_bytes", small, -block.size)
        change("requested_bytes", small, -block.asked)
        for neighbour in (block.before, block.after):
            if neighbour is not None and self.is_free(neighbour):
                block.pool.remove(neighbour)
                change("inactive_split", small, -1)
                change("inactive_split_bytes", small, -neighbour.size)
                join(block, neighbour)
        block.pool.add(block)
        if block.before is not None or block.after is not None:
            change("inactive_split", small, 1)
            change("inactive_split_bytes", small, block.size)

    @staticmethod
    def is_free(block):
        """Whether a block waits for somebody to ask for it."""
        return not block.taken and not block.waits and not block.users

    # -- segments -----------------------------------------------------------------------

    def take_segment(self, pool, size, stream, n_bytes):
        """A new segment's only block; idle memory goes back to the driver if it must."""
        if size <= SMALL:
            total = SMALL_SEGMENT
        elif size < MIDDLE:
            total = MIDDLE_SEGMENT
        else:
            total = -(-size // ROUND_LARGE) * ROUND_LARGE
        if self.settings.collect_from and self.limit is not None:
            self.collect(total)
        address = self.ask_driver(total)
        if address is None and not self.capturing():
            self.statistics.events["num_alloc_retries"] += 1
            self.release_idle()
            address = self.ask_driver(total)
        if address is None:
            self.statistics.events["num_ooms"] += 1
            self.refuse(total, n_bytes)
        segment = Segment(address, total, pool, stream)
        self.segments[address] = segment
        self.statistics.change("segment", pool.small, 1)
        self.statistics.change("reserved_bytes", pool.small, total)
        if total >= self.settings.largest_cut:
            self.statistics.alone["oversize_segments"].change(1)
        return segment.first

    def ask_driver(self, total):
        """The address of new memory; None where the card or the cap has no room."""
        if self.share < 1.0:
            if self.limit is None:
                self.limit = int(self.share * self.card.memory()[1])
            if self.statistics.current("reserved_bytes") + total > self.limit:
                return None
        with self.allowed_while_writing():
            code, values = self.card.ask("cuMemAlloc", total)
        if code == driver.OUT_OF_MEMORY:
            return None
        if code:
            self.card.driver.refuse(code, "cuMemAlloc")
        self.statistics.events["num_device_alloc"] += 1
        return int(values[0])

    @contextlib.contextmanager
    def allowed_while_writing(self):
        """Lets this thread ask for memory while a graph is being written down."""
        if not self.writing:
            yield
            return
        kind = self.card.driver.bindings.CUstreamCaptureMode
        before = self.card.call("cuThreadExchangeStreamCaptureMode", kind(RELAXED))
        try:
            yield
        finally:
            self.card.call("cuThreadExchangeStreamCaptureMode", before)

    def give_segment(self, block):
        """Gives a segment that is one free block back to the driver."""
        segment = block.segment
        self.card.call("cuMemFree", segment.address)
        block.pool.remove(block)
        del self.segments[segment.address]
        small = block.pool.small
        self.statistics.events["num_device_free"] += 1
        self.statistics.change("segment", small, -1)
        self.statistics.change("reserved_bytes", small, -segment.size)
        if segment.size >= self.settings.largest_cut:
            self.statistics.alone["oversize_segments"].change(-1)

    def release_idle(self):
        """Gives all segments that nobody uses back to the driver."""
        with self.turn:
            if self.capturing():
                return
            if self.waiting:
                self.look_at_events(wait=True)
            self.statistics.events["num_sync_all_streams"] += 1
            for name, pools in list(self.pools.items()):
                if name != GENERAL and self.holders.get(name):
                    continue
                for pool in pools:
                    for block in pool.whole():
                        self.give_segment(block)
                if name != GENERAL and not any(
                    segment.pool.name == name for segment in self.segments.values()
                ):
                    del self.pools[name]

    def collect(self, total):
        """Gives idle segments back where the cap comes near, the largest first."""
        aim = int(self.settings.collect_from * self.limit)
        reserved = self.statistics.current("reserved_bytes")
        if reserved + total <= aim:
            return
        whole = self.pools[GENERAL][1].whole()
        for block in sorted(whole, key=lambda block: -block.size):
            if self.statistics.current("reserved_bytes") + total <= aim:
                break
            self.card.call("cuStreamSynchronize", block.stream)
            self.give_segment(block)

    def refuse(self, total, n_bytes):
        """Raises with the allocator's state."""
        free, whole = self.card.memory()
        taken = self.statistics.current("allocated_bytes")
        reserved = self.statistics.current("reserved_bytes")
        cap = ""
        if self.share < 1.0:
            cap = f" {amount(self.limit)} allowed;"
        lines = [
            f"CUDA out of memory. Tried to allocate {amount(total)}. GPU "
            f"{self.card.index} has a total capacity of {amount(whole)} of which "
            f"{amount(free)} is free.{cap} Of the allocated memory {amount(taken)} is "
            f"allocated by tensors, and {amount(reserved - taken)} is reserved but "
            "unallocated.",
            f"  asked for: {n_bytes} bytes",
        ]
        if reserved - taken > total:
            lines.append(
                "  What is reserved is in pieces: PYTORCH_CUDA_ALLOC_CONF="
                "max_split_size_mb:N keeps large blocks whole."
            )
        lines.append(
            "  remedy: a smaller batch, or cuda.empty_cache() for other programs"
        )
        raise OutOfMemoryError("\n".join(lines))

    # -- several queues -------------------------------------------------------------------

    def wait_for_users(self, block):
        """Puts an event into each queue that uses a block."""
        users, block.users = block.users, set()
        for stream in users:
            event = self.idle.pop() if self.idle else Event()
            if event.card is not stream.card and event.card is not None:
                event = Event()
            event.record(stream)
            block.waits += 1
            self.waiting.setdefault(stream.handle, []).append((event, block))

    def look_at_events(self, wait=False):
        """Frees the blocks whose events have come."""
        for handle, rows in list(self.waiting.items()):
            done = 0
            for event, block in rows:
                if wait:
                    event.synchronize()
                elif not event.query():
                    break
                done += 1
                self.idle.append(event)
                block.waits -= 1
                if not block.waits:
                    self.settle(block)
            del rows[:done]
            if not rows:
                del self.waiting[handle]

    # -- pools of somebody's own ----------------------------------------------------------

    def capturing(self):
        """Whether a graph is being written down, during which nothing may be waited for."""
        return self.writing > 0

    def begin(self, name, wants):
        """Serves requests of some queues from a pool of their own from now on.

        Args:
            name: a pair of integers, not both 0.
            wants: whether requests of a queue, given by its handle, go there.
        """
        with self.turn:
            if name not in self.pools:
                self.pools[name] = (Pool(True, name), Pool(False, name))
            self.holders[name] = self.holders.get(name, 0) + 1
            if any(owner == name for owner, _ in self.routes):
                self.holders[name] -= 1
                raise RuntimeError(f"requests already go to the pool {name}")
            self.routes.insert(0, (name, wants))

    def end(self, name):
        """Serves those requests as before."""
        with self.turn:
            self.routes = [route for route in self.routes if route[0] != name]
            if not self.capturing():
                held, self.held = self.held, []
                for block in held:
                    self.wait_for_users(block)

    def let_go(self, name):
        """One holder less: the last one's memory goes back when it is asked for."""
        with self.turn:
            if self.holders.get(name, 0) > 0:
                self.holders[name] -= 1

    def hold(self, name):
        """One holder more of a pool."""
        with self.turn:
            self.holders[name] = self.holders.get(name, 0) + 1

    @contextlib.contextmanager
    def route(self, name, wants):
        """A block whose requests go to a pool of its own."""
        self.begin(name, wants)
        try:
            yield
        finally:
            self.end(name)
            self.let_go(name)

    # -- telling --------------------------------------------------------------------------

    def cap(self, share):
        """Allows a share of the card's memory, from 0 to 1."""
        with self.turn:
            self.share = float(share)
            self.limit = int(self.share * self.card.memory()[1])

    def snapshot(self):
        """What is in every segment, in order of address."""
        with self.turn:
            return [
                segment_told(self.card.index, self.segments[address])
                for address in sorted(self.segments)
            ]


def join(block, neighbour):
    """Adds a free neighbour to a block."""
    if neighbour is block.before:
        block.address = neighbour.address
        block.before = neighbour.before
        if block.before is not None:
            block.before.after = block
        else:
            block.segment.first = block
    else:
        block.after = neighbour.after
        if block.after is not None:
            block.after.before = block
    block.size += neighbour.size


def segment_told(device, segment):
    """A segment as PyTorch's ``memory_snapshot`` tells it."""
    blocks = []
    for block in segment.blocks():
        if block.taken:
            state = "active_allocated"
        elif block.waits or block.users:
            state = "active_pending_free"
        else:
            state = "inactive"
        blocks.append(
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.asked if state != "inactive" else 0,
                "state": state,
                "frames": [],
            }
        )
    active = [b for b in blocks if b["state"] != "inactive"]
    return {
        "device": device,
        "address": segment.address,
        "total_size": segment.size,
        "allocated_size": sum(
            b["size"] for b in blocks if b["state"] == "active_allocated"
        ),
        "active_size": sum(b["size"] for b in active),
        "requested_size": sum(b["requested_size"] for b in active),
        "stream": segment.stream,
        "segment_type": "small" if segment.pool.small else "large",
        "segment_pool_id": segment.pool.name,
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def amount(n_bytes):
    """A number of bytes as people read it.

    >>> amount(3 << 20)
    '3.00 MiB'
    """
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n_bytes >= size:
            return f"{n_bytes / size:.2f} {unit}"
    return f"{n_bytes} bytes"
