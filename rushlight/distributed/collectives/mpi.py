"""Collectives of MPI, through mpi4py, over flat arrays on the host."""

import rushlight as rl
from rushlight.distributed.collectives.operands import KERNELS, octets, type_name
from rushlight.distributed.errors import DistBackendError

PLAIN = {
    "uint8": "UINT8_T",
    "int8": "INT8_T",
    "int16": "INT16_T",
    "int32": "INT32_T",
    "int64": "INT64_T",
    "uint16": "UINT16_T",
    "uint32": "UINT32_T",
    "uint64": "UINT64_T",
    "float32": "FLOAT",
    "float64": "DOUBLE",
}
REDUCTIONS = {
    "sum": "SUM",
    "product": "PROD",
    "min": "MIN",
    "max": "MAX",
    "band": "BAND",
    "bor": "BOR",
    "bxor": "BXOR",
}


def load_mpi():
    """The module ``mpi4py.MPI``; None where it, or an MPI below it, is not installed."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError):
        return None
    return MPI


class MpiChannel:
    """What runs the collectives of a communicator in their order.

    Args:
        comm: the communicator.
        timeout: seconds that a collective should take; MPI itself waits for ever.
    """

    def __init__(self, comm, timeout):
        self.rank, self.size, self.timeout = comm.rank, comm.size, timeout
        self.sequence, self.call, self.broken = 0, None, None
        self.slabs = {}

    def begin(self, call, timeout=None):
        """Start a collective.

        Args:
            call: what it is.
            timeout: without effect.

        Raises:
            DistBackendError: the group has failed before, or was left.
        """
        if self.broken is not None:
            raise DistBackendError(
                f"{call.operator}: the process group has failed before\n"
                f"  failure: {self.broken}"
            )
        self.sequence += 1
        call.sequence, self.call = self.sequence, call

    def fail(self, text, culprit):
        """End the group.

        Args:
            text: why.
            culprit: the rank that it comes from.

        Returns:
            The exception to raise.
        """
        self.broken = self.broken or text
        return DistBackendError(f"rank {self.rank}, {self.call}: {text}")


class OverMpi:
    """Collectives through a communicator.

    Types that MPI has not, as bfloat16, move as octets and are reduced by kernels of ours.

    Args:
        mpi: the module ``mpi4py.MPI``.
        comm: the communicator.
        channel: what failures are told to.
    """

    def __init__(self, mpi, comm, channel):
        self.mpi, self.comm, self.channel = mpi, comm, channel
        comm.Set_errhandler(mpi.ERRORS_RETURN)
        self.own_reductions = {}

    def _run(self, call, *arguments):
        try:
            return call(*arguments)
        except self.mpi.Exception as error:
            text = f"MPI says: {error.Get_error_string()}"
            raise self.channel.fail(text, self.channel.rank) from error

    def buffer(self, flat):
        """A flat array as mpi4py takes it.

        Args:
            flat: the array; it must live as long as what is returned.
        """
        kind = getattr(self.mpi, PLAIN.get(type_name(flat), "BYTE"))
        return [octets(flat), kind]

    def _reduction(self, flat, name):
        if type_name(flat) in PLAIN:
            return getattr(self.mpi, REDUCTIONS[name])
        key = flat.dtype, name
        if key not in self.own_reductions:
            self.own_reductions[key] = self._own_reduction(*key)
        return self.own_reductions[key]

    def _own_reduction(self, dtype, name):
        kernel = KERNELS[name]

        def reduce(incoming, inout, _):
            # Whole elements come, MPI being told so by the count of a wider type.
            first = rl.frombuffer(incoming, dtype=dtype)
            second = rl.frombuffer(inout, dtype=dtype)
            kernel(first, second, out=second)

        return self.mpi.Op.Create(reduce, commute=True)

    def _elements(self, flat):
        """An array for a reduction: octets that may not be divided within an element."""
        if type_name(flat) in PLAIN:
            return self.buffer(flat)
        whole = self.mpi.BYTE.Create_contiguous(flat.element_size())
        whole.Commit()
        return [octets(flat), whole]

    def all_reduce(self, flat, reduction):
        """Reduce the arrays of all ranks, on every rank."""
        values = self._elements(flat)
        op = self._reduction(flat, reduction)
        self._run(self.comm.Allreduce, self.mpi.IN_PLACE, values, op)

    def reduce(self, flat, reduction, root):
        """Reduce the arrays of all ranks, on one."""
        values, op = self._elements(flat), self._reduction(flat, reduction)
        if self.comm.rank == root:
            self._run(self.comm.Reduce, self.mpi.IN_PLACE, values, op, root)
        else:
            self._run(self.comm.Reduce, values, None, op, root)

    def broadcast(self, flat, root):
        """Copy one rank's array to all."""
        self._run(self.comm.Bcast, self.buffer(flat), root)

    def all_gather(self, outs, flat):
        """Bring the arrays of all ranks to every rank."""
        whole = rl.empty(len(outs) * flat.numel(), dtype=flat.dtype)
        self._run(self.comm.Allgather, self.buffer(flat), self.buffer(whole))
        for out, value in zip(outs, whole.view(len(outs), -1)):
            out.copy_(value)

    def gather(self, outs, flat, root):
        """Bring the arrays of all ranks to one."""
        if self.comm.rank != root:
            return self._run(self.comm.Gather, self.buffer(flat), None, root)
        whole = rl.empty(len(outs) * flat.numel(), dtype=flat.dtype)
        self._run(self.comm.Gather, self.buffer(flat), self.buffer(whole), root)
        for out, value in zip(outs, whole.view(len(outs), -1)):
            out.copy_(value)

    def scatter(self, flat, parts, root):
        """Bring one of a rank's arrays to each."""
        if self.comm.rank != root:
            self._run(self.comm.Scatter, None, self.buffer(flat), root)
            return
        whole = rl.cat(parts)
        self._run(self.comm.Scatter, self.buffer(whole), self.buffer(flat), root)

    def reduce_scatter(self, out, parts, reduction):
        """Reduce the arrays that all ranks have for each, on that rank."""
        whole = rl.cat(parts)
        self.all_reduce(whole, reduction)
        first = sum(part.numel() for part in parts[: self.comm.rank])
        out.copy_(whole[first : first + out.numel()])

    def all_to_all(self, outs, parts):
        """Bring an array from each rank to each."""
        own = self.comm.rank
        others = [rank for rank in range(self.comm.size) if rank != own]
        waits = [self.comm.Irecv(self.buffer(outs[rank]), rank) for rank in others]
        waits += [self.comm.Isend(self.buffer(parts[rank]), rank) for rank in others]
        outs[own].copy_(parts[own])
        self._run(self.mpi.Request.Waitall, waits)

    def barrier(self):
        """Wait until every rank has come."""
        self._run(self.comm.Barrier)

    def close(self):
        """Give the communicator back."""
        if self.comm != self.mpi.COMM_WORLD:
            self.comm.Free()
