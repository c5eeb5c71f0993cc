"""Rounds in which machines come together: who takes part, in which order, and who has gone.

What is known of a round is one value of a store, which is changed by comparing: no machine
is the one that decides. A machine that lives adds to a number of its own; the others look
whether it grows, by their own clocks.
"""

import json
import threading
import time
import uuid
from dataclasses import dataclass

from rushlight.distributed.elastic.rendezvous.errors import (
    RendezvousClosedError,
    RendezvousTimeoutError,
)
from rushlight.distributed.errors import DistError

POLL = 0.05
NEW = {
    "round": 0, "open": True, "members": {}, "order": [], "waiting": [], "restarts": 0,
    "closed": "",
}  # fmt: skip


@dataclass
class Limits:
    """How many machines come together, and how long they are waited for.

    Args:
        least, most: how many machines.
        join: seconds to wait for the least.
        last_call: seconds to wait for more, since the last one came.
        beat: seconds between two signs of life.
        misses: how many may be missing.
    """

    least: int = 1
    most: int = 1
    join: float = 600.0
    last_call: float = 30.0
    beat: float = 5.0
    misses: int = 3


@dataclass
class Round:
    """Machines that have come together.

    Args:
        number: how many rounds were before.
        rank: this machine's number.
        facts: what each machine said of itself, in their order.
        restarts: how often the program was started again after a failure.
    """

    number: int
    rank: int
    facts: list
    restarts: int = 0


class Rounds:
    """The rounds of a job, as one machine sees them.

    Args:
        store: where all machines meet; keys of the job alone.
        limits: a `Limits`.
        fact: what the others are told of this machine: numbers and texts.
        rank: this machine's number; None where they are given as they come.
    """

    def __init__(self, store, limits, fact=None, rank=None):
        self.store, self.limits, self.fact, self.rank = store, limits, fact, rank
        self.token = uuid.uuid4().hex[:12]
        self.seen: dict = {}  # machine -> its number of beats, and when it last grew
        self.closing, self.thread = threading.Event(), None

    # -- what all know ----------------------------------------------------------------

    def state(self):
        """What is known of the round, as a dict."""
        return self._parse(self.store.compare_set("state", "", json.dumps(NEW)))

    def _parse(self, text):
        return json.loads(text.decode() if isinstance(text, bytes) else text)

    def change(self, edit):
        """Change what is known, until no other machine has changed it meanwhile.

        Args:
            edit: called with the state, which it changes; False where it need not be.

        Returns:
            The state that stands.
        """
        state = self.state()
        while True:
            before = json.dumps(state)
            if edit(state) is False:
                return state
            after = json.dumps(state)
            found = self.store.compare_set("state", before, after)
            state = self._parse(found)
            if found in (after, after.encode()):
                return state

    # -- coming and going -------------------------------------------------------------

    def join(self):
        """Come together with others.

        Returns:
            A `Round`.

        Raises:
            RendezvousTimeoutError: too few have come.
            RendezvousClosedError: the job is over.
        """
        self._start_beats()
        last = time.monotonic() + self.limits.join
        joined, since = None, time.monotonic()
        while True:
            state = self.change(self._enter)
            if state["closed"]:
                raise RendezvousClosedError(f"the job is over: {state['closed']}")
            if not state["open"] and self.token in state["order"]:
                return self._round(state)
            now = time.monotonic()
            if joined != sorted(state["members"]):
                joined, since = sorted(state["members"]), now
            if self._is_complete(state, now - since):
                self.change(self._complete)
                continue
            if now > last:
                self.change(self._leave)
                raise RendezvousTimeoutError(
                    f"{len(state['members'])} of {self.limits.least} machines have come "
                    f"in {self.limits.join:.0f} seconds"
                )
            time.sleep(POLL)

    def _enter(self, state):
        if state["closed"] or (not state["open"] and self.token in state["order"]):
            return False
        if not state["open"]:
            if self.token in state["waiting"]:
                return False
            state["waiting"].append(self.token)
            return True
        gone = [each for each in state["members"] if self._is_gone(each)]
        for each in gone:
            del state["members"][each]
        if self.token in state["members"] or len(state["members"]) >= self.limits.most:
            return bool(gone)
        state["members"][self.token] = [self.rank, self.fact]
        return True

    def _is_complete(self, state, quiet):
        count = len(state["members"])
        if not state["open"] or self.token not in state["members"]:
            return False
        if count >= self.limits.most:
            return True
        return count >= self.limits.least and quiet >= self.limits.last_call

    def _complete(self, state):
        members = state["members"]
        if not state["open"] or len(members) < self.limits.least:
            return False
        given = [rank for rank, _ in members.values() if rank is not None]
        if len(set(given)) < len(given):
            state["closed"] = f"two machines have the same number: {sorted(given)}"
            return True
        # Without numbers of their own, in the order in which they came.
        state["order"] = sorted(
            members, key=lambda each: (members[each][0] is None, members[each][0] or 0)
        )
        state["open"], state["waiting"] = False, []
        return True

    def _leave(self, state):
        state["members"].pop(self.token, None)
        if self.token in state["waiting"]:
            state["waiting"].remove(self.token)

    def _round(self, state):
        order = state["order"]
        facts = [state["members"][token][1] for token in order]
        self.seen = {}
        return Round(state["round"], order.index(self.token), facts, state["restarts"])

    # -- while it runs ----------------------------------------------------------------

    def waiting(self, state=None):
        """How many machines wait for the next round, of those that may come."""
        state = self.state() if state is None else state
        room = self.limits.most - len(state["order"])
        return min(len(state["waiting"]), max(room, 0))

    def gone(self, state):
        """The numbers of machines that give no sign of life any more."""
        order = state["order"]
        return [rank for rank, token in enumerate(order) if self._is_gone(token)]

    def _is_gone(self, token):
        if token == self.token:
            return False
        count, now = self.store.add(f"beat/{token}", 0), time.monotonic()
        known, since = self.seen.get(token, (None, now))
        if count != known:
            self.seen[token] = count, now
            return False
        return now - since > self.limits.beat * self.limits.misses

    def reopen(self, number, failed=False):
        """End a round, so that all come together again.

        Args:
            number: of the round; where it has ended, nothing changes.
            failed: whether because of a failure, which is counted.
        """

        def edit(state):
            if state["open"] or state["round"] != number:
                return False
            state.update(round=number + 1, open=True, members={}, order=[], waiting=[])
            state["restarts"] += failed
            return True

        self.change(edit)

    def close(self, why):
        """End the job, for all machines.

        Args:
            why: what they are told.
        """

        def edit(state):
            if state["closed"]:
                return False
            state["closed"] = why
            return True

        self.change(edit)

    # -- signs of life ----------------------------------------------------------------

    def _start_beats(self):
        if self.thread is None:
            self.store.add(f"beat/{self.token}", 1)
            self.thread = threading.Thread(
                target=self._beat, name="rushlight-launcher-beat", daemon=True
            )
            self.thread.start()

    def _beat(self):
        while not self.closing.wait(self.limits.beat):
            try:
                self.store.add(f"beat/{self.token}", 1)
            except (DistError, RuntimeError):
                return  # who asks the store next says so

    def stop(self):
        """Give no more signs of life."""
        self.closing.set()
