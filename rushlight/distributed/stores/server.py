"""The process that keeps a store's values for all, on a thread of its own."""

import selectors
import socket
import threading
import time

from rushlight.distributed.errors import DistNetworkError
from rushlight.distributed.stores.memory import Table
from rushlight.distributed.stores.protocol import (
    Method,
    Status,
    pack,
    patience_of,
    read_message,
    request_of,
)


def bind(host, port):
    """A listening socket on the address of a host, loopback unless it names another.

    Args:
        host: a name or an address.
        port: a port; 0 takes a free one.

    Raises:
        DistNetworkError: the port is taken.
    """
    family, address = socket.AF_INET, host
    try:
        family, *_, (address, *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
    except OSError:
        address = ""  # a name that only others resolve
    for each in (address, ""):  # a forwarded address belongs to no interface here
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((each, port))
            listener.listen(1024)
            return listener
        except OSError as error:
            listener.close()
            fault = error
            if error.errno != 99:  # EADDRNOTAVAIL
                break
    raise DistNetworkError(
        "The server socket has failed to listen on any local network address. port: "
        f"{port}, useIpv6: false, code: -{fault.errno}, name: EADDRINUSE, message: "
        f"{fault.strerror.lower()}\n  remedy: another port, or 0 for a free one"
    )


class Client:
    """A connection of the server: what has come, what is to go."""

    def __init__(self, connection):
        self.connection = connection
        self.incoming, self.outgoing = bytearray(), bytearray()


class Waiting:
    """A request that is answered once keys or a queue are there."""

    def __init__(self, client, keys, deadline, ready, answer):
        self.client, self.keys, self.deadline = client, keys, deadline
        self.ready, self.answer = ready, answer


class Server:
    """Keeps values and answers requests, until its process ends or ``close``.

    Args:
        listener: a listening socket.
    """

    def __init__(self, listener):
        self.listener = listener
        self.port = listener.getsockname()[1]
        self.table, self.waiting, self.users = Table(), [], 0
        self.selector = selectors.DefaultSelector()
        self._stop, self._stopped = socket.socketpair()
        listener.setblocking(False)
        self.selector.register(listener, selectors.EVENT_READ, self._accept)
        self.selector.register(self._stopped, selectors.EVENT_READ, None)
        self.thread = threading.Thread(
            target=self._serve, name="rushlight-store", daemon=True
        )
        self.thread.start()

    def close(self):
        """End the thread and all connections."""
        self._stop.close()
        if self.thread is not threading.current_thread():
            self.thread.join(5)

    def _serve(self):
        while self._step():
            pass
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()

    def _step(self):
        deadlines = [each.deadline for each in self.waiting]
        # an hour at most: systems refuse to wait for ages
        rest = min(min(deadlines) - time.monotonic(), 3600) if deadlines else None
        for key, events in self.selector.select(rest):
            if key.data is None:
                return False
            if key.fileobj is self.listener:
                self._accept()
            else:
                self._talk(key.data, events)
        self._expire()
        return True

    def _accept(self):
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = Client(connection)
        self.selector.register(connection, selectors.EVENT_READ, client)

    def _drop(self, client):
        self.waiting = [each for each in self.waiting if each.client is not client]
        self.selector.unregister(client.connection)
        client.connection.close()

    def _talk(self, client, events):
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(client)
            if not events & selectors.EVENT_READ:
                return
            data = client.connection.recv(1 << 16)
            if not data:
                return self._drop(client)
            client.incoming += data
            while (message := read_message(client.incoming)) is not None:
                self._answer(client, *message)
        except BlockingIOError:
            pass
        except (OSError, ValueError, IndexError, UnicodeDecodeError):
            if client.connection.fileno() >= 0:
                self._drop(client)  # gone, or no client of a store

    def _flush(self, client):
        while client.outgoing:
            del client.outgoing[: client.connection.send(client.outgoing)]
        self.selector.modify(client.connection, selectors.EVENT_READ, client)

    def _send(self, client, status, fields=()):
        client.outgoing += pack(status, fields)
        try:
            self._flush(client)
        except BlockingIOError:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self.selector.modify(client.connection, both, client)
        except OSError:
            pass  # the next read says that it is gone

    def _expire(self):
        now = time.monotonic()
        late = [each for each in self.waiting if each.deadline <= now]
        for each in late:
            self.waiting.remove(each)
            self._send(each.client, Status.TIMEOUT)

    def _wake(self):
        """Answer those whose keys or queues are there now."""
        for each in list(self.waiting):
            if each.ready():
                self.waiting.remove(each)
                self._send(each.client, Status.DONE, each.answer())

    def _park(self, client, keys, patience, ready, answer):
        if ready():
            return self._send(client, Status.DONE, answer())
        if patience <= 0:
            return self._send(client, Status.EMPTY)
        deadline = time.monotonic() + patience
        self.waiting.append(Waiting(client, keys, deadline, ready, answer))

    def _answer(self, client, method, fields):
        method = request_of(method, fields)
        waits = {
            Method.GET: self._get,
            Method.WAIT: self._wait,
            Method.QUEUE_POP: self._pop,
        }.get(method)
        if waits is not None:
            return waits(client, fields)
        try:
            result = self._run(method, fields)
        except ValueError as error:
            return self._send(client, Status.WRONG_VALUE, [str(error).encode()])
        self._send(client, Status.DONE, result)
        self._wake()

    def _get(self, client, fields):
        patience, *keys = fields
        values = self.table.values
        self._park(
            client,
            keys,
            patience_of(patience),
            lambda: self.table.has(keys),
            lambda: [values[key] for key in keys],
        )

    def _wait(self, client, fields):
        patience, *keys = fields
        ready = lambda: self.table.has(keys)  # noqa: E731
        self._park(client, keys, patience_of(patience), ready, list)

    def _pop(self, client, fields):
        patience, key = fields
        ready = lambda: self.table.length(key) > 0  # noqa: E731
        self._park(
            client, [key], patience_of(patience), ready, lambda: [self.table.pop(key)]
        )

    def _run(self, method, fields):
        """What a request that need not wait answers with."""
        table, values = self.table, self.table.values
        if method is Method.SET:
            values[fields[0]] = fields[1]
        elif method is Method.MULTI_SET:
            values.update(zip(fields[::2], fields[1::2]))
        elif method is Method.ADD:
            return [str(table.add(fields[0], int(fields[1]))).encode()]
        elif method is Method.COMPARE_SET:
            return [table.compare_set(*fields)]
        elif method is Method.CHECK:
            return [b"1" if table.has(fields) else b"0"]
        elif method is Method.DELETE:
            return [b"1" if table.delete(fields[0]) else b"0"]
        elif method is Method.NUM_KEYS:
            return [str(len(values)).encode()]
        elif method is Method.LIST_KEYS:
            return list(values)
        elif method is Method.APPEND:
            table.append(*fields)
        elif method is Method.QUEUE_PUSH:
            table.push(*fields)
        elif method is Method.QUEUE_LEN:
            return [str(table.length(fields[0])).encode()]
        return ()
