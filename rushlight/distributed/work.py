"""Collectives on their way: the thread that runs them in order, and their results."""

import threading
import time
from collections import deque

from rushlight.distributed._flight_recorder import FlightRecorder
from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.stores.base import seconds
from rushlight.futures import Future

NO_TIMEOUT = None


class Completion:
    """How a collective or a message ends: what the thread that runs it keeps of it.

    It does not hold the tensors that are filled: they go with the caller's ``Work``, not
    when that thread comes to the next collective.

    Args:
        source: the rank that it comes from, where that is known.
    """

    __slots__ = ("done", "error", "source", "lock", "future", "result")

    def __init__(self, source=-1):
        self.done, self.lock = threading.Event(), threading.Lock()
        self.error, self.source = None, source
        self.future = self.result = None

    def finish(self, error=None, source=None):
        """Say that it is over.

        Args:
            error: what it failed with.
            source: the rank that it came from.
        """
        with self.lock:
            self.error = error
            if source is not None:
                self.source = source
            self.done.set()
            is_awaited = self.future is not None
        if is_awaited:
            self._settle()

    def future_of(self, result):
        """The one ``Future`` of the tensors that it fills.

        Args:
            result: the tensors.
        """
        with self.lock:
            if self.future is not None:
                return self.future
            self.future, self.result = Future(), result
            is_over = self.done.is_set()
        if is_over:
            self._settle()
        return self.future

    def _settle(self):
        result, self.result = self.result, None
        if self.error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(self.error)


class Work:
    """A collective or a message on its way.

    Args:
        result: the tensors that it fills.
        source: the rank that it comes from, where that is known.
    """

    __module__ = "rushlight.distributed"

    def __init__(self, result=(), source=-1):
        self._completion, self._result = Completion(source), list(result)
        self._done = self._completion.done
        self._executor = None  # runs it on the thread that waits, if none has begun

    def is_completed(self):
        """Whether it is over, well or not."""
        return self._done.is_set()

    def is_success(self):
        """Whether it is over, and well."""
        return self._done.is_set() and self._completion.error is None

    def exception(self):
        """What it failed with; None where it did not."""
        return self._completion.error

    def wait(self, timeout=NO_TIMEOUT):
        """Wait until it is over.

        Args:
            timeout: a ``timedelta``; without it, the time that the group gives.

        Returns:
            True.

        Raises:
            DistBackendError: it failed.
            RuntimeError: it is not over in time.
        """
        patience = None if timeout is None else seconds(timeout)
        if patience is None and self._executor is not None:
            self._executor.help(self)
        if not self._done.wait(patience or None):
            raise DistBackendError(
                f"Work ran for {patience * 1000:.0f} milliseconds before timing out."
            )
        if self._completion.error is not None:
            raise self._completion.error
        return True

    def synchronize(self):
        """Wait until it is over."""
        self.wait()

    def block_current_stream(self):
        """Wait until it is over: the host has no streams."""
        self.wait()

    def source_rank(self):
        """The rank that a message came from."""
        return self._completion.source

    _source_rank = source_rank

    def result(self):
        """The tensors that it has filled."""
        self.wait()
        return self._result

    def get_future(self):
        """A ``Future`` of the list of tensors that it fills."""
        return self._completion.future_of(self._result)


class Task:
    """One collective that waits for its turn."""

    __slots__ = ("call", "body", "completion", "timeout")

    def __init__(self, call, body, completion, timeout):
        self.call, self.body = call, body
        self.completion, self.timeout = completion, timeout


class Executor:
    """Runs the collectives of a group in the order they are asked for.

    One that the caller waits for anyway, with none before it, runs on the caller's
    thread: no hand-over, no second wake-up. Others run on a thread of the group.

    Args:
        channel: what they run over; None in a group of one process.
    """

    def __init__(self, channel):
        self.channel = channel
        self.recorder = FlightRecorder()
        self.changed = threading.Condition()
        self.queue, self.busy = deque(), False
        self.thread, self.closing = None, False

    def run(self, call, body, timeout=None):
        """Run a collective and wait for it.

        Args:
            call: what it is.
            body: does it.
            timeout: seconds, where they are not the group's.
        """
        with self.changed:
            inline = not (self.busy or self.queue)
            if inline:
                self.busy = True
        if not inline:
            self.submit(call, body, (), timeout).wait()
            return
        try:
            self._execute(call, body, timeout)
        finally:
            with self.changed:
                self.busy = False
                if self.queue:
                    self.changed.notify_all()

    def submit(self, call, body, result=(), timeout=None):
        """Put a collective behind those asked for before.

        Args:
            call: what it is.
            body: does it.
            result: the tensors that it fills.
            timeout: seconds, where they are not the group's.

        Returns:
            Its ``Work``.
        """
        work = Work(result)
        work._executor = self
        with self.changed:
            self.queue.append(Task(call, body, work._completion, timeout))
            if self.thread is None:
                self.thread = threading.Thread(
                    target=self._serve, name="rushlight-collectives", daemon=True
                )
                self.thread.start()
            self.changed.notify_all()
        return work

    def _execute(self, call, body, timeout):
        entry = self.recorder.record(call)
        channel = self.channel
        if channel is None:
            body()
        else:
            channel.begin(call, timeout)
            entry[1] = "started"
            try:
                body()
            except BaseException as error:
                entry[1] = "failed"
                if not isinstance(error, DistBackendError):
                    channel.fail(f"rank {channel.rank} raised {error!r}", channel.rank)
                self.recorder.write_file()
                raise
        entry[1], entry[3] = "completed", time.time()

    def _serve(self):
        while True:
            with self.changed:
                self.changed.wait_for(
                    lambda: self.closing or (self.queue and not self.busy)
                )
                if self.closing and not self.queue:
                    return
                if self.busy:
                    continue
                task = self.queue.popleft()
                self.busy = True
            self._run_task(task)

    def _run_task(self, task):
        error = None
        try:
            self._execute(task.call, task.body, task.timeout)
        except BaseException as fault:
            error = fault
            if not isinstance(fault, Exception):
                raise
        finally:
            task.body = None  # its tensors go before anyone hears that it is over
            with self.changed:
                self.busy = False
                self.changed.notify_all()
            task.completion.finish(error)

    def help(self, work):
        """Run what is in the queue, up to one that is waited for, on this thread.

        Args:
            work: what is waited for.
        """
        while not work.is_completed():
            with self.changed:
                self.changed.wait_for(lambda: not self.busy)
                if not self.queue:
                    return  # it is just being finished
                task = self.queue.popleft()
                self.busy = True
            self._run_task(task)

    def between(self, body):
        """Run something between collectives that is none.

        Args:
            body: does it.
        """
        with self.changed:
            self.changed.wait_for(lambda: not (self.busy or self.queue))
            self.busy = True
        try:
            body()
        finally:
            with self.changed:
                self.busy = False
                self.changed.notify_all()

    def drain(self, patience=None):
        """Wait until nothing is on its way; whether that came in time.

        Args:
            patience: seconds; any time without it.
        """
        with self.changed:
            return self.changed.wait_for(
                lambda: not (self.queue or self.busy), patience
            )

    def close(self):
        """End the thread, once what has been asked for is over."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(5)
