"""The layers, by topic."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr
from rushlight.nn.modules import (
    activation,
    adaptive,
    attention,
    batchnorm,
    channelshuffle as channelshuffle,
    container,
    conv,
    distance,
    dropout,
    flatten,
    fold,
    instancenorm,
    linear,
    loss,
    normalization,
    padding,
    pixelshuffle,
    pooling,
    rnn,
    sparse,
    transformer,
    upsampling,
)
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

# PyTorch has it in the module of activations, and pickles name that.
vars(activation)["MultiheadAttention"] = MultiheadAttention

__all__ = ["LinearCrossEntropyOptions", "Module"]
__all__ += activation.__all__
__all__ += adaptive.__all__
__all__ += attention.__all__
__all__ += batchnorm.__all__
__all__ += container.__all__
__all__ += conv.__all__
__all__ += distance.__all__
__all__ += dropout.__all__
__all__ += flatten.__all__
__all__ += fold.__all__
__all__ += instancenorm.__all__
__all__ += linear.__all__
__all__ += loss.__all__
__all__ += normalization.__all__
__all__ += padding.__all__
__all__ += pixelshuffle.__all__
__all__ += pooling.__all__
__all__ += rnn.__all__
__all__ += sparse.__all__
__all__ += transformer.__all__
__all__ += upsampling.__all__


__getattr__ = _lazy_getattr(
    __name__,
    ("linear_cross_entropy_options",),
    {"LinearCrossEntropyOptions": "linear_cross_entropy_options"},
)
