"""Configurations: by which observers activations and weights are quantized."""

import warnings
from collections import namedtuple

import rushlight as rl
from rushlight.ao.quantization import fake_quantize as fake
from rushlight.ao.quantization import observer as seen
from rushlight.ao.quantization.observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    NoopObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    ReuseInputObserver,
    _PartialWrapper,
)
from rushlight.nn import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Module
from rushlight.nn.modules.linear import Identity

__all__ = [
    "QConfig",
    "QConfigAny",
    "QConfigDynamic",
    "default_activation_only_qconfig",
    "default_debug_qconfig",
    "default_dynamic_qat_qconfig",
    "default_dynamic_qconfig",
    "default_embedding_qat_qconfig",
    "default_embedding_qat_qconfig_4bit",
    "default_per_channel_qconfig",
    "default_per_channel_symmetric_qnnpack_qat_qconfig",
    "default_per_channel_symmetric_qnnpack_qconfig",
    "default_qat_qconfig",
    "default_qat_qconfig_v2",
    "default_qconfig",
    "default_quint8_weight_qconfig",
    "default_reuse_input_qconfig",
    "default_symmetric_qnnpack_qat_qconfig",
    "default_symmetric_qnnpack_qconfig",
    "default_weight_only_qconfig",
    "float16_dynamic_qconfig",
    "float16_static_qconfig",
    "float_qparams_weight_only_qconfig",
    "float_qparams_weight_only_qconfig_4bit",
    "get_default_qat_qconfig",
    "get_default_qconfig",
    "per_channel_dynamic_qconfig",
    "qconfig_equals",
]

_CLASSES = (
    "received observer instance, please pass observer class instead. Use "
    "MyObserver.with_args(x=1) to override arguments to constructor if needed"
)


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """What makes observers of activations and of weights.

    Args:
        activation, weight: classes, or what ``with_args`` gives.

    Raises:
        ValueError: one is an observer already.

    >>> config = QConfig(MinMaxObserver, MinMaxObserver.with_args(dtype=rl.qint8))
    >>> config.weight().dtype
    rushlight.qint8
    """

    __slots__ = ()

    def __new__(cls, activation, weight):
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError(f"QConfig {_CLASSES}")
        return super().__new__(cls, activation, weight)


class QConfigDynamic(namedtuple("QConfigDynamic", ["activation", "weight"])):
    """An older word for a `QConfig` of dynamic quantization."""

    __slots__ = ()

    def __new__(cls, activation=Identity, weight=Identity):
        warnings.warn(
            "`QConfigDynamic` is going to be deprecated in PyTorch 1.12, please use "
            "`QConfig` instead",
            FutureWarning,
            stacklevel=2,
        )
        if isinstance(weight, Module):
            raise ValueError(f"QConfigDynamic {_CLASSES}")
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None

_HALF = PlaceholderObserver.with_args(dtype=rl.float16)
default_qconfig = QConfig(seen.default_observer, seen.default_weight_observer)
default_debug_qconfig = QConfig(
    seen.default_debug_observer, seen.default_weight_observer
)
default_per_channel_qconfig = QConfig(
    seen.default_observer, seen.default_per_channel_weight_observer
)
default_dynamic_qconfig = QConfig(
    seen.default_dynamic_quant_observer, seen.default_weight_observer
)
float16_dynamic_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=rl.float16, is_dynamic=True), _HALF
)
float16_static_qconfig = QConfig(_HALF, _HALF)
per_channel_dynamic_qconfig = QConfig(
    seen.default_dynamic_quant_observer, seen.default_per_channel_weight_observer
)
float_qparams_weight_only_qconfig = QConfig(
    seen.default_placeholder_observer, seen.default_float_qparams_observer
)
float_qparams_weight_only_qconfig_4bit = QConfig(
    seen.default_placeholder_observer, seen.default_float_qparams_observer_4bit
)
default_qat_qconfig = QConfig(fake.default_fake_quant, fake.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(
    fake.default_dynamic_fake_quant, fake.default_weight_fake_quant
)
default_weight_only_qconfig = QConfig(Identity, fake.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(fake.default_fake_quant, Identity)
default_qat_qconfig_v2 = QConfig(
    fake.default_fused_act_fake_quant, fake.default_fused_wt_fake_quant
)
default_reuse_input_qconfig = QConfig(seen.default_reuse_input_observer, NoopObserver)
_QNNPACK = HistogramObserver.with_args(dtype=rl.qint8, reduce_range=False, eps=2**-12)
default_symmetric_qnnpack_qconfig = QConfig(
    _QNNPACK, seen.weight_observer_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    _QNNPACK, seen.per_channel_weight_observer_range_neg_127_to_127
)
_FLOATS = NoopObserver.with_args(dtype=rl.float32)
default_embedding_qat_qconfig = QConfig(_FLOATS, fake.default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(
    _FLOATS, fake.default_embedding_fake_quant_4bit
)
default_quint8_weight_qconfig = QConfig(HistogramObserver, MinMaxObserver)
_QNNPACK_QAT = fake.FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=rl.qint8,
    reduce_range=False, eps=2**-12,
)  # fmt: skip
default_symmetric_qnnpack_qat_qconfig = QConfig(
    _QNNPACK_QAT, fake.fused_wt_fake_quant_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _QNNPACK_QAT, fake.fused_per_channel_wt_fake_quant_range_neg_127_to_127
)
_default_fp32_placeholder_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=rl.float32),
    PlaceholderObserver.with_args(dtype=rl.float32),
)
_default_quint8_placeholder_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=rl.quint8), None
)

# backend -> whether a bit is given up, and whether weights have scales of channels
_BACKENDS = {
    "fbgemm": (True, True), "x86": (True, True), "qnnpack": (False, False),
    "onednn": (False, True),
}  # fmt: skip


def _backend(backend):
    if backend not in _BACKENDS:
        raise AssertionError(
            f"backend: {backend} not supported. backend must be one of {list(_BACKENDS)}"
        )
    return _BACKENDS[backend]


def get_default_qconfig(backend="x86", version=0):
    """The configuration of static quantization that suits a backend.

    Raises:
        AssertionError: the backend or the version is not known.
    """
    reduced, channels = _backend(backend)
    if version != 0:
        raise AssertionError(
            f"Version number: {version} in get_default_qconfig is not supported. Version "
            "number must be 0"
        )
    return QConfig(
        HistogramObserver.with_args(reduce_range=reduced),
        seen.default_per_channel_weight_observer
        if channels
        else seen.default_weight_observer,
    )


def get_default_qat_qconfig(backend="x86", version=1):
    """The configuration of training for quantization that suits a backend.

    Raises:
        AssertionError: the backend or the version is not known.
    """
    reduced, channels = _backend(backend)
    if version not in (0, 1):
        raise AssertionError(
            f"Version number: {version}in get_default_qat_qconfig is not supported. "
            "Version number must be 0 or 1"
        )
    kind = fake.FusedMovingAvgObsFakeQuantize if version else fake.FakeQuantize
    bounds = {"quant_min": 0, "quant_max": 255}
    if backend != "onednn":
        bounds["reduce_range"] = reduced
    weights = {
        (0, True): fake.default_per_channel_weight_fake_quant,
        (0, False): fake.default_weight_fake_quant,
        (1, True): fake.default_fused_per_channel_wt_fake_quant,
        (1, False): fake.default_fused_wt_fake_quant,
    }
    activation = kind.with_args(observer=MovingAverageMinMaxObserver, **bounds)
    return QConfig(activation, weights[version, channels])


def _assert_valid_qconfig(qconfig, mod):
    transposed = ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
    if qconfig is None or not isinstance(mod, transposed) or qconfig.weight is None:
        return
    channels = PerChannelMinMaxObserver, MovingAveragePerChannelMinMaxObserver
    if isinstance(qconfig.weight(), channels):
        raise AssertionError(
            "Per channel weight observer is not supported yet for ConvTranspose{n}d."
        )


def _parts(constructor):
    """A class and the arguments that it has been given."""
    settings = {}
    while isinstance(constructor, _PartialWrapper):
        settings = {**constructor.p.keywords, **settings}
        constructor = constructor.p.func
    return constructor, settings


def _obs_or_fq_ctr_equals(one, two):
    (a, given_a), (b, given_b) = _parts(one), _parts(two)
    if a is not b:
        return False
    observers = [given.pop("observer", None) for given in (given_a, given_b)]
    given_a.pop("factory_kwargs", None), given_b.pop("factory_kwargs", None)
    if given_a != given_b:
        return False
    if observers == [None, None]:
        return True
    return None not in observers and _obs_or_fq_ctr_equals(*observers)


def qconfig_equals(q1, q2):
    """Whether two configurations make the same observers.

    >>> qconfig_equals(default_qconfig, QConfig(*default_qconfig))
    True
    """
    if q1 is None or q2 is None:
        return q1 == q2
    return _obs_or_fq_ctr_equals(q1.activation, q2.activation) and (
        _obs_or_fq_ctr_equals(q1.weight, q2.weight)
    )


def _partial_wrapper_equals(obs_or_fq1, obs_or_fq2):
    return _obs_or_fq_ctr_equals(obs_or_fq1, obs_or_fq2)


def _activation_is_memoryless(qconfig):
    made = qconfig.activation()
    inner = getattr(made, "activation_post_process", made)
    return getattr(inner, "averaging_constant", None) == 1


def _is_reuse_input_qconfig(qconfig):
    if qconfig is None:
        return False
    reused = isinstance(qconfig.activation(), ReuseInputObserver)
    return reused and isinstance(qconfig.weight(), NoopObserver)
