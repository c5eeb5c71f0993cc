"""Products by the same matrix as one product of all the rows."""

import itertools
from collections import defaultdict

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.node import Node
from rushlight.fx.passes.tools_common import legalize_graph
from rushlight.operators import call

__all__ = [
    "are_nodes_independent",
    "may_depend_on",
    "merge_matmul",
    "split_result_tensors",
]


def split_result_tensors(result, inputs):
    """The rows of a result that belong to each of the inputs."""
    return rl.split(result, [each.shape[0] for each in inputs])


def may_depend_on(a, b, search_depth=6):
    """Whether a step may wait for another, as far as a search of some depth can tell."""
    if a is b:
        return True
    if not a.all_input_nodes:
        return False
    if search_depth == 0:
        return True
    return any(may_depend_on(each, b, search_depth - 1) for each in a.all_input_nodes)


def are_nodes_independent(nodes):
    """Whether none of some steps waits for another."""
    return not any(
        may_depend_on(a, b) or may_depend_on(b, a)
        for a, b in itertools.combinations(nodes, 2)
    )


def merge_matmul(in_mod):
    """Makes one product of several by the same matrix.

    Args:
        in_mod: the module.

    >>> import rushlight as rl
    >>> gm = merge_matmul(symbolic_trace(lambda x, y, w: rl.matmul(x, w) + rl.matmul(y, w)))
    >>> len(gm.graph.find_nodes(op="call_function", target=rl.matmul))
    1
    """
    gm = symbolic_trace(in_mod)
    by_matrix = defaultdict(list)
    products = [
        *gm.graph.find_nodes(op="call_function", target=call.matmul),
        *gm.graph.find_nodes(op="call_method", target="matmul"),
    ]
    for node in products:
        right = node.args[1] if len(node.args) > 1 else node.kwargs.get("other")
        if isinstance(right, Node):
            by_matrix[_matrix_of(gm, right)].append(node)
    for nodes in by_matrix.values():
        if len(nodes) < 2 or not are_nodes_independent(nodes):
            continue
        lefts = [node.args[0] for node in nodes]
        last = max(nodes)
        with gm.graph.inserting_after(last):
            parts = gm.graph.call_function(split_result_tensors, (None, lefts))
        with gm.graph.inserting_before(parts):
            joined = gm.graph.call_function(call.cat, (lefts,), {})
            product = gm.graph.call_function(call.matmul, (joined, nodes[0].args[1]))
        parts.update_arg(0, product)
        for place, node in enumerate(nodes):
            with gm.graph.inserting_after(parts):
                item = gm.graph.call_function(_item, (parts, place))
            node.replace_all_uses_with(item)
            gm.graph.erase_node(node)
    legalize_graph(gm)
    gm.recompile()
    gm.graph.lint()
    return gm


def _item(parts, place):
    """One of several results."""
    return parts[place]


def _matrix_of(gm, node):
    """What two steps have in common that read the same matrix."""
    if node.op == "get_attr":
        held = gm
        for item in node.target.split("."):
            held = getattr(held, item)
        if isinstance(held, Tensor):
            return id(held)
    return node
