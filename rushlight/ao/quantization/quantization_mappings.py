"""Which module takes the place of which."""

import copy

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import intrinsic as nni
from rushlight.ao.nn import qat as nnqat
from rushlight.ao.nn import quantized as nnq
from rushlight.ao.nn.intrinsic import qat as nniqat
from rushlight.ao.nn.intrinsic import quantized as nniq
from rushlight.ao.nn.intrinsic.quantized import dynamic as nniqd
from rushlight.ao.nn.qat import dynamic as nnqatd
from rushlight.ao.nn.quantized import dynamic as nnqd
from rushlight.ao.quantization.fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from rushlight.ao.quantization.stubs import DeQuantStub, QuantStub
from rushlight.ao.quantization.utils import get_combined_dict
from rushlight.nn import functional as F
from rushlight.nn.utils.parametrize import type_before_parametrizations

__all__ = [
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS",
    "DEFAULT_MODULE_TO_ACT_POST_PROCESS",
    "DEFAULT_QAT_MODULE_MAPPINGS",
    "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS",
    "get_default_compare_output_module_list",
    "get_default_dynamic_quant_module_mappings",
    "get_default_float_to_quantized_operator_mappings",
    "get_default_qat_module_mappings",
    "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings",
    "get_dynamic_quant_module_class",
    "get_embedding_qat_module_mappings",
    "get_embedding_static_quant_module_mappings",
    "get_quantized_operator",
    "get_static_quant_module_class",
    "no_observer_set",
]

_BARE = nn.modules.linear.NonDynamicallyQuantizableLinear
_SAME_NAMES = (
    "BatchNorm2d BatchNorm3d Dropout Conv1d Conv2d Conv3d ConvTranspose1d "
    "ConvTranspose2d ConvTranspose3d ELU Embedding EmbeddingBag GroupNorm Hardswish "
    "InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU Linear ReLU6 PReLU"
).split()
_FUSED = "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU".split()
_WITH_NORM = [
    f"{word}{count}d" for word in ("ConvBn", "ConvBnReLU") for count in (1, 2, 3)
]

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS = {
    QuantStub: nnq.Quantize,
    DeQuantStub: nnq.DeQuantize,
    **{getattr(nn, name): getattr(nnq, name) for name in _SAME_NAMES},
    _BARE: nnq.Linear,
    nnq.FloatFunctional: nnq.QFunctional,
    **{getattr(nni, name): getattr(nniq, name) for name in _FUSED},
    **{getattr(nniqat, f"ConvBn{n}d"): getattr(nnq, f"Conv{n}d") for n in (1, 2, 3)},
    **{
        getattr(nniqat, f"ConvBnReLU{n}d"): getattr(nniq, f"ConvReLU{n}d")
        for n in (1, 2, 3)
    },
    nniqat.ConvReLU2d: nniq.ConvReLU2d,
    nniqat.ConvReLU3d: nniq.ConvReLU3d,
    nniqat.LinearReLU: nniq.LinearReLU,
    nniqat.LinearBn1d: nnq.Linear,
    nnqat.Linear: nnq.Linear,
    nnqat.Conv2d: nnq.Conv2d,
    nnqat.Conv3d: nnq.Conv3d,
}
DEFAULT_QAT_MODULE_MAPPINGS = {
    nn.Conv2d: nnqat.Conv2d,
    nn.Conv3d: nnqat.Conv3d,
    nn.Linear: nnqat.Linear,
    _BARE: nnqat.Linear,
    **{getattr(nni, name): getattr(nniqat, name) for name in _WITH_NORM},
    nni.ConvReLU2d: nniqat.ConvReLU2d,
    nni.ConvReLU3d: nniqat.ConvReLU3d,
    nni.LinearReLU: nniqat.LinearReLU,
    nni.LinearBn1d: nniqat.LinearBn1d,
}
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS = {
    nn.GRUCell: nnqd.GRUCell,
    nn.Linear: nnqd.Linear,
    nnqatd.Linear: nnqd.Linear,
    _BARE: nnqd.Linear,
    nn.LSTM: nnqd.LSTM,
    nn.GRU: nnqd.GRU,
    nn.LSTMCell: nnqd.LSTMCell,
    nn.RNNCell: nnqd.RNNCell,
    nni.LinearReLU: nniqd.LinearReLU,
    nn.EmbeddingBag: nnq.EmbeddingBag,
    nn.Embedding: nnq.Embedding,
}
_INCLUDE_QCONFIG_PROPAGATE_LIST = {nn.Sequential}
DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS = {
    getattr(F, name): getattr(rl.ops.quantized, name)
    for name in "elu hardswish instance_norm layer_norm leaky_relu dropout".split()
}
DEFAULT_MODULE_TO_ACT_POST_PROCESS = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}


def no_observer_set():
    """Modules that are not observed as a whole: their parts are."""
    return {nnq.LSTM._FLOAT_MODULE, nnq.MultiheadAttention._FLOAT_MODULE}


def get_default_static_quant_module_mappings():
    """Layers of integers by the layers of numbers that they are made of."""
    return dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_embedding_static_quant_module_mappings():
    """The same with tables that were trained for quantization."""
    tables = {nnqat.EmbeddingBag: nnq.EmbeddingBag, nnqat.Embedding: nnq.Embedding}
    return get_combined_dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, tables)


def get_default_qat_module_mappings():
    """Layers whose weights are rounded by the layers that they are made of."""
    return dict(DEFAULT_QAT_MODULE_MAPPINGS)


def get_embedding_qat_module_mappings():
    """The same with tables."""
    tables = {nn.EmbeddingBag: nnqat.EmbeddingBag, nn.Embedding: nnqat.Embedding}
    return get_combined_dict(DEFAULT_QAT_MODULE_MAPPINGS, tables)


def get_default_dynamic_quant_module_mappings():
    """Layers with weights of integers by the layers that they are made of."""
    return DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS


def _class(mapping, more, kind):
    known = get_combined_dict(mapping, more or {})
    if known.get(kind) is None:
        raise AssertionError(
            f"Floating point module class {kind} does not have a corresponding quantized "
            "module class"
        )
    return known[kind]


def get_static_quant_module_class(
    float_module_class, additional_static_quant_mapping=None, is_reference=False
):
    """The layer of integers that is made of a layer of numbers.

    Args:
        float_module_class: the class of the layer.
        additional_static_quant_mapping: classes more.
        is_reference: whether the reference's class is asked for.

    Raises:
        AssertionError: there is none.
    """
    mapping = {} if is_reference else DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    return _class(mapping, additional_static_quant_mapping, float_module_class)


def get_dynamic_quant_module_class(
    float_module_class, additional_dynamic_quant_mapping=None
):
    """The layer with weights of integers that is made of a layer of numbers.

    Raises:
        AssertionError: there is none.
    """
    mapping = DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS
    return _class(mapping, additional_dynamic_quant_mapping, float_module_class)


_MAPPINGS = (
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_QAT_MODULE_MAPPINGS,
    DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
)


def get_default_qconfig_propagation_list():
    """Modules that are observed."""
    kinds = set().union(*_MAPPINGS)
    return kinds | _INCLUDE_QCONFIG_PROPAGATE_LIST


def get_default_compare_output_module_list():
    """Modules whose results a comparison of two models looks at."""
    made = set().union(*(mapping.values() for mapping in _MAPPINGS))
    return get_default_qconfig_propagation_list() | made


def get_default_float_to_quantized_operator_mappings():
    """Operators on integers by functions of numbers."""
    return copy.copy(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op):
    """The operator on integers of a function of numbers.

    Raises:
        AssertionError: there is none.
    """
    found = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    if found is None:
        raise AssertionError(
            f"Operator {float_op} does not have corresponding quantized op"
        )
    return found


def _get_special_act_post_process(module):
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type_before_parametrizations(module))


def _has_special_act_post_process(module):
    return module.training and type(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS
