"""The layers' functions: ``rushlight.nn.functional``.

What an operator does as it stands, such as ``conv2d`` or ``linear``, is handed out
under its own name; the rest, by topic, is in the modules of ``nn/_functions``.
"""

from types import FunctionType

from rushlight.core import naming
from rushlight.dispatch.overridable import open_functions, open_plain
from rushlight.dispatch.torch_function import (
    handle_torch_function as handle_torch_function,
)
from rushlight.dispatch.torch_function import has_torch_function as has_torch_function
from rushlight.dispatch.torch_function import (
    has_torch_function_unary as has_torch_function_unary,
)
from rushlight.dispatch.torch_function import (
    has_torch_function_variadic as has_torch_function_variadic,
)
from rushlight.nn import _reduction as _Reduction
from rushlight.nn._functions.activation import (
    celu,
    elu,
    glu,
    gumbel_softmax,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    mish,
    relu,
    relu6,
    rrelu,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softsign,
    tanh,
    tanhshrink,
    threshold,
)
from rushlight.nn._functions.annotations import annotate
from rushlight.nn._functions.attention import (
    _canonical_mask,
    _none_or_dtype,
    multi_head_attention_forward,
)
from rushlight.nn._functions.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from rushlight.nn._functions.grids import affine_grid, grid_sample
from rushlight.nn._functions.grouped import ScalingType as ScalingType
from rushlight.nn._functions.grouped import SwizzleType as SwizzleType
from rushlight.nn._functions.grouped import grouped_mm, scaled_grouped_mm, scaled_mm
from rushlight.nn._functions.linear_loss import linear_cross_entropy
from rushlight.nn._functions.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    ctc_loss,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from rushlight.nn._functions.margins import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from rushlight.nn._functions.norm import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from rushlight.nn._functions.padding import fold, pad, unfold
from rushlight.nn._functions.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from rushlight.nn._functions.resampling import (
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from rushlight.nn._functions.sparse import embedding, embedding_bag
from rushlight.operators import call

# Operators that need no more than their name.
bilinear = call.bilinear
celu_ = call.celu_
channel_shuffle = call.channel_shuffle
conv1d = call.conv1d
conv2d = call.conv2d
conv3d = call.conv3d
conv_tbc = call.conv_tbc
conv_transpose1d = call.conv_transpose1d
conv_transpose2d = call.conv_transpose2d
conv_transpose3d = call.conv_transpose3d
cosine_similarity = call.cosine_similarity
elu_ = call.elu_
gelu = call.gelu
hardshrink = call.hardshrink
hardtanh_ = call.hardtanh_
leaky_relu_ = call.leaky_relu_
linear = call.linear
logsigmoid = call.log_sigmoid
one_hot = call.one_hot
pairwise_distance = call.pairwise_distance
pdist = call.pdist
pixel_shuffle = call.pixel_shuffle
pixel_unshuffle = call.pixel_unshuffle
prelu = call.prelu
relu_ = call.relu_
rrelu_ = call.rrelu_
scaled_dot_product_attention = call.scaled_dot_product_attention
selu_ = call.selu_
softplus = call.softplus
softshrink = call.softshrink
threshold_ = call.threshold_

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "grouped_mm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "scaled_grouped_mm",
    "scaled_mm",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

_written = {
    name: globals()[name]
    for name in __all__
    if isinstance(globals()[name], FunctionType)
}
annotate(_written)
# Functions that are another one where they give positions, too.
_SWITCHES = {
    name: ("return_indices", f"{name}_with_indices")
    for name in (
        "adaptive_max_pool1d",
        "adaptive_max_pool2d",
        "adaptive_max_pool3d",
        "fractional_max_pool2d",
        "fractional_max_pool3d",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
    )
}
# What PyTorch has in C++, or hands on to another function before any handler sees it.
_PLAIN = (
    "adaptive_avg_pool1d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "grouped_mm",
    "scaled_grouped_mm",
    "scaled_mm",
    "sigmoid",
    "tanh",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
)
_PLACE = f"{naming.package}.nn.functional"
open_plain(globals(), _PLAIN, _PLACE)
open_functions(globals(), _written, _PLACE, switches=_SWITCHES)


def __getattr__(name):
    if name == "grad":  # which needs the modules, that need this one
        from rushlight.nn import grad

        return grad
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
