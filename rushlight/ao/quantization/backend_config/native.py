"""What the host computes with integers, as a `BackendConfig`."""

import operator

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import intrinsic as nni
from rushlight.ao.nn import qat as nnqat
from rushlight.ao.nn.intrinsic import qat as nniqat
from rushlight.ao.nn.quantized import reference as nnqr
from rushlight.ao.quantization import fuser_method_mappings as fusers
from rushlight.ao.quantization.backend_config.backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
)
from rushlight.nn import functional as F

__all__ = ["get_native_backend_config", "get_native_backend_config_dict"]

_STATIC = DTypeConfig(rl.quint8, rl.quint8)
_WEIGHTED = DTypeConfig(rl.quint8, rl.quint8, rl.qint8, rl.float32)
_NORM = DTypeConfig(rl.quint8, rl.quint8, rl.float32, rl.float32)
_DYNAMIC = [
    DTypeConfig(rl.quint8, rl.float32, rl.qint8, rl.float32, True),
    DTypeConfig(rl.float16, rl.float32, rl.float16, rl.float32, True),
]
_TABLES = [
    DTypeConfig(rl.float32, rl.float32, rl.quint8),
    DTypeConfig(rl.float32, rl.float32, rl.quint4x2),
]
_UNIT = DTypeWithConstraints(rl.quint8, 0, 255, None, None, 1 / 256, 0)
_SIGNED_UNIT = DTypeWithConstraints(rl.quint8, 0, 255, None, None, 2 / 256, 128)

_ALONE = [
    nn.ELU, nn.LeakyReLU, nn.Hardswish, nn.InstanceNorm1d, nn.InstanceNorm2d,
    nn.InstanceNorm3d, nn.Dropout, nn.PReLU, F.elu, F.hardswish, F.leaky_relu, F.dropout,
]  # fmt: skip
# Those whose results have the scale of what comes in: integers are moved or compared.
_SHARED = [
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d,
    nn.AvgPool2d, nn.AvgPool3d, nn.Hardtanh, nn.Identity, nn.MaxPool1d, nn.MaxPool2d,
    nn.MaxPool3d, nn.PixelShuffle, nn.PixelUnshuffle, nn.ReLU, nn.ReLU6,
    rl.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.hardtanh,
    F.hardtanh_, F.interpolate, F.max_pool1d, F.max_pool2d, F.max_pool3d, F.pixel_shuffle,
    F.pixel_unshuffle, F.relu, F.relu6, rl.avg_pool1d, rl._C._nn.avg_pool2d,
    rl._C._nn.avg_pool3d, rl.clamp, rl.flatten, rl.mean, rl.narrow, rl.repeat_interleave,
    rl.transpose, rl.squeeze, rl.stack, rl.unsqueeze, operator.floordiv, "contiguous",
    "clamp", "detach", "detach_", "mean", "permute", "repeat", "repeat_interleave",
    "reshape", "resize_", "relu", "relu_", "squeeze", "squeeze_", "transpose", "unsqueeze",
    "unsqueeze_", "view",
]  # fmt: skip
_FIXED = (  # those whose results lie in a known range, with it
    (_UNIT, [
        nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid,
        rl.sigmoid, "sigmoid", "sigmoid_", nn.Softmax,
    ]),
    (_SIGNED_UNIT, [nn.Tanh, rl.tanh, "tanh", "tanh_"]),
)  # fmt: skip


def _row(pattern, dtypes, **attributes):
    config = BackendPatternConfig(pattern)
    config.dtype_configs = list(dtypes)
    for name, value in attributes.items():
        setattr(config, name, value)
    return config


def _rooted(kinds, dtypes, root, reference, trained=()):
    """Rows of modules that have a root's weights, and of those trained in their place."""
    for kind, qat in zip(kinds, trained or (None,) * len(kinds)):
        made = {"root_module": root, "reference_quantized_module": reference}
        yield _row(kind, dtypes, **made, qat_module=qat)
        if qat is not None:
            yield _row(qat, dtypes, **made)


def _fused(before, afters, dtypes, method, becomes):
    for after in afters:
        pattern = (*before, *after)
        yield _row(pattern, dtypes, fuser_method=method, fused_module=becomes)


_RELU = [(nn.ReLU,), (F.relu,)]
_OPERANDS = {"weight": 1, "bias": 2}


def _linear():
    dtypes = [_WEIGHTED, *_DYNAMIC]
    kinds = nn.Linear, nni.LinearReLU, nni.LinearBn1d
    trained = nnqat.Linear, nniqat.LinearReLU, nniqat.LinearBn1d
    yield from _rooted(kinds, dtypes, nn.Linear, nnqr.Linear, trained)
    wrapped = fusers._sequential_wrapper2(nni.LinearReLU)
    yield from _fused([nn.Linear], _RELU, dtypes, wrapped, nni.LinearReLU)
    norm = [(nn.BatchNorm1d,)]
    yield from _fused([nn.Linear], norm, dtypes, fusers.fuse_linear_bn, nni.LinearBn1d)
    yield _row(F.linear, dtypes, _input_type_to_index=_OPERANDS)
    yield from (_row((F.linear, *relu), dtypes) for relu in _RELU)


def _convolutions(count):
    def of(home, name):
        return getattr(home, f"{name}{count}d", None)

    conv, transposed, norm = (of(nn, n) for n in ("Conv", "ConvTranspose", "BatchNorm"))
    names, dtypes = ("ConvReLU", "ConvBn", "ConvBnReLU"), [_WEIGHTED]
    kinds = conv, *(of(nni, name) for name in names)
    trained = of(nnqat, "Conv"), *(of(nniqat, name) for name in names)
    yield from _rooted(kinds, dtypes, conv, of(nnqr, "Conv"), trained)
    wrapped = fusers._sequential_wrapper2(kinds[1])
    yield from _fused([conv], _RELU, dtypes, wrapped, kinds[1])
    yield from _fused([conv], [(norm,)], dtypes, fusers.fuse_conv_bn, kinds[2])
    yield from _fused([conv, norm], _RELU, dtypes, fusers.fuse_conv_bn_relu, kinds[3])
    reference = of(nnqr, "ConvTranspose")
    yield from _rooted([transposed], dtypes, transposed, reference)
    yield _row(
        (transposed, norm), dtypes, root_module=transposed,
        reference_quantized_module=reference, fuser_method=fusers.fuse_convtranspose_bn,
    )  # fmt: skip
    function = getattr(F, f"conv{count}d")
    yield _row(function, dtypes, _input_type_to_index=_OPERANDS)
    yield from (_row((function, *relu), dtypes) for relu in _RELU)
    function = getattr(F, f"conv_transpose{count}d")
    yield _row(function, dtypes, _input_type_to_index=_OPERANDS)


def _norms():
    for norm, becomes in (
        (nn.BatchNorm2d, nni.BNReLU2d),
        (nn.BatchNorm3d, nni.BNReLU3d),
    ):
        wrapped = fusers._sequential_wrapper2(becomes)
        yield from _fused([norm], _RELU, [_STATIC], wrapped, becomes)
        yield from (_row(kind, [_STATIC]) for kind in (norm, becomes))
    yield _row(nn.LayerNorm, [_NORM])
    for function, dtypes, at in (
        (F.layer_norm, _NORM, 2), (F.group_norm, _STATIC, 2), (F.instance_norm, _STATIC, 3)
    ):  # fmt: skip
        yield _row(
            function, [dtypes], _input_type_to_index={"weight": at, "bias": at + 1}
        )


def _functions():
    kind = ObservationType
    counts = {
        0: kind.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT,
        1: kind.OUTPUT_SHARE_OBSERVER_WITH_INPUT,
        2: kind.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT,
    }
    for function in (operator.add, rl.add, operator.mul, rl.mul):
        for after in (nn.ReLU,), (F.relu,), (rl.relu,), ():
            pattern = (function, *after) if after else function
            yield _row(pattern, [_STATIC], _num_tensor_args_to_observation_type=counts)
    yield from (_row(each, [_STATIC]) for each in (rl.matmul, *_ALONE))
    shared = kind.OUTPUT_SHARE_OBSERVER_WITH_INPUT
    for each in (rl.cat, *_SHARED):
        yield _row(each, [_STATIC], observation_type=shared)
    for each in "shape", "size":
        unseen = kind.INPUT_OUTPUT_NOT_OBSERVED
        yield _row(each, [_STATIC], observation_type=unseen)
    for constraints, functions in _FIXED:
        dtypes = [DTypeConfig(constraints, constraints)]
        yield from (_row(each, dtypes) for each in functions)


def _tables_and_cells():
    for name in "Embedding", "EmbeddingBag":
        root, reference = getattr(nn, name), getattr(nnqr, name)
        yield from _rooted([root], _TABLES, root, reference, [getattr(nnqat, name)])
    for root in nn.GRUCell, nn.LSTMCell, nn.RNNCell, nn.LSTM, nn.GRU:
        yield _row(root, _DYNAMIC, root_module=root)


def get_native_backend_config():
    """The host's.

    >>> get_native_backend_config().name
    'native'
    """
    config = BackendConfig("native")
    for rows in (
        *map(_convolutions, (1, 2, 3)), _linear(), _functions(), _norms(),
        _tables_and_cells(),
    ):  # fmt: skip
        config.set_backend_pattern_configs(rows)
    return config


def get_native_backend_config_dict():
    """The host's, as a dictionary."""
    return get_native_backend_config().to_dict()
