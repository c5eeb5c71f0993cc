"""Large collectives between processes of one machine, through memory that all see.

Each rank writes into its own slab alone and reads the others'. An array goes through in
pieces that stay in the cache, each in the next slot of the slab: a rank may write a slot
again once every other has come to a later piece than the one that used it.
"""

from __future__ import annotations

import rushlight as rl
from rushlight.distributed.collectives.direct import part
from rushlight.distributed.collectives.operands import reduce_into
from rushlight.distributed.transport.channel import STEP
from rushlight.distributed.transport.connect import SLAB_BYTES

__all__ = ["Slabs"]

SLOTS = 4
SLOT_BYTES = SLAB_BYTES // SLOTS
DONE = STEP + 1  # any phase of a later piece: positions after a piece's first


class Slabs:
    """The shared memory of a group.

    Args:
        channel: the group, all of whose ranks are on this machine.
    """

    def __init__(self, channel):
        self.channel, self.pieces = channel, 0
        self.used = [None] * SLOTS  # position of the piece that used a slot last
        self.memory = {
            rank: rl.frombuffer(slab, dtype=rl.uint8)
            for rank, slab in channel.slabs.items()
        }
        self.views: dict = {}

    def _slot(self, rank, dtype):
        """A rank's current slot, as elements of a type."""
        key = rank, self.pieces % SLOTS, dtype
        found = self.views.get(key)
        if found is None:
            start = key[1] * SLOT_BYTES
            found = self.memory[rank][start : start + SLOT_BYTES].view(dtype)
            self.views[key] = found
        return found

    def _open(self):
        """Wait until this rank may write the current slot."""
        position = self.used[self.pieces % SLOTS]
        if position is not None:
            self.channel.await_position(position + DONE)

    def _close(self):
        channel = self.channel
        self.used[self.pieces % SLOTS] = channel.position
        self.pieces += 1
        channel.next_piece()

    def _ranks(self):
        return range(self.channel.size)

    def _pieces(self, count, itemsize, slots=1):
        """First and last element of each piece."""
        most = SLOT_BYTES // slots // itemsize
        pieces = -(-count // most)
        return [part(count, pieces, i) for i in range(pieces)]

    def all_reduce(self, flat, reduction, root=None):
        """Reduce the arrays of all ranks; each rank reduces a part of each piece.

        Args:
            flat: this rank's array; it becomes the result.
            reduction: the name of the reduction.
            root: the rank that alone gets the result; all do without it.
        """
        channel, dtype = self.channel, flat.dtype
        for low, high in self._pieces(flat.numel(), flat.element_size()):
            piece = flat[low:high]
            self._open()
            slots = [self._slot(rank, dtype) for rank in self._ranks()]
            bounds = [part(high - low, channel.size, r) for r in self._ranks()]
            self._write_others(slots[channel.rank], piece, bounds)
            channel.announce(1)
            first, last = bounds[channel.rank]
            own = slots[channel.rank][first:last]
            channel.await_phase(1)
            values = [slot[first:last] for slot in slots]
            values[channel.rank] = piece[first:last]
            if first < last:
                reduce_into(own, values, reduction)
            channel.announce(2)
            if root is None or root == channel.rank:
                channel.await_phase(2)
                for slot, (a, b) in zip(slots, bounds):
                    piece[a:b].copy_(slot[a:b])
            self._close()
        channel.finish()

    def _write_others(self, slot, piece, bounds):
        """Write the parts of a piece that other ranks reduce."""
        first, last = bounds[self.channel.rank]
        if first:
            slot[:first].copy_(piece[:first])
        if last < len(piece):
            slot[last : len(piece)].copy_(piece[last:])

    def reduce_scatter(self, out, parts, reduction):
        """Reduce the arrays that all ranks have for each, on that rank.

        Args:
            out: where this rank's result goes.
            parts: an array for each rank.
            reduction: the name of the reduction.
        """
        channel, dtype, size = self.channel, out.dtype, self.channel.size
        own = channel.rank
        for low, high in self._pieces(out.numel(), out.element_size(), size):
            self._open()
            length = high - low
            mine = self._slot(own, dtype)
            for rank in self._ranks():
                start = rank * length
                mine[start : start + length].copy_(parts[rank][low:high])
            channel.announce(1)
            channel.await_phase(1)
            start = own * length
            values = [
                self._slot(rank, dtype)[start : start + length]
                for rank in self._ranks()
            ]
            reduce_into(out[low:high], values, reduction)
            self._close()
        channel.finish()

    def broadcast(self, flat, root):
        """Copy one rank's array to all.

        Args:
            flat: the array.
            root: the rank that it comes from.
        """
        channel, dtype = self.channel, flat.dtype
        for low, high in self._pieces(flat.numel(), flat.element_size()):
            slot = self._slot(root, dtype)[: high - low]
            if channel.rank == root:
                self._open()
                slot.copy_(flat[low:high])
                channel.announce(1)
            else:
                channel.await_phase(1, [root])
                flat[low:high].copy_(slot)
                channel.announce(2)
            self._close()
        channel.finish()

    def all_gather(self, outs, flat):
        """Bring the arrays of all ranks to every rank.

        Args:
            outs: where each rank's array goes.
            flat: this rank's.
        """
        channel, dtype = self.channel, flat.dtype
        if outs[channel.rank].data_ptr() != flat.data_ptr():
            outs[channel.rank].copy_(flat)
        for low, high in self._pieces(flat.numel(), flat.element_size()):
            self._open()
            self._slot(channel.rank, dtype)[: high - low].copy_(flat[low:high])
            channel.announce(1)
            for rank in self._ranks():
                if rank != channel.rank:
                    channel.await_phase(1, [rank])
                    slot = self._slot(rank, dtype)[: high - low]
                    outs[rank][low:high].copy_(slot)
            self._close()
        channel.finish()
