"""What every store can do, and a store whose keys share a prefix of another's."""

from datetime import timedelta

DEFAULT_TIMEOUT = timedelta(seconds=300)


def as_bytes(value, method="set"):
    """A value of a store: bytes, or text in UTF-8.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(
        f"{method}(): incompatible function arguments. A value is str or bytes, not "
        f"{type(value).__name__}"
    )


def as_key(key, method="get"):
    """A key of a store: text.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(key, str):
        return key
    raise TypeError(
        f"{method}(): incompatible function arguments. A key is str, not "
        f"{type(key).__name__}"
    )


def as_count(amount):
    """An integer that ``add`` takes.

    Raises:
        TypeError: it is none.
    """
    try:
        return amount.__index__()
    except AttributeError:
        raise TypeError(
            "add(): incompatible function arguments. The amount is int, not "
            f"{type(amount).__name__}"
        ) from None


def seconds(timeout):
    """The length of a ``timedelta`` in seconds.

    Raises:
        TypeError: it is none.
    """
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    raise TypeError(
        f"incompatible function arguments: a timeout is a timedelta, not {timeout!r}"
    )


class Store:
    """Where processes meet: keys with values that all of them see.

    A subclass has ``set``, ``get``, ``add``, ``wait``, ``check``, ``compare_set``,
    ``delete_key`` and ``num_keys``; what is made of these is here.
    """

    __module__ = "rushlight.distributed"

    def __init__(self):
        self._timeout = DEFAULT_TIMEOUT

    @property
    def timeout(self):
        """How long ``get`` and ``wait`` wait for a key, a ``timedelta``."""
        return self._timeout

    def set_timeout(self, timeout):
        """Set how long ``get`` and ``wait`` wait.

        Args:
            timeout: a ``timedelta``.
        """
        seconds(timeout)
        self._timeout = timeout

    def _patience(self, timeout):
        """The seconds of a call's own timeout, or of the store's."""
        return seconds(self.timeout if timeout is None else timeout)

    def _missing(self, method):
        raise NotImplementedError(f"{method} support is not implemented.")

    def multi_get(self, keys):
        """The values of several keys, waited for.

        Args:
            keys: a list of keys.
        """
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        """Set several keys.

        Args:
            keys: a list of keys.
            values: a value for each.
        """
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def append(self, key, value):
        """Put a value behind the one that a key has, or set it."""
        self._missing("append")

    def queue_push(self, key, value):
        """Put a value at the end of a queue."""
        self._missing("queue")

    def queue_pop(self, key, block=True):
        """Take the first value of a queue."""
        self._missing("queue")

    def queue_len(self, key):
        """The number of values in a queue."""
        self._missing("queue")

    def list_keys(self):
        """All keys."""
        self._missing("list_keys")

    def has_extended_api(self):
        """Whether the store has ``append``, ``multi_get`` and ``multi_set``."""
        return False

    def clone(self):
        """Another store with the same contents, with a connection of its own."""
        self._missing("clone")

    def barrier(self, key, world_size, timeout=None):
        """Wait until as many processes have come to a key.

        Args:
            key: a key that nothing else uses.
            world_size: the number of processes.
            timeout: a ``timedelta``; the store's own without it.
        """
        if self.add(key + "/count", 1) >= world_size:
            self.set(key + "/all", b"1")
        waited = self.timeout if timeout is None else timeout
        self.wait([key + "/all"], waited)


class PrefixStore(Store):
    """A store whose keys are another's, with a prefix and a slash before them.

    Args:
        prefix: the text before each key.
        store: the other store.

    >>> from rushlight.distributed import HashStore
    >>> whole = HashStore()
    >>> PrefixStore("step", whole).set("loss", "1.5")
    >>> whole.get("step/loss")
    b'1.5'
    """

    __module__ = "rushlight.distributed"

    def __init__(self, prefix, store):
        super().__init__()
        self._prefix, self._store = as_key(prefix), store

    @property
    def prefix(self):
        """The text before each key."""
        return self._prefix

    @property
    def underlying_store(self):
        """The store below."""
        return self._store

    @property
    def _underlying_non_prefix_store(self):
        below = self._store
        while isinstance(below, PrefixStore):
            below = below.underlying_store
        return below

    @property
    def timeout(self):
        """The timeout of the store below."""
        return self._store.timeout

    def set_timeout(self, timeout):
        """Set the timeout of the store below."""
        self._store.set_timeout(timeout)

    def _long(self, key):
        return f"{self._prefix}/{as_key(key)}"

    def _longs(self, keys):
        return [self._long(key) for key in keys]

    def num_keys(self):
        """The number of keys of the store below."""
        return self._store.num_keys()

    def list_keys(self):
        """The keys with this prefix, without it."""
        start = self._prefix + "/"
        found = self._store.list_keys()
        return [key.removeprefix(start) for key in found if key.startswith(start)]

    def has_extended_api(self):
        """As the store below."""
        return self._store.has_extended_api()

    def clone(self):
        """The same prefix over a clone of the store below."""
        return PrefixStore(self._prefix, self._store.clone())

    def wait(self, keys, timeout=None):
        """Wait until all keys are set."""
        if timeout is None:
            return self._store.wait(self._longs(keys))
        return self._store.wait(self._longs(keys), timeout)

    def check(self, keys):
        """Whether all keys are set."""
        return self._store.check(self._longs(keys))

    def multi_get(self, keys):
        """The values of several keys."""
        return self._store.multi_get(self._longs(keys))

    def multi_set(self, keys, values):
        """Set several keys."""
        return self._store.multi_set(self._longs(keys), values)


def _prefixed(name):
    def method(self, key, *args, **kwargs):
        return getattr(self._store, name)(self._long(key), *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"PrefixStore.{name}"
    method.__doc__ = f"``{name}`` of the store below, under the longer key."
    return method


for _name in """
    set get add compare_set delete_key append queue_push queue_pop queue_len
""".split():
    setattr(PrefixStore, _name, _prefixed(_name))
