"""A network between processes that is slow, loses packets and breaks, without the system's help.

Connections to a process go through a proxy of its own: a packet arrives late, one that is
lost comes when it would be sent again, and all behind it wait, as TCP has it.
"""

from __future__ import annotations

import contextlib
import json
import queue
import random
import socket
import threading
import time

from rushlight.distributed import FileStore

PACKET = 1 << 14


class Proxy:
    """What stands between a listener and those who call it.

    Args:
        target: the listener's address.
        delay: seconds that each packet takes.
        loss: the share of packets that are lost the first time.
        again: seconds until a lost packet is sent again.
    """

    def __init__(self, target, delay, loss=0.0, again=0.05):
        self.target, self.delay, self.loss, self.again = target, delay, loss, again
        self.random = random.Random(0)
        self.lost = self.carried = 0
        self.is_silent = threading.Event()
        self.sockets: list = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self._begin(self._accept)

    def _begin(self, body, *args):
        threading.Thread(target=body, args=args, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self.listener.accept()
                called = socket.create_connection(self.target)
                for each in (caller, called):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sockets += [caller, called]
                for ends in ((caller, called), (called, caller)):
                    packets: queue.Queue = queue.Queue()
                    self._begin(self._read, ends[0], packets)
                    self._begin(self._write, ends[1], packets)

    def _read(self, source, packets):
        data = b"begin"
        while data:
            try:
                data = source.recv(PACKET)
            except OSError:
                data = b""
            due = time.monotonic() + self.delay
            self.carried += 1
            if self.random.random() < self.loss:
                self.lost += 1
                due += self.again
            packets.put((due, data))

    def _write(self, target, packets):
        with contextlib.suppress(OSError):
            while True:
                due, data = packets.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if self.is_silent.is_set():
                    continue
                if not data:
                    return target.shutdown(socket.SHUT_WR)
                target.sendall(data)

    def fall_silent(self):
        """Carries nothing any more; connections stay open, as if a cable were pulled."""
        self.is_silent.set()

    def reset(self):
        """Breaks all connections."""
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class ProxyStore(FileStore):
    """A store in which a process that says where it listens names a proxy instead.

    Args:
        path: the file.
        size: the number of processes.
        options: of the `Proxy`.
    """

    def __init__(self, path, size, **options):
        super().__init__(path, size)
        self.options, self.proxies = options, []

    def set(self, key, value):
        """Sets a value; an address becomes a proxy's."""
        text = value if isinstance(value, str) else bytes(value).decode("latin-1")
        if "/rank_" in key and text.startswith("{"):
            page = json.loads(text)
            self.proxies.append(Proxy((page["host"], page["port"]), **self.options))
            value = json.dumps({**page, "port": self.proxies[-1].port})
        super().set(key, value)
