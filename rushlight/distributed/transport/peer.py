"""One other process of a group: its connections, and what has come from it."""

import json
from collections import deque

from rushlight.distributed.transport.frames import HEADER_SIZE, parse

BUFFER = 1 << 16
NOTHING = memoryview(b"")


class PeerClosed(Exception):
    """The other side has closed the connection."""


class Peer:
    """The connections to one other process.

    Frames are read in the order they were sent. A frame of a collective that this
    process has not come to, or whose octets have nowhere to go yet, stays unread.

    Args:
        rank: its number in the group.
        lanes: its sockets: collectives, messages, control, and one aside, for
            descriptors of memory or for beats.
        pid: its process, where that is on this machine; else 0.
    """

    def __init__(self, rank, lanes, pid=0):
        self.rank, self.pid = rank, pid
        self.data, self.mail, self.control, self.aside = lanes
        for each in (self.data, self.control):
            each.setblocking(False)
        self.mark = 0  # how far it says that it has come
        self.left = self.closed = False
        self.lost = ""  # how it has ended without leaving
        self.posted, self.outgoing = deque(), deque()
        self.awaited = 0  # receives that are not complete
        self.buffer = bytearray(BUFFER)
        self.view = memoryview(self.buffer)
        self.start = self.end = 0
        self.frame = None  # the header whose octets are not all here
        self.rest = NOTHING  # where the next octets go
        self.notes = bytearray()  # what has come on the control connection
        self.reports = 0  # ticks in a row at which it was stopped

    @property
    def is_held(self):
        """Whether a frame waits for this process to come to it."""
        return self.frame is not None and not self.rest

    def send(self, *views):
        """Send octets after all others; what does not fit now goes later.

        Args:
            views: memoryviews or bytes; they may not change until they are sent.
        """
        if not self.outgoing:
            try:
                sent = self.data.sendmsg(views)
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # the read says why
            for view in views:
                size = len(view)
                if sent < size:
                    self.outgoing.append(memoryview(view)[max(sent, 0) :])
                sent -= size
            return
        self.outgoing.extend(memoryview(view) for view in views)

    def flush(self):
        """Send what did not fit before."""
        while self.outgoing:
            try:
                sent = self.data.send(self.outgoing[0])
            except BlockingIOError:
                return
            except OSError:
                self.outgoing.clear()  # the read says why
                return
            if sent == len(self.outgoing[0]):
                self.outgoing.popleft()
            else:
                self.outgoing[0] = self.outgoing[0][sent:]

    def post(self, view):
        """Say where the octets of the next frame that has some go.

        Args:
            view: a writable memoryview of octets, as many as are sent.
        """
        self.posted.append(view)
        self.awaited += 1

    def pump(self, check):
        """Read what has come, until there is nothing or a frame must wait.

        Args:
            check: called with sequence number and signature of each header; False
                lets the frame wait; it raises where the collectives differ.

        Raises:
            PeerClosed: the other side has closed.
        """
        while self._consume(check):
            direct = self.rest and self.start == self.end
            room = self.rest if direct else self._room()
            try:
                size = self.data.recv_into(room)
            except BlockingIOError:
                return
            except OSError as error:
                raise PeerClosed(str(error)) from error
            if size == 0:
                raise PeerClosed("closed")
            if direct:
                self._filled(size)
            else:
                self.end += size
            if size < len(room):
                self._consume(check)
                return

    def _room(self):
        """Where more may be read to."""
        if self.start:
            left = self.end - self.start
            if left:
                self.view[:left] = bytes(self.view[self.start : self.end])
            self.start, self.end = 0, left
        return self.view[self.end :]

    def _filled(self, size):
        self.rest = self.rest[size:]
        if not self.rest:
            self.frame = None
            self.awaited -= 1

    def _consume(self, check):
        """Take frames out of the buffer; whether more may be read."""
        while True:
            if self.rest:
                size = min(len(self.rest), self.end - self.start)
                if not size:
                    return True
                self.rest[:size] = self.view[self.start : self.start + size]
                self.start += size
                self._filled(size)
                continue
            if self.frame is None:
                if self.end - self.start < HEADER_SIZE:
                    return True
                self.frame = parse(self.buffer, self.start)
                self.start += HEADER_SIZE
            if not self._begin(check):
                return False

    def _begin(self, check):
        """Start on the frame whose header has come; False where it must wait."""
        position, sequence, length, signature = self.frame
        if not check(self, sequence, signature):
            return False
        if length and not self.posted:
            return False
        self.mark = max(self.mark, position)
        if not length:
            self.frame = None
            return True
        view = self.posted.popleft()
        if len(view) != length:
            raise PeerClosed(
                f"{length} octets have come where {len(view)} were awaited"
            )
        self.rest = view
        return True

    def notify(self, kind, **fields):
        """Put a message on the control connection: ``leave`` or ``abort``.

        Args:
            kind: what it is.
            fields: what it says.
        """
        text = json.dumps({"kind": kind, **fields})
        try:
            self.control.send(text.encode() + b"\n")
        except OSError:
            pass  # gone, or full of messages that say the same

    def control_messages(self):
        """Messages that have come on the control connection.

        Raises:
            PeerClosed: it closed without having left.
        """
        try:
            data = self.control.recv(BUFFER)
        except BlockingIOError:
            return []
        except OSError as error:
            raise PeerClosed(str(error)) from error
        if not data:
            if self.left:
                return None
            raise PeerClosed("closed")
        self.notes += data
        *lines, self.notes = self.notes.split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self):
        """Close all connections."""
        for each in (self.data, self.mail, self.control, self.aside):
            each.close()
