"""What a launcher and its processes tell of themselves: events, as JSON, for a log."""

from rushlight.distributed.elastic.events.api import (
    Event,
    EventMetadataValue,
    EventSource,
    NodeState,
    RdzvEvent,
    construct_and_record_rdzv_event,
    get_logging_handler,
    record,
    record_rdzv_event,
)

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
