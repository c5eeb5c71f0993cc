"""Functions of functions: gradients, Jacobians and batches, nested in any order."""

from rushlight.func._batches import vmap
from rushlight.func import _gradients, _modules
from rushlight.func._gradients import *
from rushlight.func._axes import rearrange
from rushlight.func._functionalize import functionalize
from rushlight.func._modules import *

__all__ = ["functionalize", "rearrange", "vmap"]
__all__ += _gradients.__all__
__all__ += _modules.__all__
