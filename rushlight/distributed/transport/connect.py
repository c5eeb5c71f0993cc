"""How the processes of a group come to be connected, each with each."""

import contextlib
import itertools
import json
import mmap
import os
import secrets
import select
import socket
import struct
import time

from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.transport.host import address_for, machine
from rushlight.distributed.transport.peer import Peer

LANES = 4  # collectives, messages, control, and one aside
ASIDE = 3  # on one machine for descriptors of memory, between machines for beats
TOKEN = 16
HELLO = struct.Struct(f"<{TOKEN}sIB")
HELLO_SECONDS = 2  # a process of the group says at once who it is
SLAB_BYTES = 4 << 20


class Connections:
    """What a group is made of.

    Args:
        rank: this process's number.
        peers: number -> the other process.
        slabs: number -> its shared memory, where all are on one machine; else empty.
    """

    def __init__(self, rank, peers, slabs):
        self.rank, self.peers, self.slabs = rank, peers, slabs


def _listeners(host):
    """Listening sockets: of this machine alone, and on an address."""
    with contextlib.ExitStack() as opened:
        local = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        local.bind("\0rushlight-" + secrets.token_hex(12))
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        remote = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
        remote.bind((host, 0))
        for each in (local, remote):
            each.listen(4096)
        opened.pop_all()
    return local, remote


def _own_page(rank, host, local, remote, token):
    return {
        "rank": rank,
        "pid": os.getpid(),
        "machine": machine() if _shares_memory() else secrets.token_hex(8),
        "local": local.getsockname()[1:].decode(),
        "host": host,
        "port": remote.getsockname()[1],
        "token": token.hex(),
    }


def _shares_memory():
    return os.environ.get("RUSHLIGHT_DISTRIBUTED_SHARED_MEMORY", "1") != "0"


def _tune(connection):
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("KEEPIDLE", 1), ("KEEPINTVL", 1), ("KEEPCNT", 3)):
        number = getattr(socket, "TCP_" + option, None)
        if number is not None:
            connection.setsockopt(socket.IPPROTO_TCP, number, value)


def _dial(own, page, lane, patience):
    """A connection to a process of a lower number."""
    with contextlib.ExitStack() as opened:
        if own["machine"] == page["machine"]:
            made = opened.enter_context(
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            )
            made.settimeout(patience)
            made.connect("\0" + page["local"])
        else:
            address = page["host"], page["port"]
            made = opened.enter_context(socket.create_connection(address, patience))
        _tune(made)
        made.sendall(HELLO.pack(bytes.fromhex(page["token"]), own["rank"], lane))
        opened.pop_all()
    return made


def _read_exactly(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            return None
        data += piece
    return data


def _answer(listeners, token, count, deadline):
    """Connections from processes of higher numbers: (rank, lane) -> socket."""
    found = {}
    with contextlib.ExitStack() as opened:
        while len(found) < count:
            left = deadline - time.monotonic()
            ready, _, _ = select.select(listeners, [], [], max(left, 0))
            if not ready:
                missing = count - len(found)
                raise DistBackendError(
                    f"Connect timeout: {missing} of {count} connections of a process group "
                    "have not come"
                )
            connection = opened.enter_context(ready[0].accept()[0])
            connection.settimeout(min(max(left, 0.001), HELLO_SECONDS))
            try:
                hello = _read_exactly(connection, HELLO.size)
            except OSError:
                hello = None  # a silent stranger keeps nobody out for longer
            said, rank, lane = HELLO.unpack(hello) if hello else (b"", 0, 0)
            if not secrets.compare_digest(said, token):
                connection.close()  # no process of this group
                continue
            connection.settimeout(max(left, 0.001))
            _tune(connection)
            found[rank, lane] = connection
        opened.pop_all()
    return found


def exchange_memory(rank, lanes, n_bytes, patience):
    """Hand each process of this machine new memory of each other one.

    Descriptors go over the connections: the memory has no name in any file system,
    and is gone with the last process, however that ends.

    Args:
        rank: this process's number.
        lanes: number -> the connection for descriptors to each other process.
        n_bytes: the octets that each gives.
        patience: seconds to wait for others.

    Returns:
        number -> memory; None where one of them has none to give.

    Raises:
        DistBackendError: a process has ended, or does not answer.
    """
    own = os.memfd_create("rushlight-collectives")
    found = {}
    try:
        try:
            os.posix_fallocate(own, 0, n_bytes)
        except OSError:  # no memory: a page that is touched later would kill
            answer = b"n"
        else:
            answer, found[rank] = b"m", _mapped(own, n_bytes)
        for each in lanes.values():
            each.settimeout(patience)
            socket.send_fds(each, [answer], [own])
    finally:
        os.close(own)
    for other, each in lanes.items():
        answer, descriptor = _receive_descriptor(other, each)
        try:
            if answer == b"m":
                found[other] = _mapped(descriptor, n_bytes)
        finally:
            os.close(descriptor)
    return found if len(found) == len(lanes) + 1 else None


def _mapped(descriptor, n_bytes):
    flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    return mmap.mmap(descriptor, n_bytes, flags)


def _receive_descriptor(rank, lane):
    try:
        answer, descriptors, *_ = socket.recv_fds(lane, 1, 1)
    except OSError as error:
        raise DistBackendError(f"rank {rank} gives no memory: {error}") from error
    if not descriptors:
        raise DistBackendError(f"rank {rank} is lost: its process has ended")
    return answer, descriptors[0]


def connect_all(store, rank, size, timeout, meeting_host=None):
    """Connect every process of a group with every other.

    Args:
        store: where the processes meet; keys of the group alone.
        rank: this process's number.
        size: the number of processes.
        timeout: seconds for all of it.
        meeting_host: where the store is served, which says what address to listen on.

    Returns:
        The connections.
    """
    deadline = time.monotonic() + timeout
    host, token = address_for(meeting_host), secrets.token_bytes(TOKEN)
    with contextlib.ExitStack() as opened:  # closed where a step fails
        local, remote = map(opened.enter_context, _listeners(host))
        own = _own_page(rank, host, local, remote, token)
        store.set(f"rank_{rank}", json.dumps(own))
        pages = {
            each: json.loads(store.get(f"rank_{each}"))
            for each in range(size)
            if each != rank
        }
        sockets = {}
        for each, lane in itertools.product(range(rank), range(LANES)):
            made = _dial(own, pages[each], lane, timeout)
            sockets[each, lane] = opened.enter_context(made)
        count = (size - 1 - rank) * LANES
        answered = _answer([local, remote], token, count, deadline)
        sockets.update((k, opened.enter_context(v)) for k, v in answered.items())
        near = {k for k, page in pages.items() if page["machine"] == own["machine"]}
        slabs = {}
        if len(near) == size - 1 and near:
            aside = {k: sockets[k, ASIDE] for k in near}
            slabs = exchange_memory(rank, aside, SLAB_BYTES, timeout) or {}
        opened.pop_all()
    local.close()
    remote.close()
    peers = {
        each: Peer(
            each,
            [sockets[each, lane] for lane in range(LANES)],
            page["pid"] if each in near else 0,
        )
        for each, page in pages.items()
    }
    return Connections(rank, peers, slabs)
