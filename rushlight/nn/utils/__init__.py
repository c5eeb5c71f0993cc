"""Helpers around modules: clipping, flattening and packing."""

from __future__ import annotations

from rushlight.nn.utils import rnn, stateless
from rushlight.nn.utils.clip_grad import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from rushlight.nn.utils.convert_parameters import (
    parameters_to_vector,
    vector_to_parameters,
)
from rushlight.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from rushlight.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "remove_weight_norm",
    "rnn",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]
