"""Finds the steps that a backend can run together."""

import logging

from rushlight.fx import _names
from rushlight.fx.passes.utils.fuser_utils import fuse_by_partitions

logger = logging.getLogger(__name__)


class Partition:
    """Steps that run together.

    Args:
        id: a number.
        nodes: the steps.
        node_orders: their places, where those are kept.
    """

    def __init__(self, id=None, nodes=None, node_orders=None):
        self.id = id
        self.nodes = dict.fromkeys(nodes) if nodes is not None else {}
        self.node_orders = dict(zip(self.nodes, node_orders or (), strict=False))

    def __repr__(self):
        return str(self.nodes)

    def add_node(self, node, node_order=None):
        """Adds a step."""
        self.nodes[node] = None
        if node_order is not None:
            self.node_orders[node] = node_order

    def remove_node(self, node):
        """Takes a step out."""
        del self.nodes[node]
        self.node_orders.pop(node, None)

    def size(self):
        """How many steps there are."""
        return len(self.nodes)


class _DependencyViewer:
    """Which steps wait for which."""

    def __init__(self, graph_module):
        self.downstreams: dict = {}
        for node in reversed(graph_module.graph.nodes):
            found = self.downstreams.setdefault(node, set())
            for user in node.users:
                found.add(user)
                found |= self.downstreams[user]

    def downstreams_of(self, node):
        """The steps that wait for one."""
        return self.downstreams.get(node, set())


class CapabilityBasedPartitioner:
    """Puts steps that a backend can run into modules that it can run.

    Args:
        graph_module: the module.
        operator_support: says which steps it can run.
        allows_single_node_partition: whether one step is enough for a module.
        non_compute_ops: names of functions that are no work of their own.
        allowed_single_node_partition_ops: names of functions of which one is enough.
        skip_horizontal_fusion: for PyTorch's sake.
    """

    def __init__(
        self, graph_module, operator_support, allows_single_node_partition=False,
        non_compute_ops=None, allowed_single_node_partition_ops=None,
        skip_horizontal_fusion=False,
    ):  # fmt: skip
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion
        self.dependency_viewer = _DependencyViewer(graph_module)

    def _is_node_supported(self, node):
        inner = dict(self.graph_module.named_modules())
        return self.operator_support.is_node_supported(inner, node)

    def propose_partitions(self):
        """The sets of steps: as large as they can be without waiting for each other."""
        positions = {node: n for n, node in enumerate(self.graph_module.graph.nodes)}
        inner = dict(self.graph_module.named_modules())
        groups: list[set] = []
        for node in reversed(self.graph_module.graph.nodes):
            if not self.operator_support.is_node_supported(inner, node):
                continue
            merged = {node}
            rest = []
            # Those of its users first, then any: together they run as one.
            near = sorted(groups, key=lambda g: not any(u in g for u in node.users))
            for group in near:
                if self._can_join(merged, group):
                    merged |= group
                else:
                    rest.append(group)
            groups = [*rest, merged]
        found = []
        groups.sort(key=lambda group: min(positions[node] for node in group))
        for group in groups:
            ordered = sorted(group, key=positions.__getitem__)
            if self._is_worth_it(ordered):
                found.append(
                    Partition(len(found), ordered, map(positions.get, ordered))
                )
        return found

    def _can_join(self, first, second):
        """Whether nothing outside of two sets waits for one and is waited for by one."""
        joined = first | second
        outside = set()
        for node in joined:
            outside |= self.dependency_viewer.downstreams_of(node) - joined
        return not any(
            self.dependency_viewer.downstreams_of(n) & joined for n in outside
        )

    def _is_worth_it(self, nodes):
        if self.allows_single_node_partition:
            return True
        skipped = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        work = 0
        for node in nodes:
            if node.op != "call_function":
                continue
            name = _names.qualified_name(node.target)
            if name in self.allowed_single_node_partition_ops:
                return True
            work += name not in skipped
        return work > 1

    def fuse_partitions(self, partitions, prefix="fused_"):
        """Puts each set of steps into a module."""
        return fuse_by_partitions(
            self.graph_module, [list(part.nodes) for part in partitions], prefix
        )

    def remove_bookend_non_compute_ops(self, partitions):
        """Takes steps that are no work out at the ends of sets."""
        skipped = set(self.non_compute_ops)

        def is_skipped(node):
            return (
                node.op == "call_function"
                and _names.qualified_name(node.target) in skipped
            )

        for part in partitions:
            for node in list(part.nodes):
                edges = node.all_input_nodes, list(node.users)
                at_end = any(all(n not in part.nodes for n in edge) for edge in edges)
                if is_skipped(node) and at_end:
                    part.remove_node(node)

    def partition_and_fuse(self, prefix="fused_"):
        """Finds the sets and puts each into a module."""
        return self.fuse_partitions(self.propose_partitions(), prefix)
