"""Replaces the places of a graph that look like a pattern."""

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule, _copy_attr
from rushlight.fx.node import Node
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
from rushlight.nn.modules.module import Module

__all__ = [
    "Match",
    "ReplacedPatterns",
    "replace_pattern",
    "replace_pattern_with_filters",
]


class Match(NamedTuple):
    """A place that was found: the node that its search began at, and all of its nodes."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """As ``Match``, with the nodes that came in their place."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def _replace_attributes(gm, replacement):
    """Gives a module what the replacement's steps refer to."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()

    def look(module, path):
        for item in path.split("."):
            if not hasattr(module, item):
                return None
            module = getattr(module, item)
        return module

    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        if look(gm, node.target) is not None:
            continue
        if look(replacement, node.target) is None:
            raise RuntimeError(
                f"Attempted to create a {node.op} node during subgraph rewriting with "
                f"target {node.target}, but the referenced attribute does not exist in "
                "the replacement GraphModule"
            )
        _copy_attr(copy.deepcopy(replacement), gm, node.target)
    gm.graph.lint()


def replace_pattern(gm, pattern, replacement):
    """Replaces all places of a module's graph that look like a pattern.

    Places that overlap are not all replaced: the first is. What a place returns goes to
    whoever used it; what it does not return must not be used outside of it.

    Args:
        gm: the module whose graph is changed.
        pattern: a function, module or graph; its arguments stand for any values.
        replacement: what comes in place, with the same arguments.

    Returns:
        A ``Match`` for each place.

    >>> import rushlight as rl
    >>> from rushlight import fx
    >>> gm = fx.symbolic_trace(lambda x, w: rl.add(x, rl.relu(w)))
    >>> found = replace_pattern(gm, lambda a: rl.relu(a), lambda a: rl.tanh(a))
    >>> len(found)
    1
    >>> print(*gm.graph.nodes)
    x w tanh add output
    """
    replaced = _replace_pattern(gm, pattern, replacement)
    return [Match(anchor=each.anchor, nodes_map=each.nodes_map) for each in replaced]


def replace_pattern_with_filters(
    gm, pattern, replacement=None, match_filters=None, ignore_literals=False,
    replacement_callback=None, node_name_match="",
):  # fmt: skip
    """As ``replace_pattern``, with a say in which places are replaced by what.

    Args:
        gm: the module whose graph is changed.
        pattern: what to look for.
        replacement: what comes in place.
        match_filters: functions of a match, the graph and the pattern's graph; all must
            agree to a place.
        ignore_literals: whether constants may differ.
        replacement_callback: gives the graph for a place, from what filters get.
        node_name_match: nodes with this in their name stand for any of the pattern.

    Returns:
        A ``ReplacedPatterns`` for each place.
    """
    return _replace_pattern(
        gm,
        pattern,
        replacement,
        match_filters,
        ignore_literals,
        replacement_callback,
        node_name_match,
    )


def _graph_of(program):
    if isinstance(program, GraphModule):
        return program.graph
    if isinstance(program, Graph):
        return program
    return symbolic_trace(program).graph


def _replace_pattern(
    gm, pattern, replacement=None, match_filters=None, ignore_literals=False,
    replacement_callback=None, node_name_match="",
):  # fmt: skip
    graph = gm.graph
    pattern_graph = _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = [
        match
        for match in matcher.match(graph, node_name_match=node_name_match)
        if all(keep(match, graph, pattern_graph) for keep in match_filters or ())
    ]
    common = None
    if isinstance(replacement, (GraphModule, Graph)) or callable(replacement):
        common = _graph_of(replacement)
    elif not replacement_callback:
        raise AssertionError(
            "Must provide either a replacement GraphModule or a replacement callback"
        )
    changed: dict[Any, Any] = {}
    done = []
    for match in matches:
        if replacement_callback:
            common = replacement_callback(match, graph, pattern_graph)
        made = _replace_one(graph, match, common, changed)
        _erase(graph, pattern_graph, match)
        done.append(
            ReplacedPatterns(
                anchor=match.anchors[0], nodes_map=match.nodes_map, replacements=made
            )
        )
    gm.recompile()
    if isinstance(replacement, Module):
        _replace_attributes(gm, replacement)
    return done


def _replace_one(graph, match, replacement, changed):
    """Copies the replacement to a place and gives its results to the users there."""
    arguments = [n for n in replacement.nodes if n.op == "placeholder"]
    if len(match.placeholder_nodes) != len(arguments):
        raise AssertionError(
            f"the pattern has {len(match.placeholder_nodes)} arguments and the replacement "
            f"has {len(arguments)}"
        )
    values = {}
    for argument, given in zip(arguments, match.placeholder_nodes, strict=True):
        now = changed.get(given, given) if isinstance(given, Node) else given
        values[argument] = now
        if now is not given:
            # an earlier replacement took the place of what this one was found with
            for pn, gn in match.nodes_map.items():
                if gn is given:
                    match.nodes_map[pn] = now
    users = {user for node in match.returning_nodes for user in node.users}
    held = set(match.nodes_map.values())
    order = list(graph.nodes)
    place = next((node for node in order if node in users and node not in held), None)
    if place is None:
        last = max(n for n in held if isinstance(n, Node))
        place = last.next
    before = set(order)
    with graph.inserting_before(place):
        results = graph.graph_copy(replacement, values)
    results = (results,) if isinstance(results, Node) else tuple(results or ())
    made = [n for n in values.values() if isinstance(n, Node) and n not in before]
    if len(match.returning_nodes) != len(results):
        raise AssertionError(
            f"the pattern returns {len(match.returning_nodes)} values and the replacement "
            f"returns {len(results)}"
        )
    for node, new in zip(match.returning_nodes, results, strict=True):
        node.replace_all_uses_with(new)
        changed[node] = new
    return made


def _erase(graph, pattern_graph, match):
    for pn in reversed(pattern_graph.nodes):
        if pn.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[pn])
