"""Which nodes are computed with integers, and how."""

import operator

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import quantized as nnq
from rushlight.ao.quantization import quantization_mappings as mappings
from rushlight.nn import functional as F

SUMS = {rl.add: "add", operator.add: "add", operator.iadd: "add"}
PRODUCTS = {rl.mul: "mul", operator.mul: "mul", operator.imul: "mul"}
BINARY = SUMS | PRODUCTS
JOINS = {rl.cat, rl.stack}
MATMUL = {rl.matmul: "matmul"}
# Functions of layers whose weight is an attribute.
WEIGHTED = {
    F.linear: "linear",
    F.conv1d: "conv1d",
    F.conv2d: "conv2d",
    F.conv3d: "conv3d",
}
RELU = {F.relu, nn.ReLU}  # one with the layer before it; methods and `relu` stay apart
RELU_AFTER_SUMS = RELU | {rl.relu}
# function -> the operator on integers, and how many positions its arguments have
ACTIVATIONS = {
    F.hardswish: "hardswish", F.elu: "elu", F.leaky_relu: "leaky_relu",
    F.layer_norm: "layer_norm", F.instance_norm: "instance_norm",
}  # fmt: skip
# Those that have no operator on integers: numbers come in and out rounded.
ROUNDED = {F.group_norm}
# Functions whose results have the range of a unit: scale and zero point are given.
FIXED = {
    rl.sigmoid, F.sigmoid, "sigmoid", "sigmoid_", nn.Sigmoid, F.hardsigmoid,
    "hardsigmoid", nn.Hardsigmoid, rl.tanh, F.tanh, "tanh", "tanh_", nn.Tanh,
}  # fmt: skip
# Those whose results have the scale of what comes in: integers are moved or compared.
SHARED = {
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d,
    nn.AvgPool2d, nn.AvgPool3d, nn.Dropout, nn.Hardtanh, nn.Identity, nn.MaxPool1d,
    nn.MaxPool2d, nn.MaxPool3d, nn.PixelShuffle, nn.PixelUnshuffle, nn.ReLU, nn.ReLU6,
    F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.avg_pool1d,
    F.avg_pool2d, F.avg_pool3d, rl._C._nn.avg_pool2d, rl._C._nn.avg_pool3d, F.dropout,
    F.hardtanh, F.interpolate, F.max_pool1d, F.max_pool2d, F.max_pool3d, F.pixel_shuffle,
    F.pixel_unshuffle, F.relu, F.relu6, rl.adaptive_avg_pool1d, rl.avg_pool1d, rl.clamp,
    rl.flatten, rl.mean, rl.narrow, rl.repeat_interleave, rl.squeeze, rl.transpose,
    rl.unsqueeze, "clamp", "contiguous",
    "detach", "detach_", "mean", "permute", "relu", "relu_", "repeat",
    "repeat_interleave", "reshape", "squeeze", "transpose", "unsqueeze", "view",
}  # fmt: skip


# Layers of integers by layers of numbers.
LAYERS = {
    **mappings.get_embedding_static_quant_module_mappings(), nn.Softmax: nnq.Softmax
}  # fmt: skip
del LAYERS[nn.GroupNorm]


def kind_of(node, modules):
    """What a node calls: a class of modules, a function, or the name of a method."""
    if node.op == "call_module":
        return type(modules[node.target])
    return node.target if node.op in ("call_function", "call_method") else None


def is_tensor(value):
    """Whether an argument comes from a node."""
    return hasattr(value, "users")


class Rule:
    """How a node is quantized.

    Attributes:
        kind: ``module``, ``binary``, ``join``, ``function``, ``weighted``, ``shared``,
            ``fixed``, ``rounded`` or ``table``.
        inputs: the nodes that come in as integers.
        last: the node whose result is observed: the one behind, where two are one.
        operator: the operator on integers.
        shares: whether its result has the observer of what comes in.
    """

    def __init__(self, kind, node, inputs, last=None, operator=None):
        self.kind, self.node, self.inputs = kind, node, list(inputs)
        self.last, self.operator = last or node, operator
        alone = kind == "binary" and len(self.inputs) == 1  # and a number
        self.shares = kind == "shared" or alone


_TABLES = nn.Embedding, nn.EmbeddingBag


def rule_of(node, modules):
    """How a node is quantized; None where it stays as it is."""
    kind = kind_of(node, modules)
    if kind is None:
        return None
    first = [arg for arg in node.args[:1] if is_tensor(arg)]
    if node.op == "call_module" and issubclass(kind, _TABLES):
        return Rule("table", node, [])
    if kind in BINARY and len(node.args) == 2:
        inputs = [arg for arg in node.args if is_tensor(arg)]
        return Rule("binary", node, inputs, relu_after(node, modules), BINARY[kind])
    if kind in MATMUL:
        return Rule("binary", node, node.args, None, "matmul")
    if kind in WEIGHTED:
        own = weight_of(node)
        if own is None or own.op != "get_attr":
            return None
        last = relu_after(node, modules, RELU)
        return Rule("weighted", node, first, last, WEIGHTED[kind])
    if kind in JOINS:
        return Rule("join", node, node.args[0])
    if kind in FIXED:
        return Rule("fixed", node, first)
    if kind in SHARED:
        return Rule("shared", node, first)
    if kind in ROUNDED:
        return Rule("rounded", node, first)
    if kind in ACTIVATIONS:
        return Rule("function", node, first, None, ACTIVATIONS[kind])
    if kind in LAYERS or kind in mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS:
        return Rule("module", node, first)
    return None


def weight_of(node):
    """The node of a layer's weight."""
    return node.args[1] if len(node.args) > 1 else node.kwargs.get("weight")


def relu_after(node, modules, known=RELU_AFTER_SUMS):
    """The node that is the only one behind a node and cuts off what is below zero.

    Args:
        node: the node.
        modules: of the model, by name.
        known: what does so.
    """
    if len(node.users) != 1:
        return None
    user = next(iter(node.users))
    return user if kind_of(user, modules) in known else None
