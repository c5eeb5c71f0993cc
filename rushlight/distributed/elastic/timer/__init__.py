"""Limits of time for blocks: a process that outlives one is ended by its launcher."""

from rushlight.distributed.elastic.timer import api
from rushlight.distributed.elastic.timer.api import *

__all__ = api.__all__
