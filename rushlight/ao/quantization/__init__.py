"""Quantization: observers, configurations, and workflows that use them."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

from rushlight.ao.quantization.fake_quantize import *
from rushlight.ao.quantization.fuse_modules import fuse_modules, fuse_modules_qat
from rushlight.ao.quantization.fuser_method_mappings import *
from rushlight.ao.quantization.observer import (
    FixedQParamsObserver,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    NoopObserver,
    ObserverBase,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    RecordingObserver,
    ReuseInputObserver,
    UniformQuantizationObserverBase,
    default_affine_fixed_qparams_observer,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_float_qparams_observer,
    default_float_qparams_observer_4bit,
    default_histogram_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_reuse_input_observer,
    default_symmetric_fixed_qparams_observer,
    default_weight_observer,
    get_observer_state_dict,
    load_observer_state_dict,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)
from rushlight.ao.quantization.qconfig import *
from rushlight.ao.quantization.qconfig_mapping import *
from rushlight.ao.quantization.quant_type import QuantType
from rushlight.ao.quantization.quantization_mappings import *
from rushlight.ao.quantization.quantize import *
from rushlight.ao.quantization.stubs import *
from rushlight.ao.quantization.utils import MatchAllNode, get_combined_dict
from rushlight.ops import define_later

define_later("quantized_decomposed", "rushlight.ao.quantization.fx._decomposed")


__getattr__ = _lazy_getattr(__name__, ("fx", "quantize_fx"))


def default_eval_fn(model, calib_data):
    """Runs a model on the data of pairs of data and targets."""
    for data, _ in calib_data:
        model(data)
