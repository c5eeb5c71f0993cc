"""How flat arrays go through a collective: by frames, by shared memory, or not at all."""

from rushlight.distributed.collectives import direct, remote
from rushlight.distributed.collectives.remote import RemoteReads
from rushlight.distributed.collectives.shared import Slabs
from rushlight.distributed.transport.connect import SLAB_BYTES

SMALL_BYTES = 1 << 13  # up to here octets go with the frame


class Alone:
    """The collectives of one process."""

    def all_reduce(self, flat, reduction):
        """The array is the result."""

    def reduce(self, flat, reduction, root):
        """The array is the result."""

    def broadcast(self, flat, root):
        """The array is the result."""

    def all_gather(self, outs, flat):
        """Copy the array."""
        outs[0].copy_(flat)

    def gather(self, outs, flat, root):
        """Copy the array."""
        outs[0].copy_(flat)

    def scatter(self, flat, parts, root):
        """Copy the array."""
        flat.copy_(parts[0])

    def reduce_scatter(self, out, parts, reduction):
        """Copy the array."""
        out.copy_(parts[0])

    def all_to_all(self, outs, parts):
        """Copy the array."""
        outs[0].copy_(parts[0])

    def barrier(self):
        """Nobody is to be waited for."""

    def close(self):
        """Nothing is to be given back."""


class Connected:
    """The collectives of processes that are connected.

    Small arrays go with the frames; large ones, where all ranks are on one machine,
    through memory that they share.

    Args:
        channel: the group.
    """

    def __init__(self, channel):
        self.channel = channel
        self.slabs = Slabs(channel) if channel.slabs else None
        self.remote = RemoteReads(channel) if channel.slabs else None

    def _uses_slabs(self, flat):
        octets = flat.numel() * flat.element_size()
        return self.slabs is not None and octets > SMALL_BYTES

    def _reads_others(self, flat):
        octets = flat.numel() * flat.element_size()
        if self.remote is None or octets < remote.LEAST_BYTES:
            return False
        return self.remote.may_read()

    def all_reduce(self, flat, reduction):
        """Reduce the arrays of all ranks, on every rank."""
        if self._reads_others(flat):
            self.remote.all_reduce(flat, reduction)
        elif self._uses_slabs(flat):
            self.slabs.all_reduce(flat, reduction)
        elif flat.numel():
            direct.all_reduce(self.channel, flat, reduction)

    def reduce(self, flat, reduction, root):
        """Reduce the arrays of all ranks, on one."""
        if self._uses_slabs(flat):
            self.slabs.all_reduce(flat, reduction, root)
        elif flat.numel():
            direct.reduce(self.channel, flat, reduction, root)

    def broadcast(self, flat, root):
        """Copy one rank's array to all."""
        # Of two ranks the socket's own copies are as few as a slab's, and need no turns.
        is_pair = self.channel.size == 2
        is_long = flat.numel() * flat.element_size() > SLAB_BYTES
        if self._uses_slabs(flat) and not (is_pair and is_long):
            self.slabs.broadcast(flat, root)
        elif flat.numel():
            direct.broadcast(self.channel, flat, root)

    def all_gather(self, outs, flat):
        """Bring the arrays of all ranks to every rank."""
        if self._uses_slabs(flat):
            self.slabs.all_gather(outs, flat)
        elif flat.numel():
            direct.all_gather(self.channel, outs, flat)

    def gather(self, outs, flat, root):
        """Bring the arrays of all ranks to one."""
        direct.gather(self.channel, outs, flat, root)

    def scatter(self, flat, parts, root):
        """Bring one of a rank's arrays to each."""
        direct.scatter(self.channel, flat, parts, root)

    def reduce_scatter(self, out, parts, reduction):
        """Reduce the arrays that all ranks have for each, on that rank."""
        sizes = {part.numel() for part in parts}
        if len(sizes) == 1 and self._uses_slabs(parts[0]):
            self.slabs.reduce_scatter(out, parts, reduction)
        else:
            direct.reduce_scatter(self.channel, out, parts, reduction)

    def all_to_all(self, outs, parts):
        """Bring an array from each rank to each."""
        direct.all_to_all(self.channel, outs, parts)

    def barrier(self):
        """Wait until every rank has come."""
        direct.barrier(self.channel)

    def close(self):
        """Give the shared memory back."""
        self.slabs = self.remote = None
