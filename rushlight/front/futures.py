"""Results that come later."""

import threading
import types

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value, or an exception, that another thread sets.

    >>> future = Future()
    >>> doubled = future.then(lambda done: done.value() * 2)
    >>> future.set_result(3)
    >>> doubled.wait()
    6
    """

    def __init__(self, *, devices=None):
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list = []
        self._result = self._error = None

    __class_getitem__ = classmethod(types.GenericAlias)

    def done(self):
        """Whether the value is there."""
        return self._event.is_set()

    def wait(self):
        """The value, once it is there; raises what was set in its place."""
        self._event.wait()
        return self.value()

    def value(self):
        """The value, which must be there.

        Raises:
            RuntimeError: it is not yet.
        """
        if not self.done():
            raise RuntimeError(
                "Future is not completed: value() needs done(); use wait()"
            )
        if self._error is not None:
            raise self._error
        return self._result

    def set_result(self, result):
        """Sets the value and runs what waits for it.

        Raises:
            RuntimeError: it has been set.
        """
        self._finish(result, None)

    def set_exception(self, result):
        """Sets an exception that ``wait`` raises."""
        if not isinstance(result, Exception):
            raise AssertionError(
                f"{result} is of type {type(result)}, not an Exception."
            )
        self._finish(None, result)

    def _finish(self, result, error):
        with self._lock:
            if self.done():
                raise RuntimeError("Future can only be completed once")
            self._result, self._error = result, error
            self._event.set()
        for callback in self._callbacks:
            callback(self)
        self._callbacks.clear()

    def add_done_callback(self, callback):
        """Calls ``callback(future)`` once the value is there: now, if it is."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback):
        """The future of what ``callback(future)`` returns."""
        following = type(self)()

        def run(done):
            try:
                following.set_result(callback(done))
            except Exception as error:
                following.set_exception(error)

        self.add_done_callback(run)
        return following


def collect_all(futures):
    """The future of the list of all the futures, when each is done."""
    gathered: Future = Future()
    futures = list(futures)
    left = [len(futures)]
    lock = threading.Lock()

    def one_done(_):
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            gathered.set_result(futures)

    if not futures:
        gathered.set_result(futures)
    for future in futures:
        future.add_done_callback(one_done)
    return gathered


def wait_all(futures):
    """The values of all the futures.

    >>> one = Future()
    >>> one.set_result(1)
    >>> wait_all([one])
    [1]
    """
    return [future.wait() for future in collect_all(futures).wait()]
