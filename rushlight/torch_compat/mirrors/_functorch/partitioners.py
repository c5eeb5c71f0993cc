"""A joint graph cut into a forward and a backward graph.

A joint graph computes a function's results from its arguments (``primals``), and their
gradients from those of the results (``tangents``). What the backward graph needs of the
forward one is saved, or computed again from what is saved: the first partitioner saves
all that is needed, the second cuts where the fewest bytes cross, by a minimum cut (as in
Checkmate's and PyTorch's rematerialization).
"""

import collections
import math

from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import IMPLEMENTATION, KIND, TAGS
from rushlight.dispatch.dispatcher import Operator
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.passes.graph_drawer import FxGraphDrawer
from rushlight.utils._pytree import tree_leaves

__all__ = ["default_partition", "draw_graph", "min_cut_rematerialization_partition"]


def _is_tangent(node):
    return node.op == "placeholder" and "tangents" in node.target


def default_partition(joint_module, _joint_inputs, *, num_fwd_outputs, **_):
    """The forward graph computes what it computed, and saves what the backward one uses.

    Args:
        joint_module: the joint graph, whose arguments are flat.
        _joint_inputs: its arguments, which are not looked at.
        num_fwd_outputs: how many of its results are the function's.
    """
    joint = _Joint(joint_module, num_fwd_outputs)
    return joint.split(joint.crossing(joint.before))


def min_cut_rematerialization_partition(
    joint_module, _joint_inputs, compiler="inductor", *, num_fwd_outputs, **_
):
    """The backward graph computes elementwise values again where that saves memory.

    Args:
        joint_module: the joint graph, whose arguments are flat.
        _joint_inputs: its arguments, which are not looked at.
        compiler: kept for programs that name it.
        num_fwd_outputs: how many of its results are the function's.
    """
    joint = _Joint(joint_module, num_fwd_outputs)
    return joint.split(joint.cheapest())


class _Joint:
    """A joint graph: what depends on tangents, and what does not.

    Args:
        module: the `GraphModule`.
        count: how many of its results are the function's.
    """

    def __init__(self, module, count):
        self.module, self.graph = module, module.graph
        outputs = list(tree_leaves(self.graph.output_node().args[0], is_leaf=_is_none))
        self.forward, self.backward = outputs[:count], outputs[count:]
        after = {node for node in self.graph.nodes if _is_tangent(node)}
        for node in self.graph.nodes:
            if node.op != "output" and not after.isdisjoint(node.all_input_nodes):
                after.add(node)
        self.after = after
        self.possible = [
            node
            for node in self.graph.nodes
            if node not in after and node.op != "output"
        ]
        needed = self.ancestors(self.forward)
        self.before = [
            node
            for node in self.possible
            if node in needed or node.op == "placeholder" or node.is_impure()
        ]

    def ancestors(self, results):
        """All that results are made from, themselves included."""
        todo = [one for one in results if isinstance(one, Node)]
        found = set()
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                todo += node.all_input_nodes
        return found

    def crossing(self, before):
        """What is computed in the forward graph and used behind it; tensors alone."""
        before, used = set(before), self.ancestors(self.backward)
        found, todo = set(), [one for one in self.backward if one in before]
        todo += [
            source
            for node in used - before
            for source in node.all_input_nodes
            if source in before
        ]
        while todo:
            node = todo.pop()
            if _several(node):  # a list is no result: its parts are
                todo += [user for user in node.users if user in before]
            else:
                found.add(node)
        return [node for node in self.graph.nodes if node in found]

    def cheapest(self):
        """What to save so that the fewest bytes are kept: a minimum cut."""
        used, possible = self.ancestors(self.backward), set(self.possible)
        flow, source, sink = _Flow(), "source", "sink"
        for node in self.possible:
            if node not in used:
                continue
            keep = math.inf if _several(node) else _bytes_of(node)
            flow.add((node, "in"), (node, "out"), keep)
            if node.op in ("placeholder", "get_attr") or not _is_recomputable(node):
                flow.add(source, (node, "in"), math.inf)
            for user in node.users:
                if user in possible and user in used:
                    flow.add((node, "out"), (user, "in"), math.inf)
                elif user in used or user.op == "output" and node in self.backward:
                    flow.add((node, "out"), sink, math.inf)
        near = flow.minimum_cut(source, sink)
        if near is None:  # a list that may not be computed again crosses
            return self.crossing(self.before)
        return [
            node
            for node in self.possible
            if (node, "in") in near and (node, "out") not in near
        ]

    def split(self, saved):
        """The two graphs, with some values handed from the first to the second."""
        primals = [
            node
            for node in self.graph.find_nodes(op="placeholder")
            if node not in self.after
        ]
        tangents = [
            node
            for node in self.graph.find_nodes(op="placeholder")
            if node in self.after
        ]
        first = self.extract(primals, [*self.forward, *saved])
        second = self.extract([*saved, *tangents], self.backward)
        return first, second

    def extract(self, inputs, outputs):
        """The part of the graph that leads from some values to others."""
        made, known = Graph(), {}
        for node in inputs:
            known[node] = made.placeholder(node.name)
            known[node].meta = dict(node.meta)
        needed, todo = set(), [one for one in outputs if isinstance(one, Node)]
        while todo:
            node = todo.pop()
            if node not in known and node not in needed:
                needed.add(node)
                todo += node.all_input_nodes
        for node in self.graph.nodes:
            if node in needed:
                known[node] = made.node_copy(node, known.__getitem__)
        made.output(tuple(known[o] if isinstance(o, Node) else o for o in outputs))
        made.lint()
        return GraphModule(self.module, made)


def _is_none(one):
    return one is None


def _several(node):
    """Whether a step gives a list, whose parts are steps of their own."""
    return isinstance(node.meta.get("val"), (list, tuple)) or any(
        user.op == "call_function" and getattr(user.target, "__name__", "") == "getitem"
        for user in node.users
    )


def _bytes_of(node):
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        return 1
    return max(1, value.numel() * value.dtype.itemsize)


def _is_recomputable(node):
    """Whether a step is cheap enough to be done twice: elementwise, a view, or a constant."""
    op = node.target
    if not isinstance(op, Operator):
        return node.op == "call_function" and op.__name__ == "getitem"
    random = op.entry is None or "random" in op.entry[TAGS]
    if random or node.is_impure():
        return False
    view = any(one.alias_info for one in op._schema.returns)
    return view or not node.all_input_nodes or _is_elementwise(op)


def _is_elementwise(op):
    return op.entry[IMPLEMENTATION][KIND] == "pointwise"


class _Flow:
    """Edges with capacities; their least cut by augmenting paths, shortest first."""

    def __init__(self):
        self.edges = collections.defaultdict(dict)

    def add(self, start, end, capacity):
        """One more edge; what goes along it may come back."""
        self.edges[start][end] = self.edges[start].get(end, 0) + capacity
        self.edges[end].setdefault(start, 0)

    def reached(self, source):
        """From where each vertex is reached along edges that are not full."""
        found, todo = {source: None}, collections.deque([source])
        while todo:
            here = todo.popleft()
            for end, left in self.edges[here].items():
                if left > 0 and end not in found:
                    found[end] = here
                    todo.append(end)
        return found

    def minimum_cut(self, source, sink):
        """The vertices on the source's side; None where every cut is infinite.

        Args:
            source: where flow begins.
            sink: where it ends.
        """
        while sink in (found := self.reached(source)):
            path, here = [], sink
            while (before := found[here]) is not None:
                path.append((before, here))
                here = before
            least = min(self.edges[a][b] for a, b in path)
            if least == math.inf:
                return None
            for a, b in path:
                self.edges[a][b] -= least
                self.edges[b][a] += least
        return found


def draw_graph(traced, fname, figname="fx_graph", clear_meta=True, prog=None, **_):
    """Writes a picture of a graph.

    Args:
        traced: the `GraphModule`.
        fname: the file; without an ending it is an SVG.
        figname: the picture's name.
        clear_meta: whether what is known of steps is left out.
        prog: which program of Graphviz draws.
    """
    import copy
    import os

    if clear_meta:
        traced = GraphModule(traced, copy.deepcopy(traced.graph))
        for node in traced.graph.nodes:
            node.meta = {}
    base, ending = os.path.splitext(fname)
    ending = ending or ".svg"
    picture = FxGraphDrawer(traced, figname).get_main_dot_graph()
    write = getattr(picture, f"write_{ending.lstrip('.')}")
    write(base + ending, **({} if prog is None else {"prog": prog}))
