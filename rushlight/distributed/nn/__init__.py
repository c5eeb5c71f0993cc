"""Collectives that gradients go back through."""

from rushlight.distributed.nn import functional
from rushlight.distributed.nn.functional import *

__all__ = functional.__all__
