"""Signs of life between machines, where nobody sees whether a process is stopped."""

import os
import threading
import time

INTERVAL = 0.25
DEFAULT_PATIENCE = 30.0


def patience_from_environment():
    """Seconds of silence after which a process is lost; 0 where it never is.

    A thread beats, so that a process that holds the interpreter for long is silent, too.
    """
    text = os.environ.get("RUSHLIGHT_HEARTBEAT_TIMEOUT_SEC")
    return DEFAULT_PATIENCE if text is None else float(text)


class Heartbeats:
    """Beats to the processes of other machines, and listens to theirs.

    Args:
        lanes: number -> the connection for beats to each.
        patience: seconds of silence after which a process is lost.
    """

    def __init__(self, lanes, patience):
        self.lanes, self.patience = lanes, patience
        for each in lanes.values():
            each.setblocking(False)
        self.last = dict.fromkeys(lanes, time.monotonic())
        self.listened = time.monotonic()
        self.closing = threading.Event()
        self.thread = threading.Thread(
            target=self._serve, name="rushlight-heartbeat", daemon=True
        )
        self.thread.start()

    def _serve(self):
        before = time.monotonic()
        while not self.closing.wait(INTERVAL):
            now = time.monotonic()
            latest = dict(self.last)
            if now - before > 4 * INTERVAL:  # this process was stopped, not the others
                latest = dict.fromkeys(latest, now)
            for rank, lane in self.lanes.items():
                if self._exchange(lane):
                    latest[rank] = now
            self.last, self.listened = latest, now
            before = now

    def _exchange(self, lane):
        """Beat; whether the other side has, since the last time."""
        try:
            lane.send(b".")
        except OSError:
            pass  # full of beats that nobody reads, or closed, which other lanes tell
        try:
            return bool(lane.recv(4096))
        except OSError:
            return False

    def silence_of(self, rank):
        """Seconds that a process has been silent for too long; 0 where it has not.

        Args:
            rank: its number.
        """
        last = self.last.get(rank)
        if last is None or not self.patience:
            return 0.0
        silence = self.listened - last  # as long as this thread has listened
        return silence if silence > self.patience else 0.0

    def close(self):
        """End the thread."""
        self.closing.set()
        self.thread.join(5)
