"""A store in memory: for the threads of one process, and what a server keeps."""

import threading
from collections import deque

from rushlight.distributed.errors import DistStoreError, QueueEmptyError
from rushlight.distributed.stores.base import Store, as_bytes, as_count, as_key


class Table:
    """Keys, values and queues; who calls it keeps others out meanwhile."""

    def __init__(self):
        self.values, self.queues = {}, {}

    def add(self, key, amount):
        """Add to the integer that a key has; the sum.

        Raises:
            ValueError: the value is no integer.
        """
        total = int(self.values.get(key, b"0")) + amount
        self.values[key] = str(total).encode()
        return total

    def compare_set(self, key, expected, desired):
        """Set a key that has the expected value, or none while nothing is expected.

        Args:
            key: the key.
            expected: the value that it must have; empty for a key that is not set.
            desired: the value that it gets.

        Returns:
            The value that the key has then; ``expected`` where it has none.
        """
        current = self.values.get(key)
        if current == expected or (current is None and not expected):
            self.values[key] = desired
            return desired
        return expected if current is None else current

    def append(self, key, value):
        """Put a value behind the one that a key has."""
        self.values[key] = self.values.get(key, b"") + value

    def delete(self, key):
        """Take a key away; whether it was set."""
        return self.values.pop(key, None) is not None

    def has(self, keys):
        """Whether all keys are set."""
        return all(key in self.values for key in keys)

    def push(self, key, value):
        """Put a value at the end of a queue."""
        self.queues.setdefault(key, deque()).append(value)

    def pop(self, key):
        """The first value of a queue; None where it is empty."""
        queue = self.queues.get(key)
        if not queue:
            return None
        value = queue.popleft()
        if not queue:
            del self.queues[key]
        return value

    def length(self, key):
        """The number of values in a queue."""
        return len(self.queues.get(key, ()))


class HashStore(Store):
    """A store in memory, for the threads of one process.

    >>> store = HashStore()
    >>> store.set("first", "1")
    >>> store.add("count", 2), store.add("count", 3), store.get("first")
    (2, 5, b'1')
    """

    __module__ = "rushlight.distributed"

    def __init__(self):
        super().__init__()
        self._table = Table()
        self._changed = threading.Condition()

    def _wait_for(self, ready, timeout):
        """Wait, with the lock held, until ``ready()`` is true."""
        if not self._changed.wait_for(ready, self._patience(timeout)):
            raise DistStoreError("Wait timeout")

    def set(self, key, value):
        """Set a key."""
        key, value = as_key(key, "set"), as_bytes(value)
        with self._changed:
            self._table.values[key] = value
            self._changed.notify_all()

    def get(self, key):
        """The value of a key, waited for.

        Raises:
            DistStoreError: it is not set in time.
        """
        with self._changed:
            self._wait_for(lambda: key in self._table.values, None)
            return self._table.values[key]

    def wait(self, keys, timeout=None):
        """Wait until all keys are set.

        Raises:
            DistStoreError: they are not in time.
        """
        with self._changed:
            self._wait_for(lambda: self._table.has(keys), timeout)

    def add(self, key, amount):
        """Add to the integer that a key has; the sum."""
        amount = as_count(amount)
        with self._changed:
            total = self._table.add(as_key(key, "add"), amount)
            self._changed.notify_all()
            return total

    def compare_set(self, key, expected_value, desired_value):
        """Set a key that has the expected value; the value that it has then."""
        pair = as_bytes(expected_value), as_bytes(desired_value)
        with self._changed:
            found = self._table.compare_set(as_key(key), *pair)
            self._changed.notify_all()
            return found

    def check(self, keys):
        """Whether all keys are set."""
        with self._changed:
            return self._table.has(keys)

    def delete_key(self, key):
        """Take a key away; whether it was set."""
        with self._changed:
            return self._table.delete(key)

    def num_keys(self):
        """The number of keys."""
        return len(self._table.values)

    def list_keys(self):
        """All keys."""
        with self._changed:
            return list(self._table.values)

    def append(self, key, value):
        """Put a value behind the one that a key has, or set it."""
        with self._changed:
            self._table.append(as_key(key, "append"), as_bytes(value, "append"))
            self._changed.notify_all()

    def has_extended_api(self):
        """Whether the store has ``append``, ``multi_get`` and ``multi_set``: yes."""
        return True

    def queue_push(self, key, value):
        """Put a value at the end of a queue."""
        with self._changed:
            self._table.push(as_key(key), as_bytes(value, "queue_push"))
            self._changed.notify_all()

    def queue_pop(self, key, block=True):
        """Take the first value of a queue.

        Args:
            key: the queue.
            block: whether to wait for a value.

        Raises:
            QueueEmptyError: there is none, and ``block`` is false.
            DistStoreError: none came in time.
        """
        with self._changed:
            if not block and not self._table.length(key):
                raise QueueEmptyError("queue is empty")
            self._wait_for(lambda: self._table.length(key), None)
            return self._table.pop(key)

    def queue_len(self, key):
        """The number of values in a queue."""
        return self._table.length(key)

    def clone(self):
        """The store itself: threads share it."""
        return self
