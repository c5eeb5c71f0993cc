"""Processes of a launcher, how they fail, and where their output goes."""

from rushlight.distributed.elastic.multiprocessing import errors
from rushlight.distributed.elastic.multiprocessing import api
from rushlight.distributed.elastic.multiprocessing.api import *

__all__ = ["errors"]
__all__ += api.__all__
