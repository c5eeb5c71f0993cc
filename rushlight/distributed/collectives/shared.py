"""Large collectives between processes of one machine, through memory that all see.

Each rank writes into its own slab alone and reads the others'. An array goes through in
pieces that stay in the cache, each in the next slot of the slab: a rank may write a slot
again once every other has come to a later piece than the one that used it.
"""

import rushlight as rl
from rushlight.distributed.collectives.direct import part
from rushlight.distributed.collectives.operands import reduce_into
from rushlight.distributed.transport.channel import STEP
from rushlight.distributed.transport.connect import SLAB_BYTES

SLOTS = 4
SLOT_BYTES = SLAB_BYTES // SLOTS


class Slabs:
    """The shared memory of a group.

    Args:
        channel: the group, all of whose ranks are on this machine.
    """

    def __init__(self, channel):
        self.channel, self.pieces = channel, 0
        self.used = [None] * SLOTS  # position of others at which a slot is free
        self.memory = {
            rank: rl.frombuffer(slab, dtype=rl.uint8)
            for rank, slab in channel.slabs.items()
        }
        self.views: dict = {}

    def _slot(self, rank, dtype, number=None):
        """A rank's slot of a piece, the current one without its number."""
        number = self.pieces if number is None else number
        key = rank, number % SLOTS, dtype
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
            self.channel.await_position(position)

    def _close(self, later=1):
        """Go on to the next piece; this one's slot is free at a later announcement.

        Args:
            later: how many pieces later others say that they have read the slot; 0
                where nothing was written. What is said comes before the slot's next
                turn, or all ranks would wait for each other.
        """
        channel = self.channel
        if later:
            at = channel.position + later * STEP + 1
            self.used[self.pieces % SLOTS] = at
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

        Stage ``t`` writes piece ``t``, reduces this rank's part of piece ``t - 1`` and
        copies the others' parts of piece ``t - 2``: a rank waits once in a stage, for
        what others did in the one before.

        Args:
            flat: this rank's array; it becomes the result.
            reduction: the name of the reduction.
            root: the rank that alone gets the result; all do without it.
        """
        channel, is_wanted = self.channel, root in (None, self.channel.rank)
        pieces = [
            self._piece(flat, low, high)
            for low, high in self._pieces(flat.numel(), flat.element_size())
        ]
        count, first = len(pieces), self.pieces
        for stage in range(count + 2):
            if stage < count:
                self._open()
                self._write_others(self._slot(channel.rank, flat.dtype), *pieces[stage])
            if stage:
                channel.await_position(channel.position - STEP + 1)
            if 0 < stage <= count:
                last = pieces[stage - 1]
                self._reduce_own(first + stage - 1, *last, reduction, is_wanted)
            if 1 < stage and is_wanted:
                self._copy_parts(first + stage - 2, *pieces[stage - 2])
            if stage <= count:
                channel.announce(1)
            read_in = 2 if stage + 1 < count else 3  # the last stage is not announced
            self._close(read_in if stage < count else 0)
        channel.finish()

    def _piece(self, flat, low, high):
        """A piece of an array, and where each rank's part of it is."""
        return flat[low:high], [
            part(high - low, self.channel.size, rank) for rank in self._ranks()
        ]

    def _reduce_own(self, number, piece, bounds, reduction, is_wanted):
        """Reduce this rank's part of a piece into its slot, and in its place.

        In its place first, where `reduce_into` may: what was read is written at once, and
        not fetched again when it has left the cache.
        """
        own = self.channel.rank
        first, last = bounds[own]
        if first == last:
            return
        slots = [self._slot(rank, piece.dtype, number) for rank in self._ranks()]
        values = [slot[first:last] for slot in slots]
        slot, values[own] = values[own], piece[first:last]
        if is_wanted and own < 2:
            reduce_into(values[own], values, reduction)
            slot.copy_(values[own])
        else:
            reduce_into(slot, values, reduction)

    def _copy_parts(self, number, piece, bounds):
        """Copy every rank's part of a piece to its place, where it is not there yet."""
        for rank, (first, last) in enumerate(bounds):
            if rank == self.channel.rank < 2:
                continue
            slot = self._slot(rank, piece.dtype, number)
            piece[first:last].copy_(slot[first:last])

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
        pieces = self._pieces(flat.numel(), flat.element_size())
        first = self.pieces
        for stage in range(len(pieces) + 1):
            if stage < len(pieces):
                low, high = pieces[stage]
                self._open()
                self._slot(channel.rank, dtype)[: high - low].copy_(flat[low:high])
                channel.announce(1)
            if stage:
                low, high = pieces[stage - 1]
                self._copy_gathered(outs, low, high, first + stage - 1, dtype)
            self._close(2 if stage < len(pieces) else 0)
        channel.finish()

    def _copy_gathered(self, outs, low, high, number, dtype):
        """Copy a piece of each other rank's array once that rank has written it."""
        channel = self.channel
        for rank in self._ranks():
            if rank != channel.rank:
                channel.await_position(channel.position - STEP + 1, [rank])
                slot = self._slot(rank, dtype, number)[: high - low]
                outs[rank][low:high].copy_(slot)
