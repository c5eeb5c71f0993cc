"""Which nodes are computed with integers, and how."""

from __future__ import annotations

import operator

import rushlight as rl
from rushlight import nn
from rushlight.ao.quantization import quantization_mappings as mappings
from rushlight.nn import functional as F

SUMS = {rl.add: "add", operator.add: "add", operator.iadd: "add", "add": "add"}
SUMS |= {"add_": "add"}
PRODUCTS = {rl.mul: "mul", operator.mul: "mul", operator.imul: "mul", "mul": "mul"}
PRODUCTS |= {"mul_": "mul"}
BINARY = SUMS | PRODUCTS
JOINS = {rl.cat, rl.concat}
MATMUL = {rl.matmul: "matmul", operator.matmul: "matmul"}
RELU = {F.relu, rl.relu, "relu", "relu_", nn.ReLU}
# function -> the operator on integers, and how many positions its arguments have
ACTIVATIONS = {
    F.hardswish: "hardswish", F.elu: "elu", F.leaky_relu: "leaky_relu",
    F.layer_norm: "layer_norm", F.instance_norm: "instance_norm",
}  # fmt: skip
# Functions whose results have the range of a unit: scale and zero point are given.
FIXED = {
    rl.sigmoid, F.sigmoid, "sigmoid", "sigmoid_", nn.Sigmoid, F.hardsigmoid,
    "hardsigmoid", nn.Hardsigmoid, rl.tanh, F.tanh, "tanh", "tanh_", nn.Tanh,
}  # fmt: skip
# Those whose results have the scale of what comes in: integers are moved or compared.
SHARED = {
    nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool2d, nn.AvgPool3d,
    nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.Identity, nn.Dropout, nn.Flatten,
    nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Upsample, nn.PixelShuffle, nn.ConstantPad2d,
    F.max_pool1d, F.max_pool2d, F.max_pool3d, F.avg_pool2d, F.avg_pool3d,
    F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.dropout, F.relu, F.relu6, F.hardtanh,
    F.interpolate, F.pad, rl.relu, rl.flatten, rl.reshape, rl.permute, rl.transpose,
    rl.squeeze, rl.unsqueeze, rl.mean, rl.clamp, "relu", "relu_", "flatten", "reshape",
    "view", "permute", "transpose", "squeeze", "unsqueeze", "mean", "contiguous",
    "clamp", "detach", "repeat", "expand",
}  # fmt: skip


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
        kind: ``module``, ``binary``, ``join``, ``function``, ``shared``, ``fixed`` or
            ``table``.
        inputs: the nodes that come in as integers.
        last: the node whose result is observed: the one behind, where two are one.
        operator: the operator on integers.
    """

    def __init__(self, kind, node, inputs, last=None, operator=None):
        self.kind, self.node, self.inputs = kind, node, list(inputs)
        self.last, self.operator = last or node, operator


_TABLES = nn.Embedding, nn.EmbeddingBag


def rule_of(node, modules):
    """How a node is quantized; None where it stays as it is."""
    kind = kind_of(node, modules)
    if kind is None:
        return None
    static = mappings.DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    first = [arg for arg in node.args[:1] if is_tensor(arg)]
    if node.op == "call_module" and issubclass(kind, _TABLES):
        return Rule("table", node, [])
    if kind in BINARY and len(node.args) == 2:
        inputs = [arg for arg in node.args if is_tensor(arg)]
        return Rule("binary", node, inputs, relu_after(node, modules), BINARY[kind])
    if kind in MATMUL:
        return Rule("binary", node, node.args, None, "matmul")
    if kind in JOINS:
        return Rule("join", node, node.args[0])
    if kind in FIXED:
        return Rule("fixed", node, first)
    if kind in SHARED:
        return Rule("shared", node, first)
    if kind in ACTIVATIONS:
        return Rule("function", node, first, None, ACTIVATIONS[kind])
    if kind in static or kind in mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS:
        return Rule("module", node, first)
    return None


def relu_after(node, modules):
    """The node that is the only one behind a node and cuts off what is below zero."""
    if len(node.users) != 1:
        return None
    user = next(iter(node.users))
    return user if kind_of(user, modules) in RELU else None
