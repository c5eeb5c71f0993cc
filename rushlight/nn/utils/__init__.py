"""Helpers around modules: clipping, flattening and packing."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

from rushlight.nn.utils import rnn, stateless
from rushlight.nn.utils import clip_grad, convert_parameters, fusion, memory_format
from rushlight.nn.utils.clip_grad import *
from rushlight.nn.utils.convert_parameters import *
from rushlight.nn.utils.fusion import *
from rushlight.nn.utils.init import skip_init
from rushlight.nn.utils.memory_format import *
from rushlight.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from rushlight.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "weight_norm",
]
__all__ += clip_grad.__all__
__all__ += convert_parameters.__all__
__all__ += fusion.__all__
__all__ += memory_format.__all__

# Imported when a program first asks for them.
_MODULES = ("parametrizations", "parametrize", "prune")


__getattr__ = _lazy_getattr(__name__, _MODULES)
