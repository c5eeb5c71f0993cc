"""The steps of a graph by the module or function of the program that they come from."""

import logging
from dataclasses import dataclass, field
from typing import Any

from rushlight.fx import _names
from rushlight.fx.node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]

logger = logging.getLogger(__name__)


@dataclass
class SourcePartition:
    """The steps of one source, and where values come in and go out."""

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def get_source_partitions(graph, wanted_sources, filter_fn=None):
    """The steps of each source, by source.

    Args:
        graph: the steps; their notes say under ``source_fn_stack`` or
            ``nn_module_stack`` where they come from.
        wanted_sources: functions, kinds of modules and names.
        filter_fn: says which steps count.
    """
    found: dict[Any, dict[str, list[Node]]] = {}
    wanted = {_named(one): one for one in wanted_sources}
    for node in graph.nodes:
        for key, kind in _sources(node):
            source = wanted.get(_named(kind))
            if source is not None:
                found.setdefault(source, {}).setdefault(key, []).append(node)
    result = {}
    for kind, groups in found.items():
        parts = [_partition(nodes, kind) for nodes in groups.values()]
        if filter_fn:
            parts = [part for part in parts if all(map(filter_fn, part.output_nodes))]
        if parts:
            result[kind] = parts
    return result


def _named(source):
    """A kind of module as notes have it: by its name in text; others as they are."""
    if isinstance(source, type):
        return _names.type_name(source)
    return _names.in_package(source) if isinstance(source, str) else source


def _sources(node):
    """Names and kinds of where a step comes from: a module, a function, an operator."""
    stack = node.meta.get("source_fn_stack")
    if stack:
        yield stack[-1]
        return
    modules = node.meta.get("nn_module_stack")
    if modules and node.op in ("call_module", "call_function"):
        path, kind = [*modules.values()][-1]
        yield path, kind
    if node.op == "call_function":
        yield node.name, node.target
        name = getattr(node.target, "_opname", None)
        if name is not None:
            yield node.name, name


def _partition(nodes, source):
    inside = set(nodes)
    inputs: dict[Node, None] = {}
    outputs: dict[Node, None] = {}
    params: dict[Node, None] = {}
    for node in nodes:
        for used in node.all_input_nodes:
            if used not in inside and used.op != "get_attr":
                inputs[used] = None
            elif used.op == "get_attr":
                params[used] = None
        if any(user not in inside for user in node.users):
            outputs[node] = None
    return SourcePartition(nodes, source, list(inputs), list(outputs), list(params))


def check_subgraphs_connected(subgraph1, subgraph2):
    """Whether the second takes a result of the first."""
    return any(
        used in subgraph1.nodes
        for node in subgraph2.nodes
        for used in node.all_input_nodes
    )
