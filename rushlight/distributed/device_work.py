"""Collectives between devices on their way, and the thread that looks after them."""

import threading
import time

from rushlight.core.facts import storage_of
from rushlight.distributed.collectives.devices import on_queue
from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.stores.base import seconds
from rushlight.distributed.work import Work
from rushlight.futures import Future
from rushlight.runtime.cuda import contexts
from rushlight.runtime.cuda.streams import Event
from rushlight.utils._pytree import tree_leaves

INTERVAL = 0.1  # seconds between two looks
GRACE = 0.3  # how long after a rank has gone a collective that it began may end


class _Failure:
    """What a device answers once work on it was ended in the midst.

    Args:
        error: why.
    """

    def __init__(self, error):
        self.error = error

    def look(self):
        """Raise it: whoever waits for the device would read what is not there."""
        raise self.error


class DeviceFuture(Future):
    """A value that a queue of a device is to fill: who asks for it makes its queue wait.

    Args:
        work: what says when it is there: has ``event`` and ``check``.
    """

    def __init__(self, work):
        super().__init__()
        self._work = work

    def value(self):
        """The value; this thread's queue waits until it is filled."""
        found = super().value()
        follow(self._work, found)
        return found

    def then(self, callback):
        """The future of what ``callback(future)`` returns, on a queue of its own."""
        context = self._work.event.ctx
        queue = context.streams.give()
        following = _Moment(context)
        future = DeviceFuture(following)
        queue.wait_event(self._work.event)
        with on_queue(queue):
            try:
                found = callback(self)
            except Exception as error:
                future.set_exception(error)
                return future
        following.event.record(queue)
        future.set_result(found)
        return future


class _Moment:
    """A moment in a queue that nothing can go wrong before."""

    def __init__(self, context):
        self.event = Event(context)

    def check(self):
        """Nothing has failed."""


def follow(work, values):
    """Make this thread's queue wait for some work, and own its values until then.

    Args:
        work: has ``event`` and ``check``.
        values: tensors of the work's device, in whatever.
    """
    work.check()
    context = work.event.ctx
    queue = contexts.current_stream(context)
    queue.wait_event(work.event)
    for each in tree_leaves(values):
        if getattr(each, "is_cuda", False):
            context.allocator.used_by(storage_of(each).data_ptr(), queue)


class DeviceWork(Work):
    """A collective between devices, or a message, in a queue.

    Args:
        call: what it is, as errors say it.
        result: the tensors that it fills.
        kept: all tensors that must stay until it is over.
        patience: seconds that it may take.
    """

    __module__ = "rushlight.distributed"

    def __init__(self, call, result, kept, patience):
        super().__init__(result)
        self.call, self.kept, self.patience = call, kept, patience
        self.began, self.event = time.monotonic(), None
        self.position = self.peer = None  # of a collective; of a message
        self.entries: list = []  # of the flight recorder
        self.blocks = False  # whether who waits is to wait on the host

    def record(self, queue):
        """Note the moment when it is over: when all that is in a queue now is."""
        self.event = Event(queue.ctx)
        self.event.record(queue)

    def check(self):
        """Raise what it failed with."""
        if self._completion.error is not None:
            raise self._completion.error

    def settle(self):
        """Whether it is over: looked for in the queue."""
        if self._done.is_set():
            return True
        if not self.event.query():
            return False
        self.end()
        return True

    def end(self, error=None):
        """Say that it is over.

        Args:
            error: what it failed with.
        """
        self.kept = ()
        for each in self.entries:
            each[1] = "completed" if error is None else "failed"
            each[3] = time.time() if error is None else None
        self._completion.finish(error)

    def is_completed(self):
        """Whether it is over, well or not."""
        return self.settle()

    def is_success(self):
        """Whether it is over, and well."""
        return self.settle() and self._completion.error is None

    def wait(self, timeout=None):
        """Make this thread's queue wait until it is over; the host goes on.

        Args:
            timeout: a ``timedelta``: with it, the host waits too.

        Returns:
            True.

        Raises:
            DistBackendError: it failed, or is not over in time.
        """
        self.check()
        contexts.current_stream(self.event.ctx).wait_event(self.event)
        if timeout is not None:
            self._await(seconds(timeout))
        elif self.blocks:
            self.event.synchronize()
            self.check()
        self.kept = ()
        return True

    def _await(self, patience):
        until = time.monotonic() + patience
        while not self.settle():
            if time.monotonic() > until:
                raise DistBackendError(
                    f"Work ran for {patience * 1000:.0f} milliseconds before timing "
                    f"out.\n  work: {self.call}"
                )
            time.sleep(0.001)
        self.check()

    def synchronize(self):
        """Make this thread's queue wait until it is over."""
        self.wait()

    block_current_stream = synchronize

    def result(self):
        """The tensors that it fills; this thread's queue waits for them."""
        self.wait()
        return self._result

    def get_future(self):
        """A ``Future`` of the tensors: done at once, as far as the host goes."""
        future = DeviceFuture(self)
        future.set_result(self._result)
        return future


class Watchdog:
    """Looks after the work of a group that is on its way: ends the group where a rank is
    lost, late, or does something else.

    Args:
        group: the group.
    """

    def __init__(self, group):
        self.group, self.works = group, []
        self.lock = threading.Lock()
        self.changed, self.closing = threading.Event(), False
        self.gone: dict = {}  # rank -> when it was first seen to be gone
        self.thread = None

    def add(self, work):
        """Look after one more.

        Args:
            work: a `DeviceWork`.
        """
        with self.lock:
            self.works.append(work)
            if self.thread is None:
                self.thread = threading.Thread(
                    target=self._serve, name="rushlight-watchdog", daemon=True
                )
                self.thread.start()
        self.changed.set()

    def _serve(self):
        while not self.closing:
            if not self.pending():
                self.changed.clear()
                if not self.works:
                    self.changed.wait()
            else:
                try:
                    self.look()
                except DistBackendError as error:
                    self.fail(error)
                except RuntimeError as error:  # of the device, or of the library
                    self.fail(DistBackendError(str(error)))
            time.sleep(INTERVAL)

    def pending(self):
        """The works that are not over."""
        if self.closing:
            return []
        with self.lock:
            works = list(self.works)
        over = [each for each in works if each.settle()]
        with self.lock:
            self.works = [each for each in self.works if each not in over]
            return list(self.works)

    def look(self):
        """Raise what keeps work from ever being over."""
        works = self.pending()
        if not works:
            return
        self.group._look()
        self._look_at_peers(works)
        for each in self.group._communicators.every():
            if text := each.error():
                raise self.group._refuse(f"{text}\n  work: {works[0].call}")
        now = time.monotonic()
        for each in works:
            if now - each.began > each.patience:
                self._late(each, now)

    def _look_at_peers(self, works):
        channel, now = self.group._channel, time.monotonic()
        for rank, peer in channel.peers.items() if channel else ():
            if not peer.closed or not any(self._needs(each, peer) for each in works):
                self.gone.pop(rank, None)
            elif now - self.gone.setdefault(rank, now) > GRACE:
                why = peer.lost or "it has left the group"
                raise self.group._refuse(
                    f"rank {rank} is lost: {why}\n  work: {works[0].call}", rank
                )

    def _needs(self, work, peer):
        """Whether work cannot end without a rank that has gone."""
        if work.position is None:
            return work.peer in (None, peer.rank)
        return bool(peer.lost) or peer.mark < work.position

    def _late(self, work, now):
        peers = self.group._channel.peers if self.group._channel else {}
        missing = [
            rank
            for rank, peer in peers.items()
            if work.position is not None and peer.mark < work.position
        ]
        text = (
            f"Watchdog caught collective operation timeout: {work.call} ran for "
            f"{(now - work.began) * 1000:.0f} milliseconds before timing out "
            f"(Timeout(ms)={work.patience * 1000:.0f})"
        )
        if missing:
            text += f"\n  have not begun it: ranks {missing}"
        raise self.group._refuse(text, missing[0] if missing else self.group.rank())

    def fail(self, error):
        """End the group: all work fails, and devices that were to fill tensors say so.

        Args:
            error: why.
        """
        with self.lock:
            works, self.works = self.works, []
            self.closing = True
        self.group._failure = error
        for context in {each.event.ctx for each in works}:
            context.look_later(_Failure(error), None)
        for each in works:
            each.end(error)
        self.group._abort_communicators()
        self.group._executor.recorder.write_file()

    def drain(self, patience):
        """Wait until nothing is on its way, or the group has failed.

        Args:
            patience: seconds.
        """
        until = time.monotonic() + patience
        while not self.closing and self.pending() and time.monotonic() < until:
            time.sleep(0.001)

    def close(self):
        """End the thread."""
        self.closing = True
        self.changed.set()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(5)
