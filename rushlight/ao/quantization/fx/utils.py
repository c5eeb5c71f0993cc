"""What quantizers of graphs ask of nodes."""

from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import map_arg


def _get_module(node, named_modules):
    """The module that a node calls; None where it calls none.

    Args:
        node: the node.
        named_modules: modules by name.
    """
    return named_modules.get(str(node.target)) if node.op == "call_module" else None


def node_arg_is_weight(node, arg):
    """Whether an argument of a node is its weight: so noted, or passed by that name.

    Args:
        node: the node, whose ``meta["target_dtype_info"]`` may have a ``weight_index``.
        arg: the argument.
    """
    index = node.meta.get("target_dtype_info", {}).get("weight_index")
    if index is not None and node.args[index : index + 1] == (arg,):
        return True
    return node.kwargs.get("weight") is arg


def graph_module_from_producer_nodes(root, producer_nodes):
    """A module of the steps that make a value.

    Args:
        root: the module whose graph they are from.
        producer_nodes: the steps, the last first.

    Raises:
        AssertionError: there are none.
    """
    if not producer_nodes:
        raise AssertionError("list of producer nodes can not be empty")
    graph, copies = Graph(), {}
    for node in reversed(producer_nodes):
        copies[node] = graph.node_copy(node, lambda arg: map_arg(arg, copies.get))
    graph.output(copies[producer_nodes[0]])
    return GraphModule(root, graph)
