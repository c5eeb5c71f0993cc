"""Memory of a device, kept for the next one who asks.

The driver's own allocation waits for the whole device. So memory is taken in *segments*,
cut into *blocks*, and a block that is given back goes to the free list of the queue that
it was used on: work of that queue is done in order, and what comes later may use the
block at once. Another queue that used it is waited for, by an event, before the block is
free (`Allocator.used_by`).

Small requests, up to 1 MiB, come out of segments of 2 MiB; those below 10 MiB out of
segments of 20 MiB; the rest have segments of their own. Sizes, figures and their names
are those of PyTorch's allocator, so that a program's accounts agree.
"""

from __future__ import annotations

import os
import sys
import threading

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.rushlight.runtime.cuda.blocks import (
    MIDDLE,
    MIDDLE_SEGMENT,
    ROUND_LARGE,
    SMALL,
    SMALL_SEGMENT,
    UNIT,
    Block,
    Pool,
    Segment,
)
from cython.cimports.rushlight.runtime.cuda.memory_stats import (
    ACTIVE,
    ACTIVE_BYTES,
    ALLOCATED_BYTES,
    ALLOCATIONS,
    INACTIVE_SPLIT_BYTES,
    INACTIVE_SPLITS,
    REQUESTED_BYTES,
    RESERVED_BYTES,
    SEGMENTS,
    Statistics,
)

from rushlight.core.errors import OutOfMemoryError
from rushlight.runtime.cuda.memory_settings import Settings

RELAXED = 2  # the driver's mode in which a thread may do anything during a capture
GENERAL = (0, 0)  # the pool of those who name none


@cython.final
@cython.cclass
class DeferredLock:
    """One thread at a time; what is given back meanwhile is given back at the end.

    Python may collect garbage anywhere, and with it tensors: a block that comes back in
    the middle of an allocation has to wait until the lists are whole again.
    """

    def __init__(self, owner):
        self.owner = owner
        self.lock = threading.RLock()
        self.acquire, self.release = self.lock.acquire, self.lock.release
        self.depth = 0
        self.late = []

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def enter(self) -> cython.int:
        """Begins a turn, or one inside of this thread's."""
        self.acquire()
        self.depth += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def leave(self) -> cython.int:
        """Ends it."""
        try:
            while self.depth == 1 and self.late:
                self.owner.give_back(self.late.pop())
        finally:
            self.depth -= 1
            self.release()
        return 0

    def __enter__(self):
        self.enter()

    def __exit__(self, *raised):
        self.leave()


@cython.cclass
class Allocator:
    """The memory of one device.

    Args:
        device: whose memory it is.
    """

    def __init__(self, ctx):
        self.ctx = ctx
        self.guard = DeferredLock(self)
        text = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        self.settings = Settings(os.environ.get("PYTORCH_ALLOC_CONF", text))
        self.largest_cut = self.settings.largest_cut
        self.evenly = self.settings.divisions <= 1
        self.statistics = Statistics()
        self.pools = {GENERAL: (Pool(True, GENERAL), Pool(False, GENERAL))}
        self.segments = {}
        self.blocks = {}
        self.waiting = {}
        self.idle = []
        self.held = []
        self.writing = 0
        self.routes = []
        self.holders = {}
        self.share = 1.0
        self.limit = None

    # -- asking and giving back ---------------------------------------------------------

    def allocate(self, n_bytes: int64_t, stream=None):
        """The address of memory that the queue's next work may use.

        Args:
            n_bytes: how much; 0 is address 0.
            stream: the handle of a queue, 0 for the one that the device begins with.

        Raises:
            OutOfMemoryError: neither the device nor the cap has room, even after all that
                is kept was given back.
        """
        return self.take(n_bytes, stream or 0) if n_bytes > 0 else 0

    @cython.cfunc
    @cython.exceptval(0, check=True)
    def take(self, n_bytes: int64_t, stream: object) -> uintptr_t:
        """The same of more than nothing."""
        self.guard.enter()
        try:
            return self.take_block(n_bytes, stream).address
        finally:
            self.guard.leave()

    @cython.cfunc
    def take_block(self, n_bytes: int64_t, stream: object) -> Block:
        """The block of a request, when it is this thread's turn."""
        if self.waiting and not self.writing:
            self.look_at_events()
        size: int64_t
        if self.evenly:
            size = (n_bytes + UNIT - 1) // UNIT * UNIT
        else:
            size = self.settings.rounded(n_bytes)
        pool: Pool = self.pool_for(size, stream)
        block: Block = self.find(pool, size, stream)
        if block is None:
            block = self.take_segment(pool, size, stream, n_bytes)
        if self.may_cut(block, size):
            self.cut(block, size)
        block.taken = True
        block.asked = n_bytes
        self.blocks[block.address] = block
        self.count(block)
        return block

    def free(self, address: uintptr_t):
        """Gives memory back.

        Raises:
            RuntimeError: nothing was given out at this address.
        """
        if address:
            self.let_go_of(address)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def let_go_of(self, address: uintptr_t) -> cython.int:
        """The same of an address that is one."""
        self.guard.enter()
        try:
            if self.guard.depth > 1:
                self.guard.late.append(address)
            else:
                self.give_back(address)
        finally:
            self.guard.leave()
        return 0

    @cython.ccall
    def give_back(self, address: uintptr_t):
        """Gives memory back, when it is this thread's turn."""
        block: Block = self.blocks.pop(address, None)
        if block is None:
            raise RuntimeError(f"Invalid device pointer: {address:#x}")
        block.taken = False
        small: cython.bint = block.pool.small
        self.statistics.change(ALLOCATIONS, small, -1)
        self.statistics.change(ALLOCATED_BYTES, small, -block.size)
        if block.size >= self.largest_cut:
            self.statistics.alone["oversize_allocations"].change(-1)
        if block.users is None:
            self.settle(block)
        elif self.writing:
            self.held.append(block)
        elif not sys.is_finalizing():
            self.wait_for_users(block)

    def used_by(self, address: uintptr_t, stream):
        """Another queue uses a block: it is not free before that queue's work is done."""
        with self.guard:
            block: Block = self.blocks.get(address)
            if block is not None and block.stream != stream.handle:
                if block.users is None:
                    block.users = set()
                block.users.add(stream)

    def users_of(self, address: uintptr_t):
        """The other queues that use a block, which whoever asks waits for."""
        with self.guard:
            block: Block = self.blocks.get(address)
            if block is None or block.users is None:
                return set()
            found, block.users = block.users, None
            return found

    @cython.cfunc
    def pool_for(self, size: int64_t, stream: object) -> Pool:
        """Where a request is served from."""
        name = GENERAL
        if self.routes:
            for owner, wants in self.routes:
                if wants(stream):
                    name = owner
                    break
        pair: tuple = self.pools[name]
        return pair[0 if size <= SMALL else 1]

    @cython.cfunc
    def find(self, pool: Pool, size: int64_t, stream: object) -> Block:
        """A free block for a size; None if there is none."""
        block: Block = pool.best(stream, size, self.largest_cut)
        if block is not None and (block.before is not None or block.after is not None):
            self.statistics.change(INACTIVE_SPLITS, pool.small, -1)
            self.statistics.change(INACTIVE_SPLIT_BYTES, pool.small, -block.size)
        return block

    @cython.cfunc
    @cython.exceptval(check=False)
    def may_cut(self, block: Block, size: int64_t) -> cython.bint:
        """Whether what remains of a block is worth keeping."""
        rest: int64_t = block.size - size
        if block.pool.small:
            return rest >= UNIT
        return size < self.largest_cut and rest > SMALL

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def cut(self, block: Block, size: int64_t) -> cython.int:
        """Makes a free block of what a request leaves."""
        rest: Block = block.split(size)
        block.pool.add(rest)
        self.statistics.change(INACTIVE_SPLITS, block.pool.small, 1)
        self.statistics.change(INACTIVE_SPLIT_BYTES, block.pool.small, rest.size)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def count(self, block: Block) -> cython.int:
        """Counts a block that was taken."""
        small: cython.bint = block.pool.small
        self.statistics.change(ALLOCATIONS, small, 1)
        self.statistics.change(ALLOCATED_BYTES, small, block.size)
        self.statistics.change(ACTIVE, small, 1)
        self.statistics.change(ACTIVE_BYTES, small, block.size)
        self.statistics.change(REQUESTED_BYTES, small, block.asked)
        if block.size >= self.largest_cut:
            self.statistics.alone["oversize_allocations"].change(1)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def settle(self, block: Block) -> cython.int:
        """Puts a block among the free ones, joined with its free neighbours."""
        small: cython.bint = block.pool.small
        self.statistics.change(ACTIVE, small, -1)
        self.statistics.change(ACTIVE_BYTES, small, -block.size)
        self.statistics.change(REQUESTED_BYTES, small, -block.asked)
        self.take_in(block, block.before)
        self.take_in(block, block.after)
        block.pool.add(block)
        if block.before is not None or block.after is not None:
            self.statistics.change(INACTIVE_SPLITS, small, 1)
            self.statistics.change(INACTIVE_SPLIT_BYTES, small, block.size)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def take_in(self, block: Block, neighbour: Block) -> cython.int:
        """Joins a block with a neighbour, where that is one and free."""
        if neighbour is not None and neighbour.is_free():
            block.pool.remove(neighbour)
            self.statistics.change(INACTIVE_SPLITS, block.pool.small, -1)
            self.statistics.change(
                INACTIVE_SPLIT_BYTES, block.pool.small, -neighbour.size
            )
            block.join(neighbour)
        return 0

    # -- segments -----------------------------------------------------------------------

    def take_segment(self, pool: Pool, size: int64_t, stream, n_bytes):
        """A new segment's only block; idle memory goes back to the driver if it must."""
        if size <= SMALL:
            total = SMALL_SEGMENT
        elif size < MIDDLE:
            total = MIDDLE_SEGMENT
        else:
            total = (size + ROUND_LARGE - 1) // ROUND_LARGE * ROUND_LARGE
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
        segment: Segment = Segment(address, total, pool, stream)
        self.segments[address] = segment
        self.statistics.change(SEGMENTS, pool.small, 1)
        self.statistics.change(RESERVED_BYTES, pool.small, total)
        if total >= self.settings.largest_cut:
            self.statistics.alone["oversize_segments"].change(1)
        return segment.first

    def ask_driver(self, total):
        """The address of new memory; None where the device or the cap has no room."""
        if self.share < 1.0:
            if self.limit is None:
                self.limit = int(self.share * self.ctx.memory()[1])
            if self.statistics.current("reserved_bytes") + total > self.limit:
                return None
        code, values = self.ask_while_writing(total)
        if code == self.ctx.driver.OUT_OF_MEMORY:
            return None
        if code:
            self.ctx.driver.refuse(code, "cuMemAlloc")
        self.statistics.events["num_device_alloc"] += 1
        return int(values[0])

    def ask_while_writing(self, total):
        """The driver's answer while a graph is being written down, in which this thread
        may ask."""
        if not self.writing:
            return self.ctx.ask("cuMemAlloc", total)
        kind = self.ctx.driver.bindings.CUstreamCaptureMode
        before = self.ctx.call("cuThreadExchangeStreamCaptureMode", kind(RELAXED))
        try:
            return self.ctx.ask("cuMemAlloc", total)
        finally:
            self.ctx.call("cuThreadExchangeStreamCaptureMode", before)

    def give_segment(self, block: Block):
        """Gives a segment that is one free block back to the driver."""
        segment = block.segment
        self.ctx.call("cuMemFree", segment.address)
        block.pool.remove(block)
        del self.segments[segment.address]
        small = block.pool.small
        self.statistics.events["num_device_free"] += 1
        self.statistics.change(SEGMENTS, small, -1)
        self.statistics.change(RESERVED_BYTES, small, -segment.size)
        if segment.size >= self.settings.largest_cut:
            self.statistics.alone["oversize_segments"].change(-1)

    def release_idle(self):
        """Gives all segments that nobody uses back to the driver."""
        with self.guard:
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
            self.ctx.call("cuStreamSynchronize", block.stream)
            self.give_segment(block)

    def refuse(self, total, n_bytes):
        """Raises with the allocator's state."""
        free, whole = self.ctx.memory()
        taken = self.statistics.current("allocated_bytes")
        reserved = self.statistics.current("reserved_bytes")
        cap = ""
        if self.share < 1.0:
            cap = f" {amount(self.limit)} allowed;"
        lines = [
            f"CUDA out of memory. Tried to allocate {amount(total)}. GPU "
            f"{self.ctx.index} has a total capacity of {amount(whole)} of which "
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

    def wait_for_users(self, block: Block):
        """Puts an event into each queue that uses a block."""
        users, block.users = block.users, None
        for stream in users:
            event = self.idle.pop() if self.idle else self.ctx.event()
            if event.ctx is not stream.ctx and event.ctx is not None:
                event = self.ctx.event()
            event.record(stream)
            block.waits += 1
            self.waiting.setdefault(stream.handle, []).append((event, block))

    def look_at_events(self, wait=False):
        """Frees the blocks whose events have come."""
        for handle, rows in list(self.waiting.items()):
            done = 0
            for event, item in rows:
                block: Block = item
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
        with self.guard:
            if name not in self.pools:
                self.pools[name] = (Pool(True, name), Pool(False, name))
            self.holders[name] = self.holders.get(name, 0) + 1
            if any(owner == name for owner, _ in self.routes):
                self.holders[name] -= 1
                raise RuntimeError(f"requests already go to the pool {name}")
            self.routes.insert(0, (name, wants))

    def end(self, name):
        """Serves those requests as before."""
        with self.guard:
            self.routes = [route for route in self.routes if route[0] != name]
            if not self.capturing():
                held, self.held = self.held, []
                for block in held:
                    self.wait_for_users(block)

    def let_go(self, name):
        """One holder less: the last one's memory goes back when it is asked for."""
        with self.guard:
            if self.holders.get(name, 0) > 0:
                self.holders[name] -= 1

    def hold(self, name):
        """One holder more of a pool."""
        with self.guard:
            self.holders[name] = self.holders.get(name, 0) + 1

    def route(self, name, wants):
        """A block whose requests go to a pool of its own."""
        return Route(self, name, wants)

    # -- telling --------------------------------------------------------------------------

    def cap(self, share):
        """Allows a share of the device's memory, from 0 to 1."""
        with self.guard:
            self.share = float(share)
            self.limit = int(self.share * self.ctx.memory()[1])

    def snapshot(self):
        """What is in every segment, in order of address."""
        with self.guard:
            return [
                segment_record(self.ctx.index, self.segments[address])
                for address in sorted(self.segments)
            ]


class Route:
    """A block whose requests go to a pool of its own; see `Allocator.begin`."""

    def __init__(self, allocator, name, wants):
        self.allocator, self.name, self.wants = allocator, name, wants

    def __enter__(self):
        self.allocator.begin(self.name, self.wants)

    def __exit__(self, *raised):
        self.allocator.end(self.name)
        self.allocator.let_go(self.name)


def segment_record(device, segment):
    """A segment as PyTorch's ``memory_snapshot`` tells it."""
    blocks = []
    for block in segment.blocks():
        if block.taken:
            state = "active_allocated"
        elif block.waits or block.users is not None:
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
