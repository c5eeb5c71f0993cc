"""What collectives are written with: frames to and from the other ranks, and waiting.

A collective begins with a call that all ranks must agree on. Every frame carries it; a
rank that finds another's different, that loses one or waits too long for it tells all
others, and raises.
"""

import select
import time
from collections import deque

from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.transport.connect import exchange_memory
from rushlight.distributed.transport.frames import describe, header
from rushlight.distributed.transport.heartbeat import (
    Heartbeats,
    patience_from_environment,
)
from rushlight.distributed.transport.host import is_stopped
from rushlight.distributed.transport.peer import PeerClosed

TICK_MS = 200  # how often a waiting rank looks whether others are stopped
STEP = 4  # positions of one piece of a collective: all ranks count alike
REMEMBERED = 64  # collectives that a late frame is compared with
IN, OUT = select.POLLIN, select.POLLOUT


class Channel:
    """The connections of a group as its collectives use them, one at a time.

    Args:
        connections: what the group is made of.
        timeout: seconds that a collective may take.
    """

    def __init__(self, connections, timeout):
        self.rank = connections.rank
        self.peers, self.slabs = connections.peers, connections.slabs
        self.size = len(self.peers) + 1
        self.timeout = timeout
        self.sequence = self.position = 0
        self.call, self.deadline = None, 0.0
        self.late_text = None  # what to say of ranks that do not come in time
        self.broken = None  # why the group is no more
        self.signatures = deque(maxlen=REMEMBERED)
        self.poller = select.poll()
        self.by_descriptor = {}
        for peer in self.peers.values():
            self.by_descriptor[peer.data.fileno()] = peer, False
            self.by_descriptor[peer.control.fileno()] = peer, True
            self.poller.register(peer.data, IN)
            self.poller.register(peer.control, IN)
        self.masks = {peer: IN for peer in self.peers.values()}
        far = {rank: p.aside for rank, p in self.peers.items() if not p.pid}
        patience = patience_from_environment()
        self.heartbeats = Heartbeats(far, patience) if far and patience else None

    def silence_of(self, rank):
        """Seconds that a process of another machine has given no sign of life.

        Args:
            rank: its number.

        Returns:
            0 where it has, or where that is not too long.
        """
        return self.heartbeats.silence_of(rank) if self.heartbeats else 0.0

    def begin(self, call, timeout=None):
        """Start a collective.

        Args:
            call: what it is.
            timeout: seconds for it, where they are not the group's.

        Raises:
            DistBackendError: the group has failed before.
        """
        self._check_whole(call.operator)
        self.sequence += 1
        call.sequence = self.sequence
        self.call, self.late_text = call, None
        self.patience = self.timeout if timeout is None else timeout
        self.deadline = time.monotonic() + self.patience
        self.signatures.append(call.signature)

    def _check_whole(self, operator):
        if self.broken is not None:
            raise DistBackendError(
                f"{operator}: the process group has failed before\n"
                f"  failure: {self.broken}"
            )

    def send(self, rank, view):
        """Send octets to a rank, in order.

        Args:
            rank: the rank.
            view: a memoryview of octets; it may not change before ``finish``.
        """
        call = self.call
        head = header(self.position, self.sequence, len(view), call.signature)
        self.peers[rank].send(head, view)

    def receive(self, rank, view):
        """Say where the octets that a rank sends next go; ``finish`` waits for them.

        Args:
            rank: the rank.
            view: a writable memoryview.
        """
        if len(view):
            self.peers[rank].post(view)

    def announce(self, phase):
        """Tell all ranks that this one has come to a phase of the current piece."""
        head = header(self.position + phase, self.sequence, 0, self.call.signature)
        for peer in self.peers.values():
            peer.send(head)

    def await_phase(self, phase, ranks=None):
        """Wait until ranks have come to a phase of the current piece.

        Args:
            phase: 1 to 3.
            ranks: whom to wait for; all without it.
        """
        self.await_position(self.position + phase, ranks)

    def await_position(self, position, ranks=None):
        """Wait until ranks have said that they came to a position."""
        peers = self._peers(ranks)
        self._wait(lambda: [p for p in peers if p.mark < position])

    def next_piece(self):
        """Go on to the next piece."""
        self.position += STEP

    def await_read(self, position):
        """Wait, between collectives, until all ranks have come to a position.

        Args:
            position: one that they announce.
        """
        self._check_whole("release")
        self.deadline = time.monotonic() + self.timeout
        self.await_position(position)

    def share_memory(self, n_bytes):
        """New memory of each rank that all see, where all are on one machine.

        Args:
            n_bytes: the octets that each gives.

        Returns:
            rank -> memory, which goes with the last tensor over it; None where one has
            none to give.
        """
        self.announce(1)
        self.await_phase(1)
        self.next_piece()
        lanes = {rank: peer.aside for rank, peer in self.peers.items()}
        return exchange_memory(self.rank, lanes, n_bytes, self.patience)

    def finish(self):
        """Wait until all that is to come has come and all is sent."""
        peers = self._peers(None)
        self._wait(lambda: [p for p in peers if p.awaited or p.outgoing])

    def _peers(self, ranks):
        if ranks is None:
            return list(self.peers.values())
        return [self.peers[rank] for rank in ranks if rank != self.rank]

    def _check(self, peer, sequence, signature):
        """Whether a frame's collective has begun here; fails where it is another."""
        lag = self.sequence - sequence
        if lag < 0:
            return False
        if lag < len(self.signatures):
            own = self.signatures[-1 - lag]
            if own != signature:
                self._differ(peer, sequence, own, signature)
        return True

    def _differ(self, peer, sequence, own, other):
        raise self.fail(
            f"collectives differ at sequence number {sequence}\n"
            f"  rank {self.rank}: {describe(own)}\n"
            f"  rank {peer.rank}: {describe(other)}",
            peer.rank,
        )

    def _wait(self, lacking):
        """Read and write until ``lacking()``, the peers waited for, is empty."""
        try:
            for peer in lacking():
                peer.flush()
                self._pump(peer)
            while waited := lacking():
                for peer in waited:
                    if peer.closed:
                        self._lost(peer, peer.lost or "it has left the group")
                self._step(waited)
        except DistBackendError:
            raise
        except BaseException as error:  # an interrupt leaves a collective half done
            self.fail(f"{type(error).__name__} while it ran", self.rank)
            raise

    def _step(self, waited):
        for peer in self.masks:
            self._watch(peer)
        events = self.poller.poll(TICK_MS)
        for descriptor, event in events:
            entry = self.by_descriptor.get(descriptor)
            if entry is None:  # an event before it in the list ended that connection
                continue
            peer, is_control = entry
            if is_control:
                self._read_control(peer)
                continue
            if event & OUT:
                peer.flush()
            if event & ~OUT:
                self._pump(peer)
        if not events:
            self._tick(waited)
        elif time.monotonic() > self.deadline:
            self._late(waited)

    def _watch(self, peer):
        """Poll a peer for what it can do now: a held one has nothing to say."""
        mask = 0 if peer.is_held else IN
        if peer.outgoing:
            mask |= OUT
        if peer.closed:
            mask = 0
        if mask == self.masks[peer]:
            return
        self.masks[peer] = mask
        if mask:
            self.poller.register(peer.data, mask)
        else:  # a mask of nothing would still report that it is closed
            self.poller.unregister(peer.data)

    def _pump(self, peer):
        try:
            if not peer.closed:
                peer.pump(self._check)
        except PeerClosed as error:
            peer.closed = True
            self._read_control(peer)
            if not (peer.left or peer.lost):
                peer.lost = f"its process has ended ({error})"

    def _read_control(self, peer):
        try:
            notes = peer.control_messages()
        except PeerClosed as error:
            # What it had sent before counts: the other connection says where that ends.
            peer.lost, notes = f"its process has ended ({error})", None
        if notes is None:
            if peer.control.fileno() in self.by_descriptor:
                del self.by_descriptor[peer.control.fileno()]
                self.poller.unregister(peer.control)
            return
        for note in notes:
            if note["kind"] == "leave":
                peer.left = True
            else:
                raise self.fail(note["text"], note["culprit"], passed_on=True)

    def look(self):
        """Read what others have said, without waiting.

        Raises:
            DistBackendError: one has failed, does not live, or does something else.
        """
        if self.broken is not None:
            self._check_whole("group")
        for peer in self.peers.values():
            peer.flush()
            self._pump(peer)
            self._read_control(peer)
        self._check_alive()

    def _check_alive(self):
        for peer in self.peers.values():
            peer.reports = peer.reports + 1 if peer.pid and is_stopped(peer.pid) else 0
            if peer.reports > 1:
                self._lost(peer, f"its process {peer.pid} is stopped")
            if silence := self.silence_of(peer.rank):
                self._lost(peer, f"it has given no sign of life for {silence:.1f} s")

    def _tick(self, waited):
        self._check_alive()
        if time.monotonic() > self.deadline:
            self._late(waited)

    def _lost(self, peer, why):
        raise self.fail(f"rank {peer.rank} is lost: {why}", peer.rank)

    def _late(self, waited):
        ranks = [peer.rank for peer in waited]
        wait = f"{self.patience * 1000:.0f}"
        text = (
            f"Timed out waiting {wait}ms for recv operation to complete\n"
            f"  waited for: ranks {ranks}"
        )
        if self.late_text is not None:
            text = self.late_text(ranks, wait)
        raise self.fail(text, ranks[0])

    def fail(self, text, culprit, passed_on=False):
        """End the group, and tell all others why.

        Args:
            text: why.
            culprit: the rank that it comes from.
            passed_on: whether another rank has told this one.

        Returns:
            The exception to raise.
        """
        call = self.call
        if self.broken is None:
            self.broken = text
            for peer in self.peers.values():
                peer.notify("abort", text=text, culprit=culprit)
        where = f"rank {self.rank}, {call}" if call else f"rank {self.rank}"
        return DistBackendError(f"{where}: {text}")

    def leave(self, failure=None):
        """Close all connections; the others learn whether it is on purpose.

        Args:
            failure: why it is not; None where it is.
        """
        if self.heartbeats is not None:
            self.heartbeats.close()
        for peer in self.peers.values():
            if failure is None and self.broken is None:
                peer.notify("leave")
            elif self.broken is None:
                text = f"rank {self.rank} is lost: {failure}"
                peer.notify("abort", text=text, culprit=self.rank)
            peer.close()
        for each in self.slabs.values():
            try:
                each.close()
            except BufferError:
                pass  # tensors over it are in use; it goes with them
        self.broken = self.broken or "it was destroyed"
