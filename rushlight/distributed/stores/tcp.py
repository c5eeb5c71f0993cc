"""A store over sockets: one process serves, all are clients."""

import os
import socket
import threading
import time

from rushlight.distributed.errors import (
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from rushlight.distributed.stores.base import (
    DEFAULT_TIMEOUT,
    Store,
    as_bytes,
    as_count,
    as_key,
    seconds,
)
from rushlight.distributed.stores.protocol import Method, Status, pack, read_message
from rushlight.distributed.stores.server import Server, bind

GRACE_SECONDS = 5.0  # how long after a request's own timeout the server may answer
JOIN_KEY = "init/"
_servers: dict = {}


def serve(host, port, multi_tenant, listen_fd):
    """A server in this process: a new one, or with ``multi_tenant`` the port's own.

    Args:
        host: the address that it listens on.
        port: the port; 0 takes a free one.
        multi_tenant: whether stores of this process may share a server.
        listen_fd: a socket that listens already, or None.
    """
    server = _servers.get(port) if multi_tenant and port else None
    if server is None:
        if listen_fd is None:
            listener = bind(host, port)
        else:
            listener = socket.socket(fileno=os.dup(listen_fd))
        server = Server(listener)
        if multi_tenant:
            _servers[server.port] = server
    server.users += 1
    return server


def release(server):
    """End a server when the last store that uses it goes.

    One that stores may share stays: a process that joins again may find it before this
    one has left, and must not lose it.
    """
    server.users -= 1
    if server.users <= 0 and server.port not in _servers:
        server.close()


def connect(host, port, patience):
    """A connection to a server that may not listen yet.

    Args:
        host: its address.
        port: its port.
        patience: seconds to try for.

    Raises:
        DistNetworkError: it does not answer in time.
    """
    last, pause = time.monotonic() + patience, 0.005
    while True:
        left = last - time.monotonic()
        try:
            connection = socket.create_connection((host, port), max(left, 0.001))
            break
        except OSError as error:
            if left <= pause:
                raise DistNetworkError(
                    f"The client socket has timed out after {patience * 1000:.0f}ms "
                    f"while trying to connect to ({host}, {port})."
                ) from error
            time.sleep(pause)
            pause = min(pause * 2, 0.2)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection


class TCPStore(Store):
    """A store over sockets: one process serves, all are clients.

    Args:
        host_name: the address of the process that serves; it listens there alone.
        port: its port; 0, where ``is_master``, takes a free one.
        world_size: the number of processes, or None.
        is_master: whether this process serves.
        timeout: how long to wait for keys, and for others to join: a ``timedelta``.
        wait_for_workers: whether the one that serves waits for all others.
        multi_tenant: whether stores of this process may share a server.
        master_listen_fd: a socket that listens already, for the one that serves.
        use_libuv: PyTorch's choice of event loops; there is one here.

    >>> store = TCPStore("127.0.0.1", 0, 1, is_master=True)
    >>> store.set("key", "value")
    >>> store.get("key")
    b'value'
    """

    __module__ = "rushlight.distributed"

    def __init__(
        self,
        host_name,
        port,
        world_size=None,
        is_master=False,
        timeout=DEFAULT_TIMEOUT,
        wait_for_workers=True,
        multi_tenant=False,
        master_listen_fd=None,
        use_libuv=True,
    ):
        super().__init__()
        seconds(timeout)
        self._timeout, self._lock, self._server = timeout, threading.Lock(), None
        self._connection, self._incoming = None, bytearray()
        self._host, self._port = host_name, port
        self._world_size = world_size
        if is_master:
            self._server = serve(host_name, port, multi_tenant, master_listen_fd)
            self._port = self._server.port
        self._connection = connect(host_name, self._port, seconds(timeout))
        if wait_for_workers and world_size is not None and world_size > 0:
            self._join(world_size, is_master)

    def _join(self, world_size, is_master):
        joined = self.add(JOIN_KEY, 1)
        last = time.monotonic() + self._patience(None)
        while is_master and joined < world_size:
            if time.monotonic() >= last:
                raise DistStoreError(
                    f"Timed out after {1 + int(self._patience(None))} seconds waiting "
                    f"for clients. {joined}/{world_size} clients joined."
                )
            time.sleep(0.005)
            joined = self.add(JOIN_KEY, 0)

    def __repr__(self):
        server = f", server=TCPServer(port={self._port})" if self._server else ""
        return f"TCPStore(client=TCPClient({self._host}:{self._port}){server})"

    @property
    def host(self):
        """The address of the process that serves."""
        return self._host

    @property
    def port(self):
        """Its port."""
        return self._port

    @property
    def libuvBackend(self):
        """Whether the server has an event loop: yes."""
        return True

    def _ask(self, method, fields, patience=0.0, keys=()):
        """One request and its answer's fields."""
        with self._lock:
            self._connection.settimeout(patience + GRACE_SECONDS)
            try:
                self._connection.sendall(pack(method, fields))
                status, found = self._receive()
            except TimeoutError:
                self._connection.close()  # an answer that comes late is not the next's
                raise DistNetworkError(
                    f"{method.name}: the server of the store at "
                    f"{self._host}:{self._port} has not answered"
                ) from None
            except OSError as error:
                raise DistNetworkError(error.strerror or str(error)) from error
        if status == Status.TIMEOUT:
            names = ", ".join("/" + key for key in keys)
            raise DistStoreError(
                f"wait timeout after {patience * 1000:.0f}ms, keys: {names}"
            )
        if status == Status.EMPTY:
            raise QueueEmptyError("queue is empty")
        if status == Status.WRONG_VALUE:
            raise DistStoreError(f"{method.name}: {found[0].decode()}")
        return found

    def _receive(self):
        while (message := read_message(self._incoming)) is None:
            data = self._connection.recv(1 << 16)
            if not data:
                raise DistNetworkError(
                    "Failed to recv, got 0 bytes. Connection was likely closed. Did "
                    "the remote server shutdown or crash?\n"
                    f"  server: {self._host}:{self._port}"
                )
            self._incoming += data
        return message

    def _ask_waiting(self, method, keys, timeout):
        patience = self._patience(timeout)
        if patience <= 0:
            patience = 1e-3
        fields = [repr(patience).encode(), *(as_key(key).encode() for key in keys)]
        return self._ask(method, fields, patience, keys)

    def set(self, key, value):
        """Set a key."""
        self._ask(Method.SET, [as_key(key, "set").encode(), as_bytes(value)])

    def get(self, key):
        """The value of a key, waited for.

        Raises:
            DistStoreError: it is not set in time.
        """
        return self._ask_waiting(Method.GET, [key], None)[0]

    def wait(self, keys, timeout=None):
        """Wait until all keys are set.

        Raises:
            DistStoreError: they are not in time.
        """
        self._ask_waiting(Method.WAIT, keys, timeout)

    def add(self, key, amount):
        """Add to the integer that a key has; the sum."""
        amount = str(as_count(amount)).encode()
        return int(self._ask(Method.ADD, [as_key(key, "add").encode(), amount])[0])

    def compare_set(self, key, expected_value, desired_value):
        """Set a key that has the expected value; the value that it has then."""
        fields = [
            as_key(key).encode(),
            as_bytes(expected_value),
            as_bytes(desired_value),
        ]
        return self._ask(Method.COMPARE_SET, fields)[0]

    def check(self, keys):
        """Whether all keys are set."""
        return self._ask(Method.CHECK, [as_key(k).encode() for k in keys])[0] == b"1"

    def delete_key(self, key):
        """Take a key away; whether it was set."""
        return self._ask(Method.DELETE, [as_key(key).encode()])[0] == b"1"

    def num_keys(self):
        """The number of keys, the count of those who joined among them."""
        return int(self._ask(Method.NUM_KEYS, [])[0])

    def list_keys(self):
        """All keys."""
        return [key.decode() for key in self._ask(Method.LIST_KEYS, [])]

    def append(self, key, value):
        """Put a value behind the one that a key has, or set it."""
        self._ask(Method.APPEND, [as_key(key).encode(), as_bytes(value, "append")])

    def multi_get(self, keys):
        """The values of several keys, waited for."""
        return self._ask_waiting(Method.GET, keys, None) if keys else []

    def multi_set(self, keys, values):
        """Set several keys at once."""
        fields = []
        for key, value in zip(keys, values, strict=True):
            fields += (as_key(key).encode(), as_bytes(value, "multi_set"))
        self._ask(Method.MULTI_SET, fields)

    def has_extended_api(self):
        """Whether the store has ``append``, ``multi_get`` and ``multi_set``: yes."""
        return True

    def queue_push(self, key, value):
        """Put a value at the end of a queue."""
        self._ask(Method.QUEUE_PUSH, [as_key(key).encode(), as_bytes(value)])

    def queue_pop(self, key, block=True):
        """Take the first value of a queue.

        Args:
            key: the queue.
            block: whether to wait for a value.

        Raises:
            QueueEmptyError: there is none, and ``block`` is false.
            DistStoreError: none came in time.
        """
        if block:
            return self._ask_waiting(Method.QUEUE_POP, [key], None)[0]
        return self._ask(Method.QUEUE_POP, [b"0", as_key(key).encode()])[0]

    def queue_len(self, key):
        """The number of values in a queue."""
        return int(self._ask(Method.QUEUE_LEN, [as_key(key).encode()])[0])

    def clone(self):
        """Another connection to the same server."""
        return TCPStore(
            self._host,
            self._port,
            self._world_size,
            timeout=self._timeout,
            wait_for_workers=False,
        )

    def __del__(self):
        if getattr(self, "_connection", None) is not None:
            self._connection.close()
        if getattr(self, "_server", None) is not None:
            release(self._server)
