"""Modules whose parameters are spread: columns, rows, sequences, losses."""

from rushlight.distributed.tensor.parallel.api import parallelize_module
from rushlight.distributed.tensor.parallel.loss import loss_parallel
from rushlight.distributed.tensor.parallel import style
from rushlight.distributed.tensor.parallel.style import *

__all__ = ["loss_parallel", "parallelize_module"]
__all__ += style.__all__
