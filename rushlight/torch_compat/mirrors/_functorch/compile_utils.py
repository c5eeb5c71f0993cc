"""Graphs of operators looked into and simplified, for compilers of one's own."""

from rushlight.dispatch.dispatcher import Operator
from rushlight.fx.passes.dialect.common.cse_pass import CSEPass

__all__ = [
    "fx_graph_cse",
    "get_aten_target",
    "get_outputs",
    "get_placeholders",
    "strip_overloads",
]


def get_aten_target(node):
    """What a step calls: all overloads of an operator, or the function itself."""
    return getattr(node.target, "overloadpacket", node.target)


def get_placeholders(graph):
    """The steps that are arguments."""
    return graph.find_nodes(op="placeholder")


def get_outputs(graph):
    """The leaves of what a graph gives, in order."""
    from rushlight.utils._pytree import tree_leaves

    return tree_leaves(graph.output_node().args[0])


def strip_overloads(gm):
    """Has steps call operators by name, whatever overload they were recorded with.

    Args:
        gm: the `GraphModule`; it is changed.
    """
    for node in gm.graph.nodes:
        if isinstance(node.target, Operator):
            node.target = node.target.overloadpacket
    gm.recompile()


def fx_graph_cse(fx_g):
    """A graph in which no value is computed twice.

    Args:
        fx_g: the graph.
    """
    from rushlight.fx.graph_module import GraphModule
    from rushlight.nn.modules.module import Module

    return CSEPass()(GraphModule(Module(), fx_g)).graph_module.graph
