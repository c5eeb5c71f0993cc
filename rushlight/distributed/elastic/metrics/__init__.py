"""Numbers that programs publish of themselves: how long, how often, how often in vain."""

from rushlight.distributed.elastic.metrics import api
from rushlight.distributed.elastic.metrics.api import *

__all__ = api.__all__
