"""The layers, by topic."""

from __future__ import annotations

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
from rushlight.nn.modules.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    RReLU,
    ReLU,
    ReLU6,
    SELU,
    SiLU,
    Sigmoid,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from rushlight.nn.modules.adaptive import (
    AdaptiveLogSoftmaxWithLoss,
)
from rushlight.nn.modules.attention import MultiheadAttention
from rushlight.nn.modules.batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    LazyBatchNorm1d,
    LazyBatchNorm2d,
    LazyBatchNorm3d,
    SyncBatchNorm,
)
from rushlight.nn.modules.container import (
    Container,
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from rushlight.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    LazyConv1d,
    LazyConv2d,
    LazyConv3d,
    LazyConvTranspose1d,
    LazyConvTranspose2d,
    LazyConvTranspose3d,
)
from rushlight.nn.modules.distance import CosineSimilarity, PairwiseDistance
from rushlight.nn.modules.dropout import (
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
)
from rushlight.nn.modules.flatten import Flatten, Unflatten
from rushlight.nn.modules.fold import Fold, Unfold
from rushlight.nn.modules.instancenorm import (
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LazyInstanceNorm1d,
    LazyInstanceNorm2d,
    LazyInstanceNorm3d,
)
from rushlight.nn.modules.linear import (
    Bilinear,
    Identity,
    LazyLinear,
    Linear,
)
from rushlight.nn.modules.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CTCLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    LinearCrossEntropyLoss,
    MSELoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    NLLLoss2d,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.normalization import (
    CrossMapLRN2d,
    GroupNorm,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
)
from rushlight.nn.modules.padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from rushlight.nn.modules.pixelshuffle import (
    ChannelShuffle,
    PixelShuffle,
    PixelUnshuffle,
)
from rushlight.nn.modules.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
    FractionalMaxPool2d,
    FractionalMaxPool3d,
)
from rushlight.nn.modules.rnn import (
    GRU,
    GRUCell,
    LSTM,
    LSTMCell,
    RNN,
    RNNBase,
    RNNCell,
    RNNCellBase,
)
from rushlight.nn.modules.sparse import Embedding, EmbeddingBag
from rushlight.nn.modules.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from rushlight.nn.modules.upsampling import (
    Upsample,
    UpsamplingBilinear2d,
    UpsamplingNearest2d,
)

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


def __getattr__(name):
    if name in ("LinearCrossEntropyOptions", "linear_cross_entropy_options"):
        # dataclasses are much to import
        from importlib import import_module

        module = import_module(f"{__name__}.linear_cross_entropy_options")
        return getattr(module, name, module)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
