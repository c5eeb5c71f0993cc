"""The layers' functions: ``rushlight.nn.functional``.

What an operator does as it stands, such as ``conv2d`` or ``linear``, is handed out
under its own name; the rest, by topic, is in the modules of ``nn/_functions``.
"""

from __future__ import annotations

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
    logsigmoid,
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
from rushlight.nn._functions.attention import (
    _canonical_mask,
    _none_or_dtype,
    multi_head_attention_forward,
    scaled_dot_product_attention,
)
from rushlight.nn._functions.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from rushlight.nn._functions.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cosine_similarity,
    cross_entropy,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    pairwise_distance,
    poisson_nll_loss,
    smooth_l1_loss,
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
from rushlight.nn._functions.padding import (
    channel_shuffle,
    fold,
    one_hot,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
)
from rushlight.nn._functions.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
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
from rushlight.ops import call

# Names here -> operators: looked up on first use, so that importing stays cheap.
_OPERATORS = {
    "celu_": "celu_",
    "conv1d": "conv1d",
    "conv2d": "conv2d",
    "conv3d": "conv3d",
    "conv_transpose1d": "conv_transpose1d",
    "conv_transpose2d": "conv_transpose2d",
    "conv_transpose3d": "conv_transpose3d",
    "elu_": "elu_",
    "gelu": "gelu",
    "hardshrink": "hardshrink",
    "hardtanh_": "hardtanh_",
    "leaky_relu_": "leaky_relu_",
    "linear": "linear",
    "prelu": "prelu",
    "relu_": "relu_",
    "selu_": "selu_",
    "softplus": "softplus",
    "softshrink": "softshrink",
    "threshold_": "threshold_",
}


def bilinear(input1, input2, weight, bias=None):
    """``input1 @ weight[o] @ input2`` for each output feature ``o``."""
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            "bilinear(): input batch dimensions do not match\n"
            f"  input1: {list(input1.shape)}\n  input2: {list(input2.shape)}")
    if input1.size(-1) != weight.size(1) or input2.size(-1) != weight.size(2):
        raise RuntimeError(
            f"bilinear(): input1 size does not match weight size: got "
            f"{input1.size(-1)} and {input2.size(-1)} but expected {weight.size(1)} "
            f"and {weight.size(2)}")
    lead = input1.shape[:-1]
    left = input1.reshape(-1, input1.size(-1))
    right = input2.reshape(-1, input2.size(-1), 1)
    # (in1, out * in2): one matrix product for all output features.
    folded = weight.permute(1, 0, 2).reshape(weight.size(1), -1)
    halfway = (left @ folded).view(-1, weight.size(0), weight.size(2))
    result = (halfway @ right).squeeze(-1).view(*lead, weight.size(0))
    return result if bias is None else result + bias


def __getattr__(name):
    operator = _OPERATORS.get(name)
    if operator is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(call, operator)
    return value


def __dir__():
    return sorted({*globals(), *_OPERATORS})


__all__ = sorted(
    {name for name, value in globals().items()
     if callable(value) and not name.startswith("_")} | set(_OPERATORS))
