"""Changes of a graph's targets, and what its steps weigh."""

from typing import Any, NamedTuple

from rushlight.fx.graph import Graph
from rushlight.fx.node import Node, map_arg
from rushlight.fx.passes.shape_prop import ShapeProp

__all__ = [
    "get_size_of_all_nodes",
    "get_size_of_node",
    "get_tensor_meta",
    "replace_target_nodes_with",
    "size_bytes",
]


class size_bytes(NamedTuple):
    """Bytes of a step's result, and of that and the module's own tensors."""

    output_size: int
    total_size: int


def replace_target_nodes_with(fx_module, old_op, old_target, new_op, new_target):
    """Gives all steps of a kind and target others.

    Args:
        fx_module: the module whose graph is changed.
        old_op: the kind of step; ``old_target`` is its target.
        new_op: the new kind; ``new_target`` is its target.
    """
    made = Graph()
    values: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args = map_arg(node.args, values.__getitem__)
            kwargs = map_arg(node.kwargs, values.__getitem__)
            values[node] = made.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            values[node] = made.node_copy(node, values.__getitem__)
    fx_module.graph = made


def get_size_of_all_nodes(fx_module, args=None):
    """Puts ``size_bytes`` on every step.

    Args:
        fx_module: the module.
        args: arguments to run it with, where its steps have no notes yet.
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


def get_tensor_meta(node) -> Any:
    """What ``ShapeProp`` noted of a step.

    Raises:
        RuntimeError: nothing.
    """
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape "
            "propagation has run."
        )
    return meta


def get_size_of_node(fx_module, node):
    """What a step weighs: its result, and the tensors of the module it calls."""
    numbers = 0
    if node.op == "call_module":
        called = dict(fx_module.named_modules())[node.target]
        # As PyTorch counts: buffers, which parameters are among in named order.
        numbers = sum(tensor.nelement() for _, tensor in called.named_parameters())
    meta = get_tensor_meta(node)
    result = meta.shape.numel()
    item = meta.dtype.itemsize
    return size_bytes(item * result, item * (numbers + result))
