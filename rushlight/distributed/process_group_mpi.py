"""Groups of processes that MPI has started and connects: ``mpiexec python train.py``."""

from datetime import timedelta

from rushlight.distributed.collectives.mpi import MpiChannel, OverMpi, load_mpi
from rushlight.distributed.collectives.operands import Operand, octets
from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.process_group import ProcessGroupGloo
from rushlight.distributed.stores import HashStore
from rushlight.distributed.stores.base import seconds
from rushlight.distributed.work import Executor, Work

ABSENT = (
    "Distributed package doesn't have MPI built in\n  remedy: pip install "
    "rushlight[mpi], which brings mpi4py and an MPI, and mpiexec to start the program"
)


def find_processes():
    """The store, rank and number of processes, as MPI says them.

    Raises:
        RuntimeError: mpi4py, or an MPI, is not installed.
    """
    mpi = load_mpi()
    if mpi is None:
        raise RuntimeError(ABSENT)
    return HashStore(), mpi.COMM_WORLD.rank, mpi.COMM_WORLD.size


class _MpiWork(Work):
    """A message on its way through MPI."""

    def __init__(self, mpi, request, operand, result, is_receive):
        super().__init__(result)
        self._mpi, self._request, self._operand = mpi, request, operand
        self._is_receive = is_receive

    def _complete(self, status):
        if self._is_receive:
            self._operand.store()
        self._completion.finish(None, status.Get_source() if self._is_receive else None)

    def is_completed(self):
        """Whether it is over, well or not."""
        status = self._mpi.Status()
        if not self._done.is_set() and self._request.Test(status):
            self._complete(status)
        return self._done.is_set()

    def wait(self, timeout=None):
        """Wait until it is over; MPI knows no limit of time.

        Args:
            timeout: without effect.

        Returns:
            True.

        Raises:
            DistBackendError: it failed.
        """
        if not self._done.is_set():
            status = self._mpi.Status()
            try:
                self._request.Wait(status)
            except self._mpi.Exception as error:
                text = f"MPI says: {error.Get_error_string()}"
                self._completion.finish(DistBackendError(text))
            else:
                self._complete(status)
        return super().wait()

    def get_future(self):
        """A ``Future`` of the tensors, once it is over: MPI tells nobody by itself."""
        self.wait()
        return super().get_future()


class ProcessGroupMPI(ProcessGroupGloo):
    """Processes that MPI connects.

    MPI has its own order of sums and its own way to fail: where a process is lost,
    ``mpiexec`` ends all.

    Args:
        ranks: the global rank of each process.
        timeout: kept, and without effect: MPI waits for ever.
    """

    __module__ = "rushlight.distributed"

    def __init__(self, ranks, timeout=timedelta(minutes=30)):
        self._mpi = mpi = load_mpi()
        world = mpi.COMM_WORLD
        group = world.group.Incl(ranks)
        comm = world.Create_group(group)
        super().__init__(HashStore(), 0, 1, timeout)
        self._rank, self._size, self._comm = comm.rank, comm.size, comm
        self._channel = MpiChannel(comm, seconds(timeout))
        self._engine = OverMpi(mpi, comm, self._channel)
        self._executor = Executor(self._channel)

    def name(self):
        """The name of the backend."""
        return "mpi"

    _get_backend_name = name

    def _message(self, tensor, rank, tag, starts):
        operand, is_receive = Operand(tensor), starts == "receive"
        source = self._mpi.ANY_SOURCE if rank is None else rank
        start = self._comm.Irecv if is_receive else self._comm.Isend
        request = start([octets(operand.flat), self._mpi.BYTE], source, tag)
        return _MpiWork(self._mpi, request, operand, [tensor], is_receive)

    def _monitored_barrier(self, timeout=None, wait_all_ranks=False):
        raise ValueError("monitored_barrier is only implemented for GLOO backend")

    def shutdown(self, failure=None):
        """Leave the group; where a program fails in the midst, MPI ends all.

        Args:
            failure: why this process leaves in the midst; None where it is done.
        """
        if self._channel.broken is not None:
            return
        self._channel.broken = failure or "it was destroyed"
        if failure is not None:
            self._comm.Abort(1)
        self._executor.drain(5)
        self._executor.close()
        self._engine.close()
