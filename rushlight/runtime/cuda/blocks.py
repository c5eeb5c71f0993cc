"""Parts of a device's memory: segments that the driver gave, and what they are cut into."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t


@cython.final
@cython.cclass
class Block:
    """A part of a segment."""

    def __init__(self, address: uintptr_t, size: int64_t, pool, stream, segment):
        self.address = address
        self.size = size
        self.asked = 0
        self.pool = pool
        self.stream = stream
        self.segment = segment
        self.before = self.after = None
        self.taken = False
        self.users = None
        self.waits = 0

    @cython.ccall
    @cython.exceptval(check=False)
    def is_free(self) -> cython.bint:
        """Whether it waits for somebody to ask for it."""
        return not self.taken and not self.waits and self.users is None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def join(self, neighbour: Block) -> cython.int:
        """Takes a free neighbour in."""
        if neighbour is self.before:
            self.address = neighbour.address
            self.before = neighbour.before
            if self.before is not None:
                self.before.after = self
            else:
                self.segment.first = self
        else:
            self.after = neighbour.after
            if self.after is not None:
                self.after.before = self
        self.size += neighbour.size
        neighbour.before = neighbour.after = None  # nothing leads to it any more
        return 0

    @cython.cfunc
    def split(self, size: int64_t) -> Block:
        """Keeps so many bytes; the block of the rest."""
        rest: Block = Block(
            self.address + size, self.size - size, self.pool, self.stream, self.segment
        )
        rest.before, rest.after = self, self.after
        if rest.after is not None:
            rest.after.before = rest
        self.after = rest
        self.size = size
        return rest


@cython.final
@cython.cclass
class Segment:
    """A run of memory that the driver gave."""

    def __init__(self, address: uintptr_t, size: int64_t, pool, stream):
        self.address = address
        self.size = size
        self.pool = pool
        self.stream = stream
        self.first = Block(address, size, pool, stream, self)

    def blocks(self):
        """Its parts in order."""
        found: list = []
        block: Block = self.first
        while block is not None:
            found.append(block)
            block = block.after
        return found


@cython.cfunc
@cython.exceptval(check=False)
def place_of(row: list, size: int64_t, address: uintptr_t) -> cython.Py_ssize_t:
    """Where a block of a size and an address is, or would be, in a sorted list."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = len(row)
    middle: cython.Py_ssize_t
    block: Block
    while low < high:
        middle = (low + high) // 2
        block = cython.cast(Block, row[middle])
        if block.size < size or (block.size == size and block.address < address):
            low = middle + 1
        else:
            high = middle
    return low


@cython.final
@cython.cclass
class Pool:
    """Free blocks of one kind, by queue, smallest first."""

    def __init__(self, small, name):
        self.small = small
        self.name = name
        self.rows = {}

    @property
    def blocks(self):
        """The free blocks by address."""
        return {block.address: block for row in self.rows.values() for block in row}

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(self, block: Block) -> cython.int:
        """One more free block."""
        row: list = self.rows.get(block.stream)
        if row is None:
            row = self.rows[block.stream] = []
        row.insert(place_of(row, block.size, block.address), block)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def remove(self, block: Block) -> cython.int:
        """Takes a block out."""
        row: list = self.rows[block.stream]
        del row[place_of(row, block.size, block.address)]
        return 0

    @cython.cfunc
    def best(self, stream: object, size: int64_t, limit: int64_t) -> Block:
        """The smallest free block of at least a size, taken out; None if there is none.

        Blocks of ``limit`` bytes or more are not cut: only requests of about their size
        get them.
        """
        row: list = self.rows.get(stream)
        at: cython.Py_ssize_t
        block: Block
        if row is None:
            return None
        at = place_of(row, size, 0)
        if at == len(row):
            return None
        block = row[at]
        if size < limit <= block.size:
            return None
        if size >= limit and block.size >= size + MIDDLE_SEGMENT:
            return None
        del row[at]
        return block

    def whole(self):
        """The free blocks that are segments."""
        return [
            block
            for row in self.rows.values()
            for block in row
            if block.size == block.segment.size
        ]
