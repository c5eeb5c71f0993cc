"""Who carries calls: a connection to each other process, a thread for each request."""

import builtins
import contextlib
import itertools
import json
import secrets
import socket
import struct
import threading
import time
import traceback
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

from rushlight.distributed.rpc import _codec
from rushlight.distributed.transport.host import address_for
from rushlight.futures import Future

FRAME = struct.Struct("<IQ")
TOKEN = 16
HELLO_SECONDS = 2  # a process of the group says at once who it is
THREADS = 512  # calls that wait for others must not keep these from running
PATIENCE = 10  # seconds for others to leave
current: dict = {"agent": None}


class WorkerInfo(namedtuple("WorkerInfo", "name id")):
    """A process that can be called: its name and number."""

    __module__ = "rushlight.distributed.rpc"
    __slots__ = ()

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, name={self.name})"


_codec.register(
    WorkerInfo, _codec.WORKER, lambda v: [v.name, v.id], lambda v: WorkerInfo(*v)
)


class RpcFuture(Future):
    """The result of a call that is on its way.

    Args:
        timeout: seconds; 0 for any time.
    """

    def __init__(self, timeout=0):
        super().__init__()
        self._timeout = timeout

    def wait(self):
        """The result, once it is there.

        Raises:
            RuntimeError: it does not come in time.
        """
        if not self._event.wait(self._timeout or None):
            raise RuntimeError(
                f"RPC ran for more than set timeout ({self._timeout * 1000:.0f} ms) and "
                "will now be marked with an error"
            )
        return self.value()


def _read(connection, size):
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise ConnectionError("the other side has closed the connection")
        data += piece
    return bytes(data)


class _Line:
    """A connection, over which both sides ask and answer.

    Args:
        agent: this process's.
        connection: the socket.
    """

    def __init__(self, agent, connection):
        self.agent, self.connection = agent, connection
        self.lock, self.waiting = threading.Lock(), {}
        self.numbers, self.lost = itertools.count(), None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def send(self, header, payload=b""):
        """Send one message."""
        text = json.dumps(header).encode()
        with self.lock:
            self.connection.sendall(FRAME.pack(len(text), len(payload)) + text)
            if payload:
                self.connection.sendall(payload)

    def ask(self, header, payload, timeout):
        """Send a request; the future of its answer."""
        future, number = RpcFuture(timeout), next(self.numbers)
        self.waiting[number] = future
        if self.lost is not None:
            self._lose(self.lost)
            return future
        try:
            self.send({**header, "number": number}, payload)
        except OSError as error:
            self._lose(error)
        return future

    def _listen(self):
        try:
            while True:
                sizes = FRAME.unpack(_read(self.connection, FRAME.size))
                header = json.loads(_read(self.connection, sizes[0]))
                payload = _read(self.connection, sizes[1])
                if "answers" in header:
                    self._take(header, payload)
                else:
                    self.agent.pool.submit(self._serve, header, payload)
        except (OSError, ValueError, RuntimeError) as error:
            self._lose(error)

    def _lose(self, error):
        self.lost = error
        for number in list(self.waiting):  # of which another thread may take some
            future = self.waiting.pop(number, None)
            if future is not None:
                future.set_exception(RuntimeError(f"rpc: {error}"))

    def _take(self, header, payload):
        future = self.waiting.pop(header["answers"], None)
        if future is None:
            return
        if "error" in header:
            future.set_exception(_raised(header["error"]))
            return
        try:
            value = self.agent.opened(header, payload)
        except Exception as error:
            future.set_exception(error)
            return
        future.set_result(value)

    def _serve(self, header, payload):
        answer = {"answers": header["number"]}
        try:
            more, octets = self.agent.answer(header, payload)
            answer.update(more)
        except Exception as error:
            where = self.agent.own
            text = f"On {where!r}:\n{error!r}\n{traceback.format_exc()}"
            answer["error"], octets = [type(error).__name__, text], b""
        try:
            self.send(answer, octets)
        except OSError:
            pass  # who asked is gone

    def close(self):
        """End the connection."""
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.connection.close()


def _raised(facts):
    name, text = facts
    kind = getattr(builtins, name, RuntimeError)
    known = isinstance(kind, type) and issubclass(kind, Exception)
    return (kind if known else RuntimeError)(text)


class Agent:
    """This process among those that call each other.

    Args:
        store: where all meet.
        name: this process's.
        rank: its number.
        size: the number of processes.
        timeout: seconds that a call may take.
        host: where the store is served, or None.
    """

    def __init__(self, store, name, rank, size, timeout, host):
        self.store, self.own, self.size = store, WorkerInfo(name, rank), size
        self.timeout, self.handlers, self.openers = timeout, {}, {}
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="rushlight-rpc")
        self.lines, self.lock = {}, threading.Lock()
        self.token, self.closing = secrets.token_bytes(TOKEN), False
        address = address_for(host)
        self.listener = socket.create_server((address, 0))
        self.accepted = []
        with contextlib.ExitStack() as opened:
            opened.callback(self.close)  # where the others do not come
            page = [name, *self.listener.getsockname()[:2], self.token.hex()]
            store.set(f"rpc/{rank}", json.dumps(page))
            threading.Thread(target=self._accept, daemon=True).start()
            self.pages = [json.loads(store.get(f"rpc/{i}")) for i in range(size)]
            names = [page[0] for page in self.pages]
            if len(set(names)) < size:
                raise RuntimeError(f"RPC worker names must be unique, and are {names}")
            opened.pop_all()
        self.ids = {each: number for number, each in enumerate(names)}

    def workers(self):
        """All processes."""
        return [WorkerInfo(page[0], number) for number, page in enumerate(self.pages)]

    def worker(self, to):
        """The process of a name, a number or a ``WorkerInfo``.

        Raises:
            RuntimeError: there is none.
        """
        if isinstance(to, WorkerInfo):
            return to
        number = self.ids.get(to, -1) if isinstance(to, str) else to
        if not 0 <= number < self.size:
            raise RuntimeError(f"Unknown destination worker {to}")
        return WorkerInfo(self.pages[number][0], number)

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except ConnectionError:
                continue
            except OSError:
                return  # closed
            if not self._is_of_us(connection):
                connection.close()
                continue
            line = _Line(self, connection)  # answers from now on: an end may come of it
            with self.lock:
                if not self.closing:
                    self.accepted.append(line)
                    continue
            line.close()

    def _is_of_us(self, connection):
        """Whether the token comes, and in time: a silent stranger keeps nobody out."""
        connection.settimeout(HELLO_SECONDS)
        try:
            said = _read(connection, TOKEN)
        except OSError:
            return False
        connection.settimeout(None)
        return secrets.compare_digest(bytes(said), self.token)

    def line(self, number):
        """The connection to a process, which is made where there is none."""
        with self.lock:
            found = self.lines.get(number)
            if found is None and self.closing:
                raise RuntimeError("rpc: this process has ended its connections")
            if found is None:
                _, host, port, token = self.pages[number]
                with contextlib.ExitStack() as opened:
                    connection = socket.create_connection((host, port), 30)
                    opened.enter_context(connection)
                    connection.settimeout(None)
                    connection.sendall(bytes.fromhex(token))
                    found = self.lines[number] = _Line(self, connection)
                    opened.pop_all()
            return found

    def ask(self, to, header, payload=b"", timeout=None):
        """Send a request to a process; the future of its answer."""
        timeout = self.timeout if timeout is None or timeout < 0 else timeout
        return self.line(to.id).ask({**header, "from": self.own.id}, payload, timeout)

    def answer(self, header, payload):
        """What a request gives: more of the header, and octets."""
        return self.handlers[header["op"]](header, payload)

    def opened(self, header, payload):
        """The value of an answer."""
        opener = self.openers.get(header.get("as"))
        return opener(header, payload) if opener else None

    def barrier(self, name):
        """Wait until every process has come."""
        key = f"rpc/end/{name}"
        if self.store.add(key, 1) == self.size:
            self.store.set(f"{key}/all", "1")
        self.store.wait([f"{key}/all"])

    def part(self):
        """Has the process that serves the store end after those that still read from it."""
        key = "rpc/end/parted"
        if self.own.id:
            # the store may end as soon as it has counted this, before it answers
            with contextlib.suppress(RuntimeError):
                self.store.add(key, 1)
            return
        last = time.monotonic() + PATIENCE
        while self.store.add(key, 0) < self.size - 1 and time.monotonic() < last:
            time.sleep(0.005)

    def close(self):
        """End all connections."""
        with self.lock:
            self.closing = True
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self.listener.close()
        for each in [*self.lines.values(), *self.accepted]:
            each.close()
        self.pool.shutdown(wait=False)
