"""What a launcher and its processes tell of themselves: events, as JSON, for a log."""

from rushlight.distributed.elastic.events import api
from rushlight.distributed.elastic.events.api import *

__all__ = api.__all__
