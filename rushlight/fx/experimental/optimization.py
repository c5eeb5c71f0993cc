"""Graphs made faster for inference: normalisations folded, dropout taken out."""

from __future__ import annotations

import copy
from typing import Any

from rushlight import nn
from rushlight.fx._symbolic_trace import Tracer, symbolic_trace
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Transformer
from rushlight.fx.node import Node
from rushlight.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "UnionFind",
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
]


def _parent_name(target):
    """A path's module and its last item."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern, node, modules):
    """Whether a step and what it takes call modules of given kinds, in a row.

    Args:
        pattern: the kinds, that of the step last.
        node: the step.
        modules: modules by their paths.
    """
    if not node.args:
        return False
    row: tuple[Any, ...] = (node.args[0], node)
    for kind, step in zip(pattern, row, strict=False):
        if not isinstance(step, Node) or step.op != "call_module":
            return False
        if not isinstance(step.target, str) or step.target not in modules:
            return False
        if type(modules[step.target]) is not kind:
            return False
    return True


def replace_node_module(node, modules, new_module):
    """Puts a module in the place of the one that a step calls."""
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


_PATTERNS = [
    (nn.Conv1d, nn.BatchNorm1d, fuse_conv_bn_eval),
    (nn.Conv2d, nn.BatchNorm2d, fuse_conv_bn_eval),
    (nn.Conv3d, nn.BatchNorm3d, fuse_conv_bn_eval),
    (nn.Linear, nn.BatchNorm1d, fuse_linear_bn_eval),
]


def fuse(model, inplace=False, no_trace=False):
    """Folds batch normalisation into the convolution or product before it.

    Args:
        model: a module in evaluation.
        inplace: whether it may be changed.
        no_trace: whether it is a graph's module already.

    Raises:
        AssertionError: a normalisation is in training.

    >>> from rushlight import nn
    >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    >>> print(*fuse(model).graph.nodes)
    input_1 _0 output
    """
    model = model if inplace else copy.deepcopy(model)
    if not no_trace or not isinstance(model, GraphModule):
        traced = symbolic_trace(model)
    else:
        traced = model
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for first, second, join in _PATTERNS:
        for node in graph.nodes:
            if not matches_module_pattern((first, second), node, modules):
                continue
            if len(node.args[0].users) > 1:
                continue  # others need what comes before the normalisation
            norm = modules[node.target]
            if not norm.track_running_stats:
                continue
            if norm.training or modules[node.args[0].target].training:
                raise AssertionError("Fusion only for eval!")
            joined = join(modules[node.args[0].target], norm)
            replace_node_module(node.args[0], modules, joined)
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(traced, graph)


def remove_dropout(model):
    """Takes dropout out of a module's graph."""

    class DropoutRemover(Transformer):
        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], nn.Dropout):
                if len(args) != 1:
                    raise AssertionError(f"Expected 1 arg for dropout, got {len(args)}")
                return args[0]
            return super().call_module(target, args, kwargs)

    return DropoutRemover(symbolic_trace(model)).transform()


def extract_subgraph(orig_module, nodes, inputs, outputs):
    """A module of some steps of another module's graph.

    Args:
        orig_module: the other.
        nodes: the steps, in order.
        inputs: the steps whose results become arguments.
        outputs: the steps whose results are returned.
    """
    made = Graph()
    values = {node: made.placeholder(node.name) for node in inputs}
    for node in nodes:
        values[node] = made.node_copy(node, values.__getitem__)
    made.output([values[node] for node in outputs])
    made.lint()
    return GraphModule(orig_module, made)


def optimize_for_inference(model, pass_config=None, tracer=Tracer):
    """Folds normalisations and takes dropout out, in evaluation.

    Args:
        model: the module.
        pass_config: a dict that turns passes off: ``{"conv_bn_fuse": False}``, or
            ``"remove_dropout"``.
        tracer: what records the module.
    """
    config = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    return GraphModule(model, tracer().trace(model))


class UnionFind:
    """Sets that are joined; each is known by one of its members."""

    def __init__(self, n):
        self.parent: list[int | None] = [None] * n
        self.size = [0] * n

    def make_set(self, v):
        """Makes a set of one."""
        self.parent[v] = v
        self.size[v] = 1

    def find(self, v):
        """The member that a set is known by.

        Raises:
            AssertionError: there is no such set.
        """
        above = self.parent[v]
        if above is None:
            raise AssertionError(f"{v} is in no set")
        if above != v:
            self.parent[v] = self.find(above)
        return self.parent[v]

    def join(self, a, b):
        """Joins two sets."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return a
        if self.size[a] < self.size[b]:
            a, b = b, a
        self.parent[b] = a
        self.size[a] += self.size[b]
        return a
