"""A graph cut into modules, by a tag on each step."""

import operator
from dataclasses import dataclass, field
from typing import Any

from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, map_arg
from rushlight.fx.passes.tools_common import is_node_output_tensor
from rushlight.fx.passes.utils.common import HolderModule, lift_subgraph_as_module

__all__ = [
    "Component",
    "getattr_recursive",
    "move_non_tensor_nodes_on_boundary",
    "setattr_recursive",
    "split_by_tags",
]


def getattr_recursive(obj, name):
    """What an object has at a path; None where the path ends early."""
    for item in name.split("."):
        if not hasattr(obj, item):
            return None
        obj = getattr(obj, item)
    return obj


def setattr_recursive(obj, attr, value):
    """Puts a value at a path."""
    *path, last = attr.split(".")
    for item in path:
        obj = getattr(obj, item)
    setattr(obj, last, value)


@dataclass
class Component:
    """One of the parts: its graph, and which steps its arguments and results were."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


def split_by_tags(
    gm, tags, return_fqn_mapping=False, return_tuple=False, GraphModuleCls=GraphModule
):
    """Makes modules of the steps that have the same ``tag``, and one that calls them.

    Args:
        gm: the module; each step but arguments and the return has a ``tag``.
        tags: the tags in the order in which their modules are called.
        return_fqn_mapping: whether the old path for each new one is given too.
        return_tuple: whether parts give a tuple even of one result.
        GraphModuleCls: what the outer module is.

    Raises:
        AssertionError: a step has no tag, or needs what a later part gives.
    """
    parts = {tag: Component(Graph(), order, f"{tag}") for order, tag in enumerate(tags)}
    home: dict[Node, Component] = {}
    inner: dict[Node, Node] = {}
    outer = Graph()
    values: dict[Node, Node] = {}
    # reads of paths go into every part that needs them
    returned = None
    for node in gm.graph.nodes:
        if node.op == "output":
            returned = node
        elif node.op == "placeholder":
            values[node] = outer.placeholder(node.name, type_expr=node.type)
            values[node].meta = node.meta.copy()
        elif node.op == "get_attr":
            values[node] = node
        else:
            if not hasattr(node, "tag"):
                raise AssertionError(f"Node {node} does not have tag attribute")
            home[node] = parts[node.tag]
            _copy_into(parts[node.tag], node, home, inner)
    if returned is None:
        raise AssertionError("Graph had no output node!")
    for used in returned.all_input_nodes:
        if used in home and used not in home[used].orig_outputs:
            home[used].orig_outputs.append(used)
        elif used.op == "get_attr":
            values[used] = outer.get_attr(used.target)
    holder = HolderModule({})
    mapping: dict[str, str] = {}
    for tag in tags:
        mapping.update(
            _finish(gm, parts[tag], outer, values, inner, holder, return_tuple)
        )
    outer.output(map_arg(returned.args[0], values.__getitem__))
    outer._codegen = gm.graph._codegen
    for node in outer.nodes:
        if node.op == "get_attr":
            setattr(holder, node.target, getattr_recursive(gm, node.target))
    made = GraphModuleCls(holder, outer)
    return (made, mapping) if return_fqn_mapping else made


def _copy_into(part, node, home, inner):
    """Copies a step into its part, with arguments for what comes from elsewhere."""

    def value_of(used):
        if used.op == "get_attr":
            if used not in part.getattr_maps:
                part.getattr_maps[used] = part.graph.get_attr(used.target, used.type)
            return part.getattr_maps[used]
        source = home.get(used)
        if source is part:
            return inner[used]
        if source is not None:
            if source.order > part.order:
                raise AssertionError(
                    f"Component {part.name} order must be >= max of its upstream "
                    f"components, order={part.order} and max={source.order}"
                )
            if used not in source.orig_outputs:
                source.orig_outputs.append(used)
        if used not in part.orig_inputs:
            part.orig_inputs.append(used)
            made = part.graph.placeholder(used.name, type_expr=used.type)
            made.meta = used.meta.copy()
            part.input_placeholders.append(made)
        return part.input_placeholders[part.orig_inputs.index(used)]

    made = part.graph.node_copy(node, value_of)
    made.tag = node.tag  # type: ignore[attr-defined]
    inner[node] = made


def _finish(gm, part, outer, values, inner, holder, return_tuple):
    """Ends a part's graph, makes its module and calls it."""
    results: tuple[Any, ...] = tuple(inner[node] for node in part.orig_outputs)
    single = len(results) == 1 and not return_tuple
    if results:
        part.graph.output(results[0] if single else results)
    part.gm, mapping = lift_subgraph_as_module(gm, part.graph, part.name)
    call = outer.call_module(
        part.name, tuple(values[node] for node in part.orig_inputs)
    )
    setattr(holder, part.name, part.gm)
    if single:
        values[part.orig_outputs[0]] = call
    else:
        for place, node in enumerate(part.orig_outputs):
            values[node] = outer.call_function(operator.getitem, (call, place))
    return mapping


def move_non_tensor_nodes_on_boundary(subgraphs):
    """Moves steps that give no tensors to the part that uses them.

    Args:
        subgraphs: the parts in order, each with ``nodes`` and ``is_acc``.
    """
    homes = {node: part for part in subgraphs for node in part.nodes}
    for part in subgraphs:
        for node in list(reversed(part.nodes)):
            users = [user for user in node.users if user in homes]
            others = {id(homes[user]): homes[user] for user in users}
            if is_node_output_tensor(node) or len(others) != 1:
                continue
            [other] = others.values()
            if other is not part and other.is_acc == part.is_acc:
                part.nodes.remove(node)
                other.nodes.insert(0, node)
                homes[node] = other
