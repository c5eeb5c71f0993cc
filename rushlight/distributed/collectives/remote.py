"""Large reductions between processes of one machine that may read each other's memory.

Linux lets a process read another of the same user (``process_vm_readv``): nothing is copied
to where both see it, and ranks wait for each other three times, however long the array is.
"""

import ctypes
import os

import rushlight as rl
from rushlight.distributed.collectives.direct import collect, part
from rushlight.distributed.collectives.operands import reduce_into

LEAST_BYTES = 16 << 20  # below, pieces in slabs stay in the cache
CHUNK_BYTES = 1 << 18  # what is read to be reduced does, too
_PROBE = ctypes.create_string_buffer(os.urandom(16), 16)


class _Run(ctypes.Structure):
    """Where octets are, and how many."""

    _fields_ = [("start", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def _reader():
    """The system's function, or None where it has none."""
    try:
        return ctypes.CDLL(None, use_errno=True).process_vm_readv
    except (AttributeError, OSError):
        return None


_READ = _reader()


def read_memory(pid, start, into, length):
    """Copies another process's memory.

    Args:
        pid: the process.
        start: where its octets are.
        into: where they go, in this process.
        length: their number.

    Raises:
        OSError: it is gone, or may not be read.
    """
    one = ctypes.c_ulong(1)
    while length:
        own, other = _Run(into, length), _Run(start, length)
        found = _READ(
            pid, ctypes.byref(own), one, ctypes.byref(other), one, ctypes.c_ulong(0)
        )
        if found <= 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        start, into, length = start + found, into + found, length - found


class RemoteReads:
    """Reductions of ranks that read each other's memory.

    Args:
        channel: the group, all of whose ranks are on this machine.
    """

    def __init__(self, channel):
        self.channel = channel
        self.is_allowed = None  # not known until all ranks have tried

    def may_read(self):
        """Whether every rank may read every other; all ranks ask at the same time."""
        if self.is_allowed is None:
            text = list(_PROBE.raw)
            own = rl.tensor([ctypes.addressof(_PROBE), *text])
            probes = [each.tolist() for each in collect(self.channel, own)]
            works = int(all(map(self._try, range(len(probes)), probes)))
            answers = collect(self.channel, rl.tensor([works]))
            self.is_allowed = all(int(each) for each in answers)
        return self.is_allowed

    def _try(self, rank, probe):
        """Whether a rank's probe is where it says: a number may be another process's."""
        if rank == self.channel.rank:
            return True
        found, (start, *text) = ctypes.create_string_buffer(16), probe
        try:
            pid = self.channel.peers[rank].pid
            read_memory(pid, start, ctypes.addressof(found), 16)
        except (OSError, TypeError):
            return False
        return list(found.raw) == text

    def _read(self, rank, start, into):
        """Copies a rank's memory into a tensor."""
        n_bytes = into.numel() * into.element_size()
        try:
            read_memory(self.channel.peers[rank].pid, start, into.data_ptr(), n_bytes)
        except OSError as error:
            why = f"its process has ended (its memory: {error.strerror})"
            raise self.channel.fail(f"rank {rank} is lost: {why}", rank) from error

    def all_reduce(self, flat, reduction):
        """Reduce the arrays of all ranks, on every rank.

        Each reduces a part in its own array, and reads the others' parts when all have.

        Args:
            flat: this rank's array; it becomes the result.
            reduction: the name of the reduction.
        """
        channel, width = self.channel, flat.element_size()
        starts = collect(channel, rl.tensor([flat.data_ptr()]))
        starts = [int(each) for each in starts]
        bounds = [part(flat.numel(), channel.size, i) for i in range(channel.size)]
        self._reduce_own(flat, starts, bounds[channel.rank], reduction)
        channel.announce(1)
        channel.await_phase(1)
        for rank, (first, last) in enumerate(bounds):
            if rank != channel.rank and first < last:
                self._read(rank, starts[rank] + first * width, flat[first:last])
        channel.announce(2)
        channel.await_phase(2)
        channel.next_piece()
        channel.finish()

    def _reduce_own(self, flat, starts, bounds, reduction):
        """Reduce a part of the array, as much at a time as stays in the cache."""
        channel, width = self.channel, flat.element_size()
        own, step = channel.rank, max(1, CHUNK_BYTES // width)
        scratch = [rl.empty(step, dtype=flat.dtype) for _ in starts]
        for low in range(*bounds, step):
            high = min(low + step, bounds[1])
            values = [each[: high - low] for each in scratch]
            for rank, start in enumerate(starts):
                if rank != own:
                    self._read(rank, start + low * width, values[rank])
            total, values[own] = values[own], flat[low:high]
            if own < 2:
                reduce_into(values[own], values, reduction)
            else:
                reduce_into(total, values, reduction)
                flat[low:high].copy_(total)
