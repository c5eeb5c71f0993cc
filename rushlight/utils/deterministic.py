"""What deterministic runs do about memory that nobody has written.

While ``use_deterministic_algorithms(True)`` holds, ``empty`` and its kind and ``resize_``
fill new memory with NaN, or with the largest integer, so that a program that reads it does
the same each time.

>>> import rushlight as rl
>>> rl.use_deterministic_algorithms(True)
>>> rl.empty(2)
tensor([nan, nan])
>>> rl.utils.deterministic.fill_uninitialized_memory
True
>>> rl.use_deterministic_algorithms(False)
"""

import math
import sys
import types

from rushlight.core import factories, switches
from rushlight.core.dtype import iinfo
from rushlight.core.layout import strided

_FILL = "fill_uninitialized_memory"


def asked():
    """0, 1 for warnings, or 2 for errors where a kernel is not deterministic."""
    return switches.switch("deterministic")


def ask_for(mode):
    """Sets that number; new memory is filled from then on, or no more."""
    switches.set_switch("deterministic", mode)
    factories.bind_fill(_mark if mode and switches.switch(_FILL) else None)


def _mark(tensor):
    """Fills what was never written with NaN, or with the largest integer."""
    if not tensor.device.has_memory or tensor.layout is not strided:
        return
    if tensor.is_floating_point() or tensor.is_complex():
        tensor.fill_(math.nan)
    elif tensor.dtype.name == "bool":
        tensor.fill_(True)
    else:
        tensor.fill_(iinfo(tensor.dtype).max)


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self):
        """Whether new memory is filled while a deterministic run is asked for."""
        return bool(switches.switch(_FILL))

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, fill):
        if not isinstance(fill, bool):
            raise RuntimeError(f"expected a bool, but got {type(fill).__name__}")
        switches.set_switch(_FILL, int(fill))
        ask_for(asked())


sys.modules[__name__].__class__ = _Deterministic
