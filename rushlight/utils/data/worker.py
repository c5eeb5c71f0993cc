"""What a data-loading worker process does, and what it says about itself."""

import os
import queue
import random
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from typing import Any

import rushlight as rl
from rushlight.utils.data import fetch, info, transport
from rushlight.utils.data._pipes import seeded, shared_out

ORPHAN_CHECK = 2.0  # seconds between two looks at whether the parent still lives


@dataclass(frozen=True)
class Failure:
    """An exception on its way to the main process, with its traceback as text."""

    kind: type
    text: str

    @classmethod
    def current(cls, where: str) -> "Failure":
        """The exception being handled."""
        kind = sys.exc_info()[0] or Exception
        text = f"Caught {kind.__name__} {where}.\nOriginal {traceback.format_exc()}"
        return cls(kind, text)

    def reraise(self):
        """Raises the exception's own type if that takes a message, or RuntimeError."""
        if issubclass(self.kind, StopIteration):
            raise RuntimeError(self.text)  # as itself it would end the caller's loop
        if self.kind is KeyError:
            raise KeyError(_Verbatim(self.text))
        try:
            error = self.kind(self.text)
        except Exception:
            raise RuntimeError(self.text) from None
        raise error


class _Verbatim(str):
    """A KeyError shows its argument's repr: this one keeps its lines."""

    def __repr__(self):
        return str(self)


@dataclass(frozen=True)
class Job:
    """All that a worker is told when it starts."""

    id: int
    num_workers: int
    base_seed: int
    dataset: Any
    source: fetch.Source
    init: Any
    parent: int
    shared_seed: int | None = None


def run(job: Job, connection) -> None:
    """The worker's life: fetch the batches asked for until told to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C
    requests: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(
        target=_listen, args=(connection, requests, job.parent), daemon=True
    ).start()
    failure = _begin(job)
    fetcher = None
    while (request := requests.get()) is not None:
        command, number, indices = request
        if command == "restart":
            fetcher = None
            seeded(job.dataset, indices)
            transport.send(connection, ("restarted", number), None)
            continue
        status, value = "batch", None
        try:
            if failure is not None:
                status, value, failure = "failure", failure, None
            else:
                fetcher = fetcher or job.source.open()
                value = fetcher(indices)
        except StopIteration:
            status = "end"
            if not job.source.iterable:
                status, value = "failure", Failure.current(_where(job))
        except Exception:
            status, value = "failure", Failure.current(_where(job))
        if not _answer(job, connection, status, number, value):
            return


def _where(job):
    return f"in DataLoader worker process {job.id}"


def _begin(job: Job) -> Failure | None:
    """Seeds and presents the worker; what went wrong is the first batch's answer."""
    seed = job.base_seed + job.id
    info.present = info.WorkerInfo(job.id, job.num_workers, seed, job.dataset)
    try:
        rl.set_num_threads(1)
        random.seed(seed)
        rl.manual_seed(seed)
        if "numpy" in sys.modules:
            _seed_numpy(job.base_seed, job.id)
        seeded(job.dataset, job.shared_seed)
        shared_out(job.dataset, job.num_workers, job.id)
        if job.init is not None:
            job.init(job.id)
    except Exception:
        return Failure.current(_where(job))
    return None


def numpy_state(base_seed, worker):
    """Four numbers of 32 bits for NumPy's generator, other ones for every worker."""
    import numpy

    entropy = [worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return numpy.random.SeedSequence(entropy).generate_state(4).tolist()


def _seed_numpy(base_seed, worker):
    import numpy

    numpy.random.seed(numpy_state(base_seed, worker))


def _answer(job, connection, status, number, value) -> bool:
    """Sends one batch, or why it cannot be sent; False once nobody listens."""
    try:
        transport.send(connection, (status, number), value)
    except (BrokenPipeError, ConnectionResetError):
        return False
    except Exception:
        failure = Failure.current(_where(job))
        try:
            transport.send(connection, ("failure", number), failure)
        except Exception:
            plain = Failure(RuntimeError, failure.text)
            transport.send(connection, ("failure", number), plain)
    return True


def _listen(connection, requests, parent):
    """Empties the pipe at once, so that the main process never waits to write to it."""
    try:
        while True:
            while not connection.poll(ORPHAN_CHECK):
                if os.getppid() != parent:
                    os._exit(1)
            request = connection.recv()
            requests.put(request)
            if request is None:
                return
    except (EOFError, OSError):
        requests.put(None)
