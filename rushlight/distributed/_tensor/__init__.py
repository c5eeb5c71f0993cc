"""The earlier name of `distributed.tensor`."""

from rushlight.distributed import tensor
from rushlight.distributed.tensor import *

__all__ = tensor.__all__
