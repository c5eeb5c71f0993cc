"""Finds the places of a graph that look like another graph."""

import copy
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from rushlight.fx.graph_module import _get_attr
from rushlight.fx.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One place: which node stands for which of the pattern."""

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Node] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self):
        return InternalMatch(
            anchors=self.anchors,
            nodes_map=self.nodes_map.copy(),
            placeholder_nodes=self.placeholder_nodes.copy(),
            returning_nodes=self.returning_nodes.copy(),
        )


class SubgraphMatcher:
    """Finds where a graph has a pattern, from what the pattern returns backwards.

    Args:
        pattern: a graph; its placeholders stand for any value.
        match_output: whether the pattern's return must be the graph's.
        match_placeholder: whether the pattern's arguments must be the graph's.
        remove_overlapping_matches: whether a node belongs to one place at most.
        ignore_literals: whether constants may differ.

    Raises:
        ValueError: the pattern has no steps.
        AssertionError: it has a step whose result nobody uses.

    >>> import rushlight as rl
    >>> from rushlight import fx
    >>> pattern = fx.symbolic_trace(lambda x: rl.relu(x) + 1).graph
    >>> graph = fx.symbolic_trace(lambda a: (rl.relu(a) + 1) * 2).graph
    >>> len(SubgraphMatcher(pattern).match(graph))
    1
    """

    def __init__(
        self, pattern, match_output=False, match_placeholder=False,
        remove_overlapping_matches=True, ignore_literals=False,
    ):  # fmt: skip
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError(
                "SubgraphMatcher cannot be initialized with an empty pattern"
            )
        for node in pattern.nodes:
            if node.op != "output" and not node.users:
                raise AssertionError(
                    "SubgraphMatcher cannot be initialized with an pattern with dead code: "
                    f"nobody uses {node.format_node()}"
                )
        self.pattern_placeholder_nodes = [
            n for n in pattern.nodes if n.op == "placeholder"
        ]
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_returning_nodes = output.all_input_nodes
        if match_output:
            self.pattern_anchors = [output]
        else:
            # what is returned and not used within the pattern as well
            self.pattern_anchors = [
                n for n in output.all_input_nodes if len(n.users) == 1
            ]

    def _match_attributes(self, pn, gn):
        return _attributes_equal(pn, gn)

    def _nodes_are_equal(self, pn, gn, node_name_match=""):
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        if pn.op == "get_attr":
            return self._match_attributes(pn, gn)
        return pn.target == gn.target

    def _is_contained(self, nodes_map):
        """Whether nobody outside uses what the pattern does not return."""
        returned = {
            nodes_map[n] for n in self.pattern_returning_nodes if n in nodes_map
        }
        inner = {
            gn: pn
            for pn, gn in nodes_map.items()
            if pn.op != "placeholder" and gn not in returned
        }
        held = set(nodes_map.values())
        return all(user in held for gn in inner for user in gn.users)

    def _remove_overlapping_matches(self, matches):
        kept: list[InternalMatch] = []
        taken: set[Node] = set()
        for match in matches:
            own = [
                gn for pn, gn in match.nodes_map.items()
                if pn.op not in ("placeholder", "output")
            ]  # fmt: skip
            if any(gn in taken for gn in own):
                continue
            taken.update(own)
            kept.append(match)
        return kept

    def _match_literals(self, pn, gn, match):
        if isinstance(pn, Node) and isinstance(gn, Node):
            raise AssertionError("pn and gn cannot both be Node")
        if isinstance(pn, Node) and not isinstance(gn, Node):
            if pn.op != "placeholder":
                return False
            # an argument of the pattern may stand for a constant
            if pn in match.nodes_map:
                return match.nodes_map[pn] == gn
            match.nodes_map[pn] = gn
            return True
        if isinstance(gn, Node):
            return False
        return self.ignore_literals or (type(gn) is type(pn) and gn == pn)

    def _match_nodes(self, pn, gn, match, node_name_match=""):
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if gn in match.nodes_map.values():
            return False
        if not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        # It is noted before its arguments are, and taken back if they fail.
        saved = copy.copy(match)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        if self._match_both(pn, gn, match):
            return True
        match.nodes_map = saved.nodes_map
        match.placeholder_nodes = saved.placeholder_nodes
        match.returning_nodes = saved.returning_nodes
        return False

    def _match_both(self, pn, gn, match):
        args1, kwargs1 = pn.args, pn.kwargs
        args2, kwargs2 = gn.args, gn.kwargs
        if len(args1) != len(args2) or set(kwargs1) != set(kwargs2):
            named = _by_names(pn), _by_names(gn)
            if None in named or set(named[0]) != set(named[1]):
                return False
            args1, kwargs1, args2, kwargs2 = (), named[0], (), named[1]
        return self._match_args(list(args1), list(args2), match) and self._match_args(
            [kwargs1[key] for key in kwargs1], [kwargs2[key] for key in kwargs1], match
        )

    def _match_args(self, args1, args2, match):
        if len(args1) != len(args2):
            return False
        for a1, a2 in zip(args1, args2, strict=True):
            if isinstance(a1, Node) and isinstance(a2, Node):
                matched = self._match_nodes(a1, a2, match)
            elif isinstance(a1, (list, tuple)) and isinstance(a2, (list, tuple)):
                matched = self._match_args(list(a1), list(a2), match)
            elif isinstance(a1, dict) and isinstance(a2, dict):
                matched = set(a1) == set(a2) and self._match_args(
                    list(a1.values()), [a2[key] for key in a1], match
                )
            elif isinstance(a1, slice) and isinstance(a2, slice):
                matched = self._match_args(_parts(a1), _parts(a2), match)
            else:
                matched = self._match_literals(a1, a2, match)
            if not matched:
                return False
        return True

    def match(self, graph, node_name_match=""):
        """The places of a graph that look like the pattern, last ones first found.

        Args:
            graph: where to look.
            node_name_match: nodes with this in their name stand for any of the pattern.

        Returns:
            A list of ``InternalMatch``, in the graph's order.
        """
        candidates: dict[Node, list[Node]] = defaultdict(list)
        for anchor in self.pattern_anchors:
            for node in graph.nodes:
                if self._nodes_are_equal(anchor, node, node_name_match):
                    candidates[anchor].append(node)
        found: list[InternalMatch] = []
        start = InternalMatch(anchors=self.pattern_anchors)
        self._search(0, start, candidates, found, node_name_match)
        found = [match for match in found if self._is_contained(match.nodes_map)]
        for match in found:
            match.placeholder_nodes = [
                match.nodes_map[pn] for pn in self.pattern_placeholder_nodes
            ]
            match.returning_nodes = [
                match.nodes_map[pn] for pn in self.pattern_returning_nodes
            ]
        if self.remove_overlapping_matches:
            found = self._remove_overlapping_matches(found)
        return found

    def _search(self, place, match, candidates, found, node_name_match):
        """Tries every candidate for every anchor, one anchor after the other."""
        if place == len(self.pattern_anchors):
            found.append(match)
            return
        anchor = self.pattern_anchors[place]
        for node in candidates[anchor]:
            trial = copy.copy(match)
            if self._match_nodes(anchor, node, trial, node_name_match):
                self._search(place + 1, trial, candidates, found, node_name_match)


def _parts(value):
    return [value.start, value.stop, value.step]


def _by_names(node):
    """A step's arguments by the names of its signature; None where it is not known."""
    from rushlight.fx.operator_schemas import normalize_function

    if node.op != "call_function":
        return None
    found = normalize_function(
        node.target, node.args, dict(node.kwargs), normalize_to_only_use_kwargs=True
    )
    return None if found is None else found.kwargs


def _attributes_equal(pn, gn) -> Any:
    """Whether two reads of paths give the same kind of thing."""
    mine = pn.graph.owning_module, pn.target
    other = gn.graph.owning_module, gn.target
    if mine[0] is None or other[0] is None:
        return pn.target == gn.target
    first, second = _get_attr(*mine), _get_attr(*other)
    from rushlight.core.tensor import Tensor

    if isinstance(first, Tensor):
        return isinstance(second, Tensor)
    return type(first) is type(second)
