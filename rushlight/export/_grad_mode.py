"""Steps that ran without gradients, as one step of their own."""

import operator

from rushlight._higher_order_ops.wrap import wrap_with_set_grad_enabled
from rushlight.core.state import set_grad_enabled
from rushlight.core.tensor import Tensor
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import map_arg
from rushlight.nn.modules.module import Module


def wrap_grad_mode(module):
    """Puts the steps between switches of gradients into graphs of their own.

    Args:
        module: the graph module; its graph begins with gradients as the caller has them.
    """
    graph = module.graph
    marks = [
        node
        for node in graph.nodes
        if node.op == "call_function" and node.target is set_grad_enabled
    ]
    if not marks:
        return
    first = not marks[0].args[0]
    count = 1
    for at, mark in enumerate(marks):
        stop = marks[at + 1] if at + 1 < len(marks) else None
        if mark.args[0] != first:
            inner = _between(mark, stop, graph)
            if inner:
                name = f"submod_{count}"
                count += 2
                _move(module, inner, name, mark.args[0])
    for mark in marks:
        graph.erase_node(mark)
    module.recompile()


def _between(start, stop, graph):
    found, node = [], start.next
    while node is not stop and node.op != "output" and node is not graph._root:
        found.append(node)
        node = node.next
    return found


def _move(module, nodes, name, mode):
    """Moves steps into a graph, in whose place they are called."""
    graph, inside = module.graph, set(nodes)
    inner = Graph()
    known: dict = {}
    outside: list = []

    def argument(node):
        if node not in known:
            known[node] = inner.placeholder(node.name)
            known[node].meta.update(node.meta)
            outside.append(node)
        return known[node]

    for node in nodes:
        map_arg(
            (node.args, node.kwargs), lambda n: None if n in inside else argument(n)
        )
    root = Module()
    for node in nodes:
        known[node] = inner.node_copy(node, argument)
        if node.op == "get_attr":
            setattr(root, node.target, getattr(module, node.target))
    results = [node for node in nodes if any(u not in inside for u in node.users)]
    inner.output(tuple(known[node] for node in results))
    module.add_module(name, GraphModule(root, inner))
    before = nodes[0]
    with graph.inserting_before(before):
        body = graph.get_attr(name)
        called = graph.create_node(
            "call_function",
            wrap_with_set_grad_enabled,
            (mode, body, *outside),
            name=nodes[0].name,
        )
        called.meta["val"] = tuple(node.meta.get("val") for node in results)
        for at, node in enumerate(results):
            part = graph.call_function(operator.getitem, (called, at))
            part.meta.update(
                (key, node.meta[key])
                for key in ("val", "tensor_meta")
                if key in node.meta
            )
            node.replace_all_uses_with(part)
    for node in reversed(nodes):
        graph.erase_node(node)
    values = [one for one in called.meta["val"] if isinstance(one, Tensor)]
    called.meta["val"] = tuple(values)
