"""Arrays of which each rank has one that all others see: nothing is copied to be reduced.

A rank reduces its part of the arrays in its own one, and others read it there. What a rank
writes next it may write only when all others have read.
"""

import rushlight as rl
from rushlight.distributed.collectives.direct import part
from rushlight.distributed.collectives.operands import reduce_into

BLOCK_BYTES = 1 << 18  # partial sums of several ranks stay in the cache


class SymmetricArray:
    """An array of every rank, of the same length, that all ranks see.

    Args:
        channel: the group, all of whose ranks are on this machine.
        memories: rank -> its memory.
        count: the number of elements.
        dtype: their type.
    """

    def __init__(self, channel, memories, count, dtype):
        self.channel = channel
        self.flats = [
            rl.frombuffer(memories[rank], dtype=dtype, count=count)
            for rank in range(channel.size)
        ]
        self.own = self.flats[channel.rank]
        self.bounds = [part(count, channel.size, i) for i in range(channel.size)]

    def reduce(self, reduction):
        """Reduce the arrays; each rank has the result of its part, in its place.

        Args:
            reduction: the name of the reduction.
        """
        channel = self.channel
        channel.announce(1)
        channel.await_phase(1)
        self._reduce_own(reduction)
        channel.announce(2)
        channel.await_phase(2)
        channel.next_piece()
        channel.finish()

    def _reduce_own(self, reduction):
        first, last = self.bounds[self.channel.rank]
        if self.channel.size == 2:
            values = [flat[first:last] for flat in self.flats]
            return reduce_into(self.own[first:last], values, reduction)
        step = BLOCK_BYTES // self.own.element_size()
        scratch = rl.empty(min(step, last - first), dtype=self.own.dtype)
        for low in range(first, last, step):
            high = min(low + step, last)
            total = scratch[: high - low]
            reduce_into(total, [flat[low:high] for flat in self.flats], reduction)
            self.own[low:high].copy_(total)
        return None

    def results(self, first, last):
        """Where the result of some elements is, once they are reduced.

        Args:
            first, last: the elements.

        Returns:
            (offset from the first, the run of elements) of each part.
        """
        found = []
        for flat, (low, high) in zip(self.flats, self.bounds):
            low, high = max(low, first), min(high, last)
            if low < high:
                found.append((low - first, flat[low:high]))
        return found
