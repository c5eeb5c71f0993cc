"""What models are made of: modules, parameters, functions and initialisation."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

from rushlight.nn import functional, grad, init, modules, parallel, parameter, utils
from rushlight.nn.modules.activation import *
from rushlight.nn.modules.adaptive import *
from rushlight.nn.modules.attention import *
from rushlight.nn.modules.batchnorm import *
from rushlight.nn.modules.container import *
from rushlight.nn.modules.conv import *
from rushlight.nn.modules.distance import *
from rushlight.nn.modules.dropout import *
from rushlight.nn.modules.flatten import *
from rushlight.nn.modules.fold import *
from rushlight.nn.modules.instancenorm import *
from rushlight.nn.modules.linear import *
from rushlight.nn.modules.loss import *
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.normalization import *
from rushlight.nn.modules.padding import *
from rushlight.nn.modules.pixelshuffle import *
from rushlight.nn.modules.pooling import *
from rushlight.nn.modules.rnn import *
from rushlight.nn.modules.sparse import *
from rushlight.nn.modules.transformer import *
from rushlight.nn.modules.upsampling import *
from rushlight.nn.modules.utils import factory_kwargs
from rushlight.nn.parallel import DataParallel
from rushlight.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__all__ = [
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "factory_kwargs",
    "functional",
    "grad",
    "init",
    "modules",
    "parameter",
    "utils",
]
__all__ += modules.__all__
_LATER = ("attention", "common_types", "intrinsic", "qat", "quantizable", "quantized")


__getattr__ = _lazy_getattr(
    __name__,
    _LATER,
    {"LinearCrossEntropyOptions": "modules.linear_cross_entropy_options"},
)
