"""Patterns whose steps have names by which matches are asked for."""

import copy

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.utils.matcher_utils import InternalMatch as InternalMatch
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_to_graph_and_name_node_map(gm):
    """A pattern without the dict that it returns last, and that dict."""
    gm = GraphModule(gm, copy.deepcopy(gm.graph))
    output = gm.graph.output_node()
    returned = gm.graph.process_outputs(output.args[0])
    if (
        isinstance(returned, tuple)
        and len(returned) == 2
        and isinstance(returned[0], tuple)
    ):
        *results, named = *returned[0], returned[1]
    else:
        *results, named = returned
    if not isinstance(named, dict):
        raise ValueError(
            "Expecting the input graph to have a dict output as the last element"
        )
    output.args = (results[0] if len(results) == 1 else tuple(results),)
    gm.recompile()
    return gm, dict(named)


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """As ``SubgraphMatcher``, for patterns that also return a dict of named steps.

    Matches have ``name_node_map``: the graph's node for each name.
    """

    def __init__(
        self, pattern_gm, match_output=False, match_placeholder=False,
        remove_overlapping_matches=True, ignore_literals=False,
    ):  # fmt: skip
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        self.pattern_gm = pattern_gm
        super().__init__(
            pattern_gm.graph,
            match_output,
            match_placeholder,
            remove_overlapping_matches,
            ignore_literals,
        )

    def match(self, graph, node_name_match=""):
        """The places of a graph that look like the pattern, with named nodes."""
        found = super().match(graph, node_name_match)
        for match in found:
            for name, node in self.name_node_map.items():
                match.name_node_map[name] = match.nodes_map[node]
        return found
