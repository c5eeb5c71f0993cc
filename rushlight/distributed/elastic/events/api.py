"""What a launcher and its processes tell of themselves: events, as JSON, for a log."""

import json
import logging
import os
import socket
import sys
import traceback
from dataclasses import asdict, dataclass, field
from enum import Enum, StrEnum

__all__ = [
    "Event",
    "EventMetadataValue",
    "EventSource",
    "NodeState",
    "RdzvEvent",
    "construct_and_record_rdzv_event",
    "get_logging_handler",
    "record",
    "record_rdzv_event",
]

EventMetadataValue = str | int | float | bool | None
HANDLERS = {"null": logging.NullHandler, "console": logging.StreamHandler}
_loggers: dict = {}


class EventSource(StrEnum):
    """Who tells of an event."""

    AGENT = "AGENT"
    WORKER = "WORKER"
    __str__ = Enum.__str__


class NodeState(StrEnum):
    """How far a machine has come in meeting others."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    __str__ = Enum.__str__


class _Serialized:
    """What goes to JSON and comes back; ``_word`` names the field of an enum."""

    def __str__(self):
        return self.serialize()

    def serialize(self):
        """The event as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def deserialize(cls, data):
        """An event from its JSON; an event as it is.

        Args:
            data: either.
        """
        if isinstance(data, cls):
            return data
        facts = json.loads(data) if isinstance(data, str) else dict(data)
        facts[cls._word] = cls._words[facts[cls._word]]
        return cls(**facts)


@dataclass
class Event(_Serialized):
    """Something that a launcher or a process has done.

    Args:
        name: what.
        source: who.
        timestamp: when, in seconds of the epoch.
        metadata: more of it, texts and numbers by name.

    >>> Event("started", EventSource.AGENT, 7).serialize()
    '{"name": "started", "source": "AGENT", "timestamp": 7, "metadata": {}}'
    """

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict = field(default_factory=dict)

    _word, _words = "source", EventSource
    __str__ = _Serialized.__str__


@dataclass
class RdzvEvent(_Serialized):
    """Something that happened while machines came together.

    Args:
        name: what was done, and where.
        run_id: the run.
        message: what is to be said.
        hostname: the machine.
        pid: the process.
        node_state: how far it has come.
        master_endpoint: where they meet.
        rank: the machine's number.
        local_id: its number of launchers.
        error_trace: of the exception, where it failed.
    """

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    _word, _words = "node_state", NodeState
    __str__ = _Serialized.__str__


def get_logging_handler(destination="null"):
    """A handler for events.

    Args:
        destination: ``null``, or ``console``.
    """
    return HANDLERS.get(destination, logging.NullHandler)()


def _logger(destination):
    """The logger of a destination; nothing of it goes to the root's."""
    found = _loggers.get(destination)
    if found is None:
        found = _loggers[destination] = logging.getLogger(
            f"torchelastic-events-{destination}"
        )
        found.setLevel(os.environ.get("LOGLEVEL", "INFO"))
        found.propagate = False
        found.addHandler(get_logging_handler(destination))
    return found


def record(event, destination="null"):
    """Write an event to a log.

    Args:
        event: an `Event`.
        destination: ``null``, or ``console``.
    """
    _logger(destination).info(event.serialize())


def record_rdzv_event(event):
    """Write an event of coming together to its log.

    Args:
        event: a `RdzvEvent`.
    """
    _logger("dynamic_rendezvous").info(event.serialize())


def construct_and_record_rdzv_event(
    run_id,
    message,
    node_state,
    name="",
    hostname="",
    pid=None,
    master_endpoint="",
    local_id=None,
    rank=None,
):
    """Write what happens while machines come together, where somebody reads it.

    Args:
        run_id: the run.
        message: what is to be said.
        node_state: a `NodeState`; of ``FAILED`` the exception is written, too.
        name: what is done; the caller's name without it.
        hostname: the machine; this one without it.
        pid: the process; this one without it.
        master_endpoint: where they meet.
        local_id: the launcher's number on its machine.
        rank: the machine's number.
    """
    if isinstance(get_logging_handler("dynamic_rendezvous"), logging.NullHandler):
        return
    caller = sys._getframe(1)
    file = os.path.basename(caller.f_code.co_filename)
    trace = traceback.format_exc() if node_state == NodeState.FAILED else ""
    record_rdzv_event(
        RdzvEvent(
            f"{file}:{name or caller.f_code.co_name}",
            run_id,
            message,
            hostname or socket.getfqdn(),
            pid or os.getpid(),
            node_state,
            master_endpoint,
            rank,
            local_id,
            trace,
        )
    )
