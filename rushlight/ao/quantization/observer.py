"""Observers, and those that configurations begin with."""

import rushlight as rl
from rushlight.ao.quantization._histogram import HistogramObserver
from rushlight.ao.quantization._observers import (
    EPS,
    FixedQParamsObserver,
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
    _is_activation_post_process,
    _ObserverBase,
    _PartialWrapper,
    _with_args,
    get_observer_state_dict,
    load_observer_state_dict,
)

__all__ = [
    "EPS",
    "FixedQParamsObserver",
    "HistogramObserver",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver",
    "NoopObserver",
    "ObserverBase",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "RecordingObserver",
    "ReuseInputObserver",
    "UniformQuantizationObserverBase",
    "_ObserverBase",
    "_PartialWrapper",
    "_is_activation_post_process",
    "_with_args",
    "default_affine_fixed_qparams_observer",
    "default_debug_observer",
    "default_dynamic_quant_observer",
    "default_fixed_qparams_range_0to1_observer",
    "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer",
    "default_float_qparams_observer_4bit",
    "default_histogram_observer",
    "default_observer",
    "default_per_channel_weight_observer",
    "default_placeholder_observer",
    "default_reuse_input_observer",
    "default_symmetric_fixed_qparams_observer",
    "default_weight_observer",
    "get_observer_state_dict",
    "load_observer_state_dict",
    "per_channel_weight_observer_range_neg_127_to_127",
    "weight_observer_range_neg_127_to_127",
]

_NARROW = {"quant_min": -127, "quant_max": 127, "eps": 2**-12}
_WEIGHT = {"dtype": rl.qint8, "qscheme": rl.per_tensor_symmetric}
_CHANNELS = {"dtype": rl.qint8, "qscheme": rl.per_channel_symmetric}
_ROWS = {"qscheme": rl.per_channel_affine_float_qparams, "ch_axis": 0}
_BYTES = {"dtype": rl.quint8, "quant_min": 0, "quant_max": 255}

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(**_WEIGHT)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(**_WEIGHT, **_NARROW)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(**_CHANNELS)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    **_CHANNELS, **_NARROW
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    **_BYTES, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=rl.quint8, **_ROWS
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=rl.quint4x2, **_ROWS
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, **_BYTES
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, **_BYTES
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver
