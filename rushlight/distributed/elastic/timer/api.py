"""Limits of time for blocks: a process that outlives one is ended by its launcher.

The process says when a block is over at the latest; a thread of the launcher reads that from
a queue, and ends processes whose time is up.
"""

import abc
import logging
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from queue import Empty

__all__ = [
    "LocalTimerClient",
    "LocalTimerServer",
    "MultiprocessingRequestQueue",
    "RequestQueue",
    "TimerClient",
    "TimerRequest",
    "TimerServer",
    "configure",
    "expires",
]

logger = logging.getLogger(__name__)
RELEASED = -1


class TimerRequest:
    """When a block of a process is over at the latest.

    Args:
        worker_id: the process.
        scope_id: the block.
        expiration_time: seconds of the epoch; negative once the block is over.
    """

    __slots__ = ["worker_id", "scope_id", "expiration_time"]

    def __init__(self, worker_id, scope_id, expiration_time):
        self.worker_id, self.scope_id = worker_id, scope_id
        self.expiration_time = expiration_time

    def __eq__(self, other):
        if not isinstance(other, TimerRequest):
            return False
        return all(getattr(self, n) == getattr(other, n) for n in self.__slots__)

    __hash__ = None


class TimerClient(abc.ABC):
    """Tells a server of the blocks of its process."""

    @abc.abstractmethod
    def acquire(self, scope_id, expiration_time):
        """A block begins.

        Args:
            scope_id: the block.
            expiration_time: when it is over at the latest.
        """

    @abc.abstractmethod
    def release(self, scope_id):
        """A block is over.

        Args:
            scope_id: the block.
        """


class RequestQueue(abc.ABC):
    """Where a server reads what clients have told."""

    @abc.abstractmethod
    def size(self):
        """How many requests are there."""

    @abc.abstractmethod
    def get(self, size, timeout):
        """Some requests.

        Args:
            size: how many at most.
            timeout: seconds to wait for them.
        """


class TimerServer(abc.ABC):
    """Ends processes whose time is up.

    Args:
        request_queue: a `RequestQueue`.
        max_interval: seconds between two looks.
        daemon: whether the program may end while it looks.
    """

    def __init__(self, request_queue, max_interval, daemon=True):
        self._request_queue, self._max_interval = request_queue, max_interval
        self._daemon, self._watchdog_thread = daemon, None
        self._stop_signaled = False

    @abc.abstractmethod
    def register_timers(self, timer_requests):
        """Take what clients have told.

        Args:
            timer_requests: a list of `TimerRequest`.
        """

    @abc.abstractmethod
    def clear_timers(self, worker_ids):
        """Forget the blocks of processes.

        Args:
            worker_ids: a set of them.
        """

    @abc.abstractmethod
    def get_expired_timers(self, deadline):
        """Process -> its requests whose time is up.

        Args:
            deadline: seconds of the epoch.
        """

    @abc.abstractmethod
    def _reap_worker(self, worker_id):
        """End a process; whether it has ended."""

    def _end(self, worker_id):
        try:
            return self._reap_worker(worker_id)
        except Exception:
            logger.exception("worker %s: _reap_worker has raised", worker_id)
            return True

    def _run_watchdog(self):
        """Read what there is, and end whose time is up."""
        count = max(1, self._request_queue.size())
        self.register_timers(self._request_queue.get(count, self._max_interval))
        ended = set()
        for worker_id, late in self.get_expired_timers(time.time()).items():
            scopes = [each.scope_id for each in late]
            logger.info("worker %s is ended: %s took too long", worker_id, scopes)
            if self._end(worker_id):
                ended.add(worker_id)
        self.clear_timers(ended)

    def _serve(self):
        while not self._stop_signaled:
            try:
                self._run_watchdog()
            except Exception:
                logger.exception("the watchdog has raised")

    def start(self):
        """Begin to look."""
        self._watchdog_thread = threading.Thread(
            target=self._serve, daemon=self._daemon
        )
        self._watchdog_thread.start()

    def stop(self):
        """Look no more."""
        self._stop_signaled = True
        if self._watchdog_thread is not None:
            self._watchdog_thread.join(self._max_interval)
            self._watchdog_thread = None


_client: list = [None]


def configure(timer_client):
    """Say who is told of blocks.

    Args:
        timer_client: a `TimerClient`.
    """
    _client[0] = timer_client


@contextmanager
def expires(after, scope=None, client=None):
    """Have this process ended where the block takes too long.

    Args:
        after: seconds that it may take.
        scope: the block's name; its file and line without it.
        client: who is told; as `configure` says without it.

    Raises:
        RuntimeError: nobody is to be told.
    """
    client = _client[0] if client is None else client
    if client is None:
        raise RuntimeError("Configure timer client before using countdown timers.")
    if scope is None:
        frame = sys._getframe(2)  # contextlib's is between
        scope = f"{frame.f_code.co_filename}#{frame.f_lineno}"
    client.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        client.release(scope)


class LocalTimerClient(TimerClient):
    """Tells a server of the same machine, by the number of the process.

    Args:
        mp_queue: a queue of ``multiprocessing``.
    """

    def __init__(self, mp_queue):
        self._mp_queue = mp_queue

    def acquire(self, scope_id, expiration_time):
        """A block begins.

        Args:
            scope_id: the block.
            expiration_time: when it is over at the latest.
        """
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id):
        """A block is over.

        Args:
            scope_id: the block.
        """
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, RELEASED))


class MultiprocessingRequestQueue(RequestQueue):
    """Requests from a queue of ``multiprocessing``.

    Args:
        mp_queue: the queue.
    """

    def __init__(self, mp_queue):
        self._mp_queue = mp_queue

    def size(self):
        """How many requests are there."""
        return self._mp_queue.qsize()

    def get(self, size, timeout):
        """Some requests.

        Args:
            size: how many at most.
            timeout: seconds to wait for them.
        """
        found, last = [], time.time() + timeout
        while len(found) < size and (left := last - time.time()) > 0:
            try:
                found.append(self._mp_queue.get(timeout=left))
            except Empty:
                break
        return found


class LocalTimerServer(TimerServer):
    """Ends processes of the same machine whose time is up.

    Args:
        mp_queue: a queue of ``multiprocessing``, the clients' too.
        max_interval: seconds between two looks.
        daemon: whether the program may end while it looks.
    """

    def __init__(self, mp_queue, max_interval=60, daemon=True):
        super().__init__(MultiprocessingRequestQueue(mp_queue), max_interval, daemon)
        self._timers: dict = {}

    def register_timers(self, timer_requests):
        """Take what clients have told.

        Args:
            timer_requests: a list of `TimerRequest`.
        """
        for each in timer_requests:
            key = each.worker_id, each.scope_id
            if each.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = each

    def clear_timers(self, worker_ids):
        """Forget the blocks of processes.

        Args:
            worker_ids: a set of them.
        """
        kept = {k: v for k, v in self._timers.items() if k[0] not in worker_ids}
        self._timers = kept

    def get_expired_timers(self, deadline):
        """Process -> its requests whose time is up.

        Args:
            deadline: seconds of the epoch.
        """
        found: dict = {}
        for each in self._timers.values():
            if each.expiration_time <= deadline:
                found.setdefault(each.worker_id, []).append(each)
        return found

    def _reap_worker(self, worker_id):
        try:
            os.kill(worker_id, signal.SIGKILL)
        except ProcessLookupError:
            return True  # it has ended by itself
        except OSError:
            logger.exception("worker %s cannot be ended", worker_id)
            return False
        return True
