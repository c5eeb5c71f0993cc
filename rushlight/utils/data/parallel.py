"""One pass over the batches with worker processes that make them ahead."""

import math
import multiprocessing
import os
import time
import warnings
import weakref
from multiprocessing import connection as pipes
from typing import Any

from rushlight.core.progress import Progress
from rushlight.utils.data import transport, worker
from rushlight.utils.data._pipes import draw_shared
from rushlight.utils.data.fetch import Source
from rushlight.utils.data.passes import PassIterator
from rushlight.utils.data.sampler import draw_seed

PATIENCE = 5.0  # seconds for a worker to end by itself before it is made to

_GLANCE = 0.25  # between two looks of who waits for a first batch at a terminal


class Crew:
    """The worker processes and their pipes, ended with the object that owns them."""

    def __init__(self, loader, source, base_seed, shared_seed):
        context = loader.multiprocessing_context or "fork"
        if isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.processes: list[Any] = []
        self.pipes: list[Any] = []
        self.parent = os.getpid()
        for i in range(loader.num_workers):
            job = worker.Job(
                i,
                loader.num_workers,
                base_seed,
                loader.dataset,
                source,
                loader.worker_init_fn,
                self.parent,
                shared_seed,
            )
            here, child_end = context.Pipe(duplex=True)
            process = context.Process(
                target=worker.run, args=(job, child_end), daemon=True
            )
            with warnings.catch_warnings():
                # The kernels' threads are idle here, and a worker makes its own.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            child_end.close()
            self.processes.append(process)
            self.pipes.append(here)

    def close(self, patience=PATIENCE):
        """Ends the workers: asked first, then made to."""
        if os.getpid() != self.parent:
            return  # a worker of another loader holds a copy of this one
        for pipe in self.pipes:
            try:
                pipe.send(None)
            except OSError:
                pass
            pipe.close()
        deadline = time.monotonic() + patience
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self.pipes.clear()
        self.processes.clear()

    def died(self, number):
        """The error for a worker that ended while batches were wanted from it."""
        process = self.processes[number]
        process.join(1.0)
        code = process.exitcode
        how = f"exited unexpectedly with exit code {code}"
        if code is not None and code < 0:
            how = f"was killed by signal {-code}"
        return RuntimeError(
            f"DataLoader worker (pid {process.pid}) {how}.\n"
            f"  worker: {number} of {len(self.processes)}\n"
            "  what it printed is above; num_workers=0 runs the same code here"
        )


class ParallelIterator(PassIterator):
    """Batches from the workers, in the sampler's order unless told otherwise.

    Args:
        loader: a `DataLoader`, or anything with the attributes of one that a pass reads.
        source: where samples are read; the loader's by default.
        skip: batches that another pass has given.
    """

    shown_as = "_MultiProcessingDataLoaderIter"

    def __init__(self, loader, source=None, skip=0):
        super().__init__(loader)
        source = Source.of(loader) if source is None else source
        self.timeout = loader.timeout
        self.in_order = loader.in_order
        self.persistent = loader.persistent_workers
        self.ahead = max(1, loader.prefetch_factor)
        self.source = source
        indices = self.start(source, skip)
        self.crew = Crew(loader, source, self.base_seed, self.shared_seed)
        draw_shared(
            source.dataset, loader.generator
        )  # PyTorch draws two, and tells the workers the first
        weakref.finalize(self, self.crew.close)
        self.epoch = 0
        self._begin(indices)

    def draw(self, loader):
        """The seed that the workers' numbers are added to."""
        self.base_seed = draw_seed(loader.generator)

    def _begin(self, indices):
        count = len(self.crew.processes)
        self.warming = Progress(
            f"DataLoader: first batches of {count} workers", after=2.0
        )
        self.indices = indices
        self.ready: dict[int, tuple] = {}  # batch number -> (status, value)
        self.owner: dict[int, int] = {}  # batch number -> its worker
        self.waiting = [0] * count  # batches each worker still owes
        self.active = [True] * count  # an iterable's copy may have ended
        self.sent = self.yielded = self.next_worker = 0
        for _ in range(self.ahead * count):
            self._request()

    def restart(self, skip=0):
        """Another pass with the same workers; batches of the last one are dropped."""
        self.epoch += 1
        self.ended = False
        indices = iter(self.sampler)
        self.shared_seed = draw_shared(self.source.dataset, self.loader_generator)
        late = set(range(len(self.crew.pipes)))
        for number in late:
            self._notify(number, ("restart", self.epoch, self.shared_seed))
        while late:
            number, header, _ = self._receive()
            if header == ("restarted", self.epoch):
                late.discard(number)
        self.taken = skip
        if not self.source.iterable:
            for _ in range(skip):
                next(indices, None)
        self._begin(indices)

    def _next_data(self):
        """The next batch; a batch that failed raises, and the next call goes on."""
        if not self.crew.processes:
            raise StopIteration
        try:
            status, value = self._next()
        except BaseException as error:
            # A persistent crew survives the end of a pass, and nothing else.
            if not isinstance(error, StopIteration):
                self.crew.close(patience=0.1)
            elif not self.persistent:
                self.crew.close()
            raise
        if status == "failure":
            value.reraise()
        return value

    def _next(self):
        while self.yielded < self.sent:
            number = self._ready_batch()
            if number is None:
                self._store(*self._receive())
                continue
            self.yielded += 1
            status, value = self.ready.pop(number)
            if status == "end":
                continue
            self._request()
            return status, value
        raise StopIteration

    def _ready_batch(self):
        if not self.in_order:
            return next(iter(self.ready), None)
        return self.yielded if self.yielded in self.ready else None

    def _store(self, sender, header, value):
        status, number = header
        self.waiting[sender] -= 1
        self.ready[number] = status, value
        del self.owner[number]
        if status == "end":
            self.active[sender] = False
            self._request()

    def _request(self):
        """Asks the next worker in turn for the next batch, if there is one."""
        chosen = self._next_worker()
        if chosen is None:
            return
        try:
            indices = next(self.indices)
        except StopIteration:
            return
        self._notify(chosen, ("fetch", self.sent, indices))
        self.owner[self.sent] = chosen
        self.waiting[chosen] += 1
        self.sent += 1

    def _next_worker(self):
        count = len(self.active)
        order = [(self.next_worker + i) % count for i in range(count)]
        chosen = [i for i in order if self.active[i]]
        if not self.in_order:
            chosen.sort(key=lambda i: self.waiting[i])
        if not chosen:
            return None
        self.next_worker = (chosen[0] + 1) % count
        return chosen[0]

    def _notify(self, number, request):
        try:
            self.crew.pipes[number].send(request)
        except OSError:
            raise self.crew.died(number) from None

    def _wait(self, sources):
        """Those that have something; until the first batch a terminal is told so."""
        deadline = time.monotonic() + (self.timeout or math.inf)
        if self.yielded or not self.warming.live:
            return pipes.wait(sources, self.timeout or None)
        found = []
        while not found and time.monotonic() < deadline:
            found = pipes.wait(sources, min(_GLANCE, deadline - time.monotonic()))
            self.warming.done = len(self.ready)
            self.warming.add(0)
        self.warming.erase()
        return found

    def _receive(self):
        """The next answer of any worker, with the worker's number."""
        sentinels = {p.sentinel: i for i, p in enumerate(self.crew.processes)}
        sources = [*self.crew.pipes, *sentinels]
        found = self._wait(sources)
        if not found:
            raise RuntimeError(
                f"DataLoader timed out after {self.timeout} seconds\n"
                f"  batch {self.yielded} is late; raise timeout, or do less per batch"
            )
        for number, pipe in enumerate(self.crew.pipes):
            if pipe in found:
                try:
                    return number, *transport.receive(pipe)
                except (EOFError, OSError):
                    raise self.crew.died(number) from None
        raise self.crew.died(sentinels[found[0]])
