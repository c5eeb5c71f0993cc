"""Which modules, functions and methods compute the same, with numbers or with integers."""

import operator

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import intrinsic as nni
from rushlight.ao.nn.intrinsic import qat as nniqat
from rushlight.ao.quantization import quantization_mappings as mappings
from rushlight.ao.quantization.fx import patterns
from rushlight.nn import functional as F

# What is spelled as a module, as a function and as a method.
_SPELLINGS = (
    set(patterns.RELU),
    {nn.Sigmoid, F.sigmoid, rl.sigmoid, "sigmoid", "sigmoid_"},
    {nn.Tanh, F.tanh, rl.tanh, "tanh", "tanh_"},
    {nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_"},
    {nn.Hardtanh, F.hardtanh, F.hardtanh_},
    {nn.ReLU6, F.relu6},
    {nn.SiLU, F.silu},
    {nn.Mish, F.mish},
    {nn.AvgPool1d, F.avg_pool1d},
    {nn.AvgPool2d, F.avg_pool2d},
    {nn.AvgPool3d, F.avg_pool3d},
    {nn.AdaptiveAvgPool1d, F.adaptive_avg_pool1d},
    {nn.AdaptiveAvgPool2d, F.adaptive_avg_pool2d},
    {nn.AdaptiveAvgPool3d, F.adaptive_avg_pool3d},
    {nn.MaxPool1d, F.max_pool1d},
    {nn.MaxPool2d, F.max_pool2d},
    {nn.MaxPool3d, F.max_pool3d},
    {rl.add, operator.add},
    {rl.mul, operator.mul},
)
# What has one spelling, or stays itself in graphs of integers.
_ALONE = (
    F.conv1d, F.conv2d, F.conv3d, F.linear, F.conv_transpose1d, F.conv_transpose2d,
    F.conv_transpose3d, F.group_norm, F.interpolate, F.dropout, F.prelu, F.pixel_shuffle,
    F.pixel_unshuffle, nn.PixelShuffle, nn.PixelUnshuffle, nn.Softmax, rl.cat,
    rl.matmul, rl.stack, rl.sort, rl.unsqueeze, rl.squeeze, rl.transpose, rl.flatten,
    rl.clamp, rl.chunk, rl.mean, rl.min, rl.max, rl.narrow, rl.repeat_interleave,
    operator.floordiv,
)  # fmt: skip
_WITH_WEIGHTS = nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear, nn.LSTM


def _connections():
    """Pairs of what computes the same: a layer and what is made of it."""
    yield from mappings.get_embedding_qat_module_mappings().items()
    yield from mappings.get_embedding_static_quant_module_mappings().items()
    yield from mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS.items()
    yield from mappings.DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.items()
    for kind in vars(nni).values():  # a container computes what its first layer does
        if hasattr(kind, "_PARTS"):
            yield kind._PARTS[0], kind
    for number in (1, 2, 3):
        yield getattr(nn, f"Conv{number}d"), getattr(nniqat, f"ConvReLU{number}d")
    for target, name in (patterns.BINARY | patterns.MATMUL).items():
        for ending in ("", "_relu"):
            if hasattr(rl.ops.quantized, name + ending):
                yield target, getattr(rl.ops.quantized, name + ending)


def get_base_name_to_sets_of_related_ops():
    """Sets of what computes the same, each under a name of its own.

    >>> sets = get_base_name_to_sets_of_related_ops().values()
    >>> next(len(each) for each in sets if nn.Linear in each) > 5
    True
    """
    sets = [set(each) for each in _SPELLINGS] + [{each} for each in _ALONE]
    of = {kind: each for each in sets for kind in each}
    for pair in _connections():
        known = [of[kind] for kind in pair if kind in of] or [set()]
        found = known[0]
        for other in known[1:]:
            if other is not found:
                found |= other
        found |= set(pair)
        of |= dict.fromkeys(found, found)
    distinct = {id(each): each for each in of.values()}
    return {str(number): each for number, each in enumerate(distinct.values())}


def get_unmatchable_types_map():
    """What is passed over when graphs are compared: it only moves or converts values."""
    return {
        "funs_unmatchable": {rl.quantize_per_tensor, operator.getitem},
        "mods_unmatchable": {nn.Identity},
        "meths_unmatchable": {
            "to", "dequantize", "reshape", "view", "unsqueeze_", "unsqueeze",
            "transpose", "squeeze_", "squeeze", "size", "shape", "resize_",
            "repeat_interleave", "repeat", "permute", "numel", "mean", "detach_",
            "detach", "contiguous", "clamp", "chunk",
        },
    }  # fmt: skip


def with_weights(sets):
    """The modules of sets of related ones that have weights to compare."""
    for each in sets.values():
        if each.intersection(_WITH_WEIGHTS):
            yield from (kind for kind in each if isinstance(kind, type))
