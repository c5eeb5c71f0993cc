"""What passes that split graphs share."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from rushlight.core.tensor import Tensor
from rushlight.fx import _names
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node

__all__ = [
    "FxNetAccFusionsFinder",
    "get_acc_ops_name",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]

Tensors: TypeAlias = Any
TensorOrTensors: TypeAlias = Any
NodeList: TypeAlias = list[Node]
NodeSet: TypeAlias = set[Node]
Names: TypeAlias = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k):
    """A target's name, short where it is one of a backend's operators."""
    if isinstance(k, str):
        return k
    module = getattr(k, "__module__", None)
    if module and "acc_ops" in module:
        return f"acc_ops.{k.__name__}"
    path = _names.qualified_name(k)
    return path.replace("torch._ops", "torch.ops")


def get_node_target(submodules: Mapping[str, Any], node):
    """What a step calls, as text: a module's type, a function's name, a method's.

    Args:
        submodules: modules by their paths.
        node: a step that calls.

    Raises:
        AssertionError: it calls nothing.
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(
            f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found "
            f"{node.op}"
        )
    if node.op == "call_module":
        called = submodules[node.target]
        base = getattr(called, "_base_class_origin", type(called))
        return get_acc_ops_name(base) if not isinstance(base, type) else _kind(base)
    if node.op == "call_function":
        return get_acc_ops_name(node.target)
    if not isinstance(node.target, str):
        raise AssertionError(f"Expected str target, got {type(node.target)}")
    return node.target


def _kind(kind):
    return f"{_names.in_package(kind.__module__)}.{kind.__name__}"


def is_node_output_tensor(node):
    """Whether a step gives a tensor, as the notes of ``ShapeProp`` say."""
    kind = node.meta.get("type", None)
    return kind is not None and issubclass(kind, Tensor)


@dataclass
class _Group:
    top_node_idx: int
    nodes: NodeSet
    inputs: NodeSet
    nodes_need_process: NodeSet


class FxNetAccFusionsFinder:
    """Finds the steps that must go together, as what passes between is no tensor.

    Args:
        module: the module.
        acc_nodes: the steps that may run elsewhere.
    """

    FusionGroup = _Group

    def __init__(self, module, acc_nodes):
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.acc_nodes = acc_nodes

    def __call__(self):
        result: dict[Node, NodeSet] = {}
        taken = set(self.acc_nodes)
        for node in self.nodes:
            if node not in taken or node in result or is_node_output_tensor(node):
                continue
            group = {node}
            waiting = [node]
            while waiting:
                at = waiting.pop()
                near = [n for n in at.users if n.op != "output"]
                near += [n for n in at.all_input_nodes if not is_node_output_tensor(n)]
                if is_node_output_tensor(at) and at is not node:
                    near = [
                        n for n in at.all_input_nodes if not is_node_output_tensor(n)
                    ]
                for other in near:
                    if other in taken and other not in group:
                        group.add(other)
                        waiting.append(other)
            if not group <= taken:
                self.acc_nodes -= group
                continue
            for each in group:
                result[each] = group
        return result


def stable_topological_sort(gm):
    """Brings the steps into an order in which each comes after what it takes.

    Steps that could come in any order keep theirs.

    Raises:
        RuntimeError: steps wait for each other.
    """
    _sort(gm, {node: place for place, node in enumerate(gm.graph.nodes)})
    return gm


def legalize_graph(gm):
    """As ``stable_topological_sort``, with constants that are read put first."""
    ranks = {}
    for place, node in enumerate(gm.graph.nodes):
        ranks[node] = (0 if node.op in ("placeholder", "get_attr") else 1, place)
    _sort(gm, ranks)
    return gm


def _sort(gm, ranks):
    waiting = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    ready = [(ranks[n], place, n) for place, n in enumerate(waiting) if not waiting[n]]
    heapq.heapify(ready)
    values: dict[Node, Node] = {}
    made = Graph(owning_module=gm.graph.owning_module, tracer_cls=gm.graph._tracer_cls)
    places = {node: place for place, node in enumerate(waiting)}
    while ready:
        _, _, node = heapq.heappop(ready)
        values[node] = made.node_copy(node, values.__getitem__)
        for user in node.users:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (ranks[user], places[user], user))
    if len(values) < len(waiting):
        stuck = [node.name for node in waiting if node not in values]
        raise RuntimeError(
            f"Input graph has cycles, unable to add {stuck} (all of them wait for others)"
        )
    made._codegen = gm.graph._codegen
    gm.graph = made
