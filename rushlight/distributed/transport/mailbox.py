"""Messages between two ranks: sent and received in any order of tags, on a thread."""

import select
import socket
import struct
import threading
import time
from collections import deque

from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.transport.host import is_stopped

HEAD = struct.Struct("<IQ")  # tag, octets
TICK_MS = 200
IN, OUT = select.POLLIN, select.POLLOUT


class Message:
    """One send or receive.

    Args:
        view: a memoryview of octets.
        rank: the other rank; None for a receive from any.
        tag: what sender and receiver call it.
        deadline: when it fails, in seconds of the monotonic clock.
        finish: called with the exception, or None, and the rank of the other.
    """

    __slots__ = ("view", "rank", "tag", "deadline", "finish")

    def __init__(self, view, rank, tag, deadline, finish):
        self.view, self.rank, self.tag = view, rank, tag
        self.deadline, self.finish = deadline, finish


class Box:
    """What goes to and comes from one rank."""

    def __init__(self, peer):
        self.rank, self.pid, self.socket = peer.rank, peer.pid, peer.mail
        self.outgoing = deque()  # [message, octets left: its header's and its own]
        self.head, self.left = bytearray(), None
        self.rest = None  # where the octets of a message that is coming go
        self.arriving = None  # its receive, or the tag and octets of an early one
        self.early = deque()  # messages that came before their receive: tag, octets
        self.lost, self.reports = None, 0


class Mailbox:
    """Sends and receives of a group, on a thread of their own.

    Args:
        peers: the other processes.
        own: this process's rank.
        silence_of: gives the seconds that a rank of another machine has been silent for
            too long.
    """

    def __init__(self, peers, own, silence_of):
        self.own, self.silence_of = own, silence_of
        self.boxes = {peer.rank: Box(peer) for peer in peers}
        self.receives, self.requests = [], deque()
        self.by_descriptor = {}
        for box in self.boxes.values():
            box.socket.setblocking(False)
            self.by_descriptor[box.socket.fileno()] = box
        self.waker, self.woken = socket.socketpair()
        self.waker.setblocking(False)
        self.woken.setblocking(False)
        self.closing = False
        self.thread = threading.Thread(
            target=self._serve, name="rushlight-messages", daemon=True
        )
        self.thread.start()

    def send(self, message):
        """Start a send; its ``finish`` is called once all octets are on the way."""
        self._request(self._start_send, message)

    def receive(self, message):
        """Start a receive; its ``finish`` is called once all octets are here."""
        self._request(self._start_receive, message)

    def close(self):
        """End the thread; what is not complete fails."""
        self.closing = True
        self._wake()
        self.thread.join(5)
        self.waker.close()
        self.woken.close()

    def _request(self, start, message):
        self.requests.append((start, message))
        self._wake()

    def _wake(self):
        try:
            self.waker.send(b"w")
        except BlockingIOError:
            pass  # it is awake

    def _serve(self):
        poller = select.poll()
        poller.register(self.woken, IN)
        masks = {}
        while not self.closing:
            self._register(poller, masks)
            waiting = self.receives or any(b.outgoing for b in self.boxes.values())
            events = poller.poll(TICK_MS if waiting else None)
            for descriptor, event in events:
                box = self.by_descriptor.get(descriptor)
                if box is None:
                    self.woken.recv(4096)
                    self._take_requests()
                else:
                    self._talk(box, event)
            if waiting:
                self._tick()
        for box in self.boxes.values():
            self._fail(box, "the process group was destroyed")

    def _register(self, poller, masks):
        for box in self.boxes.values():
            mask = 0 if box.lost else IN | (OUT if box.outgoing else 0)
            if masks.get(box, 0) == mask:
                continue
            if mask:
                poller.register(box.socket, mask)
            else:
                poller.unregister(box.socket)
            masks[box] = mask

    def _take_requests(self):
        while self.requests:
            start, message = self.requests.popleft()
            start(message)

    def _start_send(self, message):
        box = self.boxes[message.rank]
        if box.lost:
            return message.finish(self._error(box, message, "send to"), box.rank)
        head = HEAD.pack(message.tag, len(message.view))
        box.outgoing.append([message, deque([memoryview(head), message.view])])
        self._flush(box)

    def _start_receive(self, message):
        boxes = self.boxes.values()
        for box in boxes if message.rank is None else [self.boxes[message.rank]]:
            for early in box.early:
                if early[0] == message.tag:
                    box.early.remove(early)
                    return self._deliver(box, message, early[1])
            arriving = box.arriving
            if isinstance(arriving, list) and arriving[0] == message.tag:
                if arriving[2] is None:
                    arriving[2] = message  # it is on its way: take it when it is whole
                    return None
            if box.lost and message.rank is not None:
                return message.finish(self._error(box, message, "recv from"), box.rank)
        self.receives.append(message)
        return None

    def _deliver(self, box, message, data):
        if len(data) != len(message.view):
            error = DistBackendError(
                f"rank {self.own}, recv from rank {box.rank} (tag {message.tag}): "
                f"{len(data)} octets have come for a tensor of {len(message.view)}"
            )
            return message.finish(error, box.rank)
        message.view[:] = data
        message.finish(None, box.rank)

    def _talk(self, box, event):
        try:
            if event & OUT:
                self._flush(box)
            if event & ~OUT:
                while self._read(box):
                    pass
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(box, error.strerror or "the connection is closed")

    def _flush(self, box):
        while box.outgoing:
            message, views = box.outgoing[0]
            try:
                sent = box.socket.sendmsg(views)
            except BlockingIOError:
                return
            except OSError as error:
                return self._fail(box, error.strerror or str(error))
            while views and sent >= len(views[0]):
                sent -= len(views.popleft())
            if views:
                views[0] = views[0][sent:]
                continue
            box.outgoing.popleft()
            message.finish(None, box.rank)

    def _read(self, box):
        if box.rest is None:
            piece = box.socket.recv(HEAD.size - len(box.head))
            self._check_open(piece)
            box.head += piece
            if len(box.head) == HEAD.size:
                self._begin(box, *HEAD.unpack(box.head))
                box.head.clear()
            return True
        size = box.socket.recv_into(box.rest)
        self._check_open(size)
        box.rest = box.rest[size:]
        if not box.rest:
            self._complete(box)
        return True

    def _check_open(self, some):
        if not some:
            raise ConnectionError(0, "its process has ended, or has left the group")

    def _begin(self, box, tag, size):
        for message in self.receives:
            if message.tag == tag and message.rank in (None, box.rank):
                if len(message.view) == size:
                    self.receives.remove(message)
                    box.arriving, box.rest = message, message.view
                    break
        else:
            data = bytearray(size)
            taker = self._mismatched(box, tag)
            box.arriving, box.rest = [tag, data, taker], memoryview(data)
        if not size:
            self._complete(box)

    def _mismatched(self, box, tag):
        """The receive that a message is for though its size is another."""
        for message in self.receives:
            if message.tag == tag and message.rank in (None, box.rank):
                self.receives.remove(message)
                return message
        return None

    def _complete(self, box):
        arriving, box.arriving, box.rest = box.arriving, None, None
        if isinstance(arriving, Message):
            return arriving.finish(None, box.rank)
        tag, data, taker = arriving
        if taker is not None:
            return self._deliver(box, taker, data)
        box.early.append((tag, data))
        return None

    def _error(self, box, message, verb):
        return DistBackendError(
            f"rank {self.own}, {verb} rank {box.rank} (tag {message.tag}): rank "
            f"{box.rank} is lost: {box.lost}"
        )

    def _fail(self, box, why):
        if box.lost:
            return
        box.lost = why
        taker = box.arriving
        taker = taker[2] if isinstance(taker, list) else taker
        waiting = [taker] if taker is not None else []
        waiting += [m for m in self.receives if m.rank == box.rank]
        if all(each.lost for each in self.boxes.values()):
            waiting += [m for m in self.receives if m.rank is None]
        self.receives = [m for m in self.receives if m not in waiting]
        box.arriving = box.rest = None
        sends, box.outgoing = box.outgoing, deque()
        for message in waiting:
            message.finish(self._error(box, message, "recv from"), box.rank)
        for message, _ in sends:
            message.finish(self._error(box, message, "send to"), box.rank)

    def _tick(self):
        now = time.monotonic()
        for message in [m for m in self.receives if m.deadline < now]:
            self.receives.remove(message)
            source = "any rank" if message.rank is None else f"rank {message.rank}"
            error = DistBackendError(
                f"rank {self.own}, recv from {source} (tag {message.tag}): Timed out "
                "waiting for recv operation to complete"
            )
            message.finish(error, -1)
        for box in self.boxes.values():
            if box.lost:
                continue
            if not box.pid:
                if silence := self.silence_of(box.rank):
                    self._fail(box, f"no sign of life for {silence:.1f} s")
                continue
            box.reports = box.reports + 1 if is_stopped(box.pid) else 0
            if box.reports > 2:
                self._fail(box, f"its process {box.pid} is stopped")
