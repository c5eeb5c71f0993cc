"""What passes that split graphs share."""

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
    """Steps that stay together.

    Args:
        top_node_idx: the place of the first of them in the graph.
        nodes: the steps.
        inputs: the steps outside whose results they take.
        nodes_need_process: those whose neighbours were not looked at yet.
    """

    top_node_idx: int
    nodes: NodeSet
    inputs: NodeSet
    nodes_need_process: NodeSet

    def add_node(self, node):
        """Takes a step in; it is looked at later."""
        if node in self.nodes:
            return
        self.nodes_need_process.add(node)
        self.nodes.add(node)
        self.inputs.discard(node)
        self.inputs.update(
            n
            for n in node.all_input_nodes
            if n.op in CALLABLE_NODE_OPS and n not in self.nodes
        )


class FxNetAccFusionsFinder:
    """Finds the steps that stay together, as what passes between them is no tensor.

    What lies between two steps of a group is of the group, too. Where one of its steps
    does not run elsewhere, none of them does.

    Args:
        module: the module; its steps have the notes of ``ShapeProp``.
        acc_nodes: the steps that may run elsewhere; changed.
    """

    FusionGroup = _Group

    def __init__(self, module, acc_nodes):
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.acc_nodes = acc_nodes
        self.node_index = {node: place for place, node in enumerate(self.nodes)}

    def recursive_add_node(self, fusion_group, inputs, visited=None):
        """Takes in the steps on the way from a group to some steps.

        Args:
            fusion_group: the group.
            inputs: the steps.
            visited: those that were looked at.

        Returns:
            whether one of the steps is reached from the group.
        """
        for arg in inputs:
            if visited is not None:
                if arg in visited:
                    continue
                visited.add(arg)
            if arg.op not in CALLABLE_NODE_OPS:
                continue
            if self.node_index[arg] < fusion_group.top_node_idx:
                continue
            if arg in fusion_group.nodes:
                return True
            if self.recursive_add_node(fusion_group, arg.all_input_nodes, visited):
                fusion_group.add_node(arg)
                return True
        return False

    def __call__(self):
        result: dict[Node, NodeSet] = {}
        for node in [node for node in self.nodes if node in self.acc_nodes]:
            if node in result or node not in self.acc_nodes or _gives_tensors(node):
                continue
            group = self._group_of(node)
            if not group.nodes <= self.acc_nodes:
                self.acc_nodes -= group.nodes
                continue
            for each in group.nodes:
                result[each] = group.nodes
        return result

    def _group_of(self, node):
        group = self.FusionGroup(
            self.node_index[node], {node}, set(node.all_input_nodes), {node}
        )
        while group.nodes_need_process:
            node = group.nodes_need_process.pop()
            self._close(group)
            near = [] if _gives_tensors(node) else list(node.users)
            near += [arg for arg in node.all_input_nodes if not _gives_tensors(arg)]
            for other in near:
                if other.op not in CALLABLE_NODE_OPS or other in group.nodes:
                    continue
                group.add_node(other)
                place = self.node_index[other]
                group.top_node_idx = min(group.top_node_idx, place)
                self._close(group)
        return group

    def _close(self, group):
        """Takes in what lies between two steps of a group."""
        self.recursive_add_node(group, list(group.inputs), set())


def _gives_tensors(node):
    return "tensor_meta" in node.meta


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
    positions = {node: place for place, node in enumerate(waiting)}
    while ready:
        _, _, node = heapq.heappop(ready)
        values[node] = made.node_copy(node, values.__getitem__)
        for user in node.users:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (ranks[user], positions[user], user))
    if len(values) < len(waiting):
        stuck = [node.name for node in waiting if node not in values]
        raise RuntimeError(
            f"Input graph has cycles, unable to add {stuck} (all of them wait for others)"
        )
    made._codegen = gm.graph._codegen
    gm.graph = made
