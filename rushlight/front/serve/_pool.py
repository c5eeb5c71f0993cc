"""The worker processes of one model: started, fed, watched, replaced.

A request stays here until it is answered: where a worker ends with it, another gets it.
"""

import asyncio
import contextlib
import functools
import multiprocessing
import socket
import time

from rushlight.serve import _wire, _worker
from rushlight.serve._queue import Queue

MOST_ATTEMPTS = 3
SLOWEST_RESTART = 30.0  # seconds between starts of a worker that keeps ending


@functools.cache
def processes():
    """Where workers come from: a process that has imported what they need, and forks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rushlight.serve._preload"])
    return context


class WorkerFailed(RuntimeError):
    """A worker could not load its model."""


class Worker:
    """One process, and the task that feeds it."""

    def __init__(self, model, number):
        self.model, self.number = model, number
        self.process = self.writer = None
        self.state, self.error, self.stopping = "starting", "", False
        self.task = asyncio.create_task(self.live())

    async def live(self):
        """Starts the process again whenever it ends, ever more slowly if at once."""
        pause = 0.1
        while not self.stopping:
            began = time.monotonic()
            try:
                await self.start()
                await self.feed()
            except WorkerFailed as error:
                self.error = str(error)
            except Exception as error:
                self.error = f"the process ended ({type(error).__name__})"
            finally:
                await self.end()
            if self.stopping:
                return
            self.state = "restarting"
            self.model.changed.set()
            self.model.metrics.restarts.add(**self.model.labels)
            if time.monotonic() - began > SLOWEST_RESTART:
                pause = 0.1
            await asyncio.sleep(pause)
            pause = min(2 * pause, SLOWEST_RESTART)

    async def start(self):
        """Starts the process; returns when its model is loaded."""
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as opened:
            opened.enter_context(ours)  # closed where the process does not start
            with theirs:
                await self.start_process(
                    processes().Process(
                        target=_worker.main, args=(theirs,), daemon=True
                    )
                )
            self.reader, self.writer = await asyncio.open_connection(sock=ours)
            opened.pop_all()
        self.answered = asyncio.create_task(_wire.read_message(self.reader))
        settings = self.model.settings
        await self.send(
            {
                "archive": str(self.model.path),
                "allow_code": self.model.allow_code,
                "threads": settings.threads,
            }
        )
        try:
            header, _ = await asyncio.wait_for(self.next(), settings.startup_timeout)
        except TimeoutError:
            raise WorkerFailed(
                f"the model was not loaded in {settings.startup_timeout:g} s"
            ) from None
        if not header["ready"]:
            raise WorkerFailed(header["error"])
        self.state, self.error = "ready", ""
        self.model.changed.set()

    async def start_process(self, process):
        """Starts it in a thread, which goes on where this is cancelled: `end` is told."""
        starting = asyncio.create_task(asyncio.to_thread(process.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await starting
            raise
        finally:
            if process.pid is not None:
                self.process = process

    async def send(self, header, blocks=()):
        self.writer.write(_wire.message(header, blocks))
        await self.writer.drain()

    async def exchange(self, header, blocks):
        """Sends a message and gives back the answer to it."""
        await self.send(header, blocks)
        return await self.next()

    async def next(self):
        """What the process says next; that it ended is heard at any time."""
        found = await self.answered
        self.answered = asyncio.create_task(_wire.read_message(self.reader))
        return found

    async def feed(self):
        """Batches to the process and answers back, until either has an end."""
        settings, queue = self.model.settings, self.model.queue
        while True:
            asked = asyncio.create_task(
                queue.batch(
                    settings.batch_size, settings.max_batch_delay, lambda: self.stopping
                )
            )
            await asyncio.wait({asked, self.answered}, return_when="FIRST_COMPLETED")
            if not asked.done():
                asked.cancel()  # it has taken nothing yet
                raise ConnectionResetError
            jobs = asked.result()
            if jobs is None:
                return
            if jobs:
                await self.answer(jobs)

    async def answer(self, jobs):
        """Runs a batch; what the process does not answer goes to another one."""
        model, now = self.model, time.monotonic()
        for job in jobs:
            model.metrics.waiting.observe(now - job.arrived, **model.labels)
        model.metrics.batches.observe(len(jobs), **model.labels)
        headers = [
            {"content_type": j.request.content_type, "accept": j.request.accept}
            for j in jobs
        ]
        self.state = "busy"
        try:
            header, blocks = await asyncio.wait_for(
                self.exchange(
                    {"requests": headers}, [job.request.body for job in jobs]
                ),
                model.settings.response_timeout,
            )
        except TimeoutError:
            seconds = model.settings.response_timeout
            words = f"the model took longer than {seconds:g} s; its worker was ended"
            model.fail(jobs, 504, "ResponseTimeoutException", words)
            raise ConnectionResetError from None
        except BaseException:
            model.retry(jobs)
            raise
        self.state = "ready"
        for job, head, body in zip(jobs, header["answers"], blocks):
            if not job.answer.done():
                job.answer.set_result((head["status"], head, body))

    async def end(self):
        """Ends the process, if it still runs."""
        if self.writer is not None:
            self.writer.close()
            self.answered.cancel()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await self.answered
        if self.process is not None:
            self.process.kill()
            await asyncio.to_thread(self.process.join)

    async def stop(self):
        """Ends the worker when the batch that it is at is answered."""
        self.stopping = True
        self.model.queue.wake()
        if self.state in ("ready", "busy"):
            await asyncio.wait(
                {self.task}, timeout=self.model.settings.response_timeout
            )
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.end()


class Model:
    """One version of a model: its settings, its queue and its workers.

    ``changed`` is set whenever a worker becomes ready or ends.
    """

    def __init__(self, archive, settings, metrics):
        self.name, self.version = archive.manifest["name"], archive.manifest["version"]
        self.path, self.allow_code = archive.path, archive.allow_code
        self.manifest, self.settings, self.metrics = archive.manifest, settings, metrics
        self.labels = {"model": self.name, "version": self.version}
        self.queue, self.changed = Queue(settings.queue_size), asyncio.Event()
        self.workers, self.count = [], 0

    @property
    def ready(self):
        """How many workers have the model."""
        return sum(worker.state in ("ready", "busy") for worker in self.workers)

    async def scale(self, count):
        """Starts or ends workers until there are so many."""
        while len(self.workers) < count:
            self.count += 1
            self.workers.append(Worker(self, self.count))
        surplus, self.workers = self.workers[count:], self.workers[:count]
        await asyncio.gather(*(worker.stop() for worker in surplus))

    async def until_ready(self, timeout):
        """Returns when all workers have the model.

        Raises:
            WorkerFailed: one cannot load it, or it takes too long.
        """
        deadline = time.monotonic() + timeout
        while self.ready < len(self.workers):
            failed = [w.error for w in self.workers if w.state == "restarting"]
            left = deadline - time.monotonic()
            if failed or left <= 0:
                raise WorkerFailed((failed or ["the workers did not start in time"])[0])
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), left)
            except TimeoutError:
                pass

    def retry(self, jobs):
        """Puts jobs back whose worker ended; one that ends workers fails."""
        for job in jobs:
            job.attempts += 1
        lost = [job for job in jobs if job.attempts >= MOST_ATTEMPTS]
        again = [job for job in jobs if job.attempts < MOST_ATTEMPTS]
        self.metrics.retries.add(len(again), **self.labels)
        words = f"{MOST_ATTEMPTS} workers ended with this request"
        self.fail(lost, 500, "WorkerDiedException", words)
        self.queue.put_back(again)

    def fail(self, jobs, status, kind, words):
        """Answers jobs with what went wrong."""
        from rushlight.serve._answers import fault

        for job in jobs:
            if not job.answer.done():
                job.answer.set_result((status, *fault(status, kind, words)))

    def describe(self):
        """What is told of the version, as TorchServe tells it."""
        settings = self.settings
        return {
            "modelName": self.name,
            "modelVersion": self.version,
            "modelUrl": self.path.name,
            "kind": self.manifest["kind"],
            "handler": self.manifest["handler"],
            "files": self.manifest["files"],
            "minWorkers": len(self.workers),
            "maxWorkers": len(self.workers),
            "batchSize": settings.batch_size,
            "maxBatchDelay": settings.max_batch_delay * 1000,
            "responseTimeout": settings.response_timeout,
            "queueLength": len(self.queue),
            "workers": [
                {
                    "id": str(worker.number),
                    "pid": worker.process.pid if worker.process else None,
                    "status": worker.state.upper(),
                    "error": worker.error,
                }
                for worker in self.workers
            ],
        }
