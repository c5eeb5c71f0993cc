"""Parts of two graphs that compute the same, in pairs.

Both graphs are walked from their results back. What an observer looks at belongs to it,
and what `fuse_fx` would make one module is one part; observers of inputs, conversions and
views are passed over.
"""

from rushlight.ao.ns.fx.mappings import (
    get_base_name_to_sets_of_related_ops,
    get_unmatchable_types_map,
)
from rushlight.ao.ns.fx.ns_types import NSSubgraph
from rushlight.ao.quantization import FakeQuantizeBase, ObserverBase
from rushlight.ao.quantization.fuser_method_mappings import (
    _DEFAULT_OP_LIST_TO_FUSER_METHOD,
)
from rushlight.ao.quantization.fx import patterns
from rushlight.fx import Node
from rushlight.nn import ReLU

LONGEST = max(map(len, _DEFAULT_OP_LIST_TO_FUSER_METHOD))


class GraphMatchingException(Exception):
    """Two graphs have no parts in pairs."""


def modules_of(model):
    """A graph's modules, by name."""
    return dict(model.named_modules(remove_duplicate=False))


def is_observer(node, modules):
    """Whether a node observes what another one gives."""
    return node.op == "call_module" and isinstance(
        modules[node.target], (ObserverBase, FakeQuantizeBase)
    )


class Parts:
    """The parts of a graph, from the results back.

    Args:
        model: the `GraphModule`.
        passed_over: what is no part, by what it is.
    """

    def __init__(self, model, passed_over):
        self.model, self.passed_over = model, passed_over
        self.modules, self.seen = modules_of(model), set()

    def __iter__(self):
        waiting = [node for node in self.model.graph.nodes if node.op == "output"]
        while waiting:
            end = waiting.pop()
            if end in self.seen:
                continue
            nodes = self.joined(end)
            self.seen.update(nodes)
            waiting += nodes[0].all_input_nodes
            if self.is_part(nodes[0]):
                yield NSSubgraph(nodes[0], end, nodes[0])

    def joined(self, end):
        """The nodes of a part, of which the last is known."""
        observers = [end] if is_observer(end, self.modules) else []
        last = end.args[0] if observers else end
        if last in self.seen or not (last.args and isinstance(last.args[0], Node)):
            return [end]
        found, chain = [last], [last]
        while len(chain) < LONGEST:
            before = chain[0].args[0] if chain[0].args else None
            if not isinstance(before, Node) or len(before.users) > 1:
                break
            chain = [before, *chain]
            if before in self.seen or before.op not in ("call_module", "call_function"):
                break
            kinds = [patterns.kind_of(node, self.modules) for node in chain]
            cut = [ReLU if kind in patterns.RELU else kind for kind in kinds]
            pair = cut[0] in patterns.BINARY and cut[1:] == [ReLU]
            if pair or tuple(cut) in _DEFAULT_OP_LIST_TO_FUSER_METHOD:
                found = chain
        return found + observers

    def is_part(self, node):
        """Whether a part that begins with a node is compared."""
        if node.op == "call_module":
            unmatchable = tuple(self.passed_over["mods_unmatchable"])
            module = self.modules[node.target]
            return not (
                is_observer(node, self.modules) or isinstance(module, unmatchable)
            )
        if node.op == "call_function":
            return node.target not in self.passed_over["funs_unmatchable"]
        return node.op == "call_method" and (
            node.target not in self.passed_over["meths_unmatchable"]
        )


def get_matching_subgraph_pairs(
    gm_a, gm_b, base_name_to_sets_of_related_ops=None, unmatchable_types_map=None
):
    """Parts of two graphs that compute the same, by a name that both have.

    Args:
        gm_a, gm_b: the graphs' modules.
        base_name_to_sets_of_related_ops: what computes the same.
        unmatchable_types_map: what is no part.

    Raises:
        GraphMatchingException: one graph has more parts, or two are not related.
    """
    sets = base_name_to_sets_of_related_ops or get_base_name_to_sets_of_related_ops()
    passed_over = unmatchable_types_map or get_unmatchable_types_map()
    sides = [Parts(model, passed_over) for model in (gm_a, gm_b)]
    parts = [list(side) for side in sides]
    found, counts = {}, {}
    for one, two in zip(*parts):
        kinds = [
            patterns.kind_of(part.base_op_node, side.modules)
            for part, side in zip((one, two), sides)
        ]
        bases = [name for name, kin in sets.items() if kin.issuperset(kinds)]
        if not bases and kinds[0] is not kinds[1] and kinds[0] != kinds[1]:
            raise GraphMatchingException(
                f"The subgraphs\n({one}, {kinds[0]}) and\n({two}, {kinds[1]})\nare not "
                "related. Please ensure that the two models you pass in have the same "
                "number of subgraphs, and each pair of subgraphs is related to each other."
            )
        if bases:
            number = counts[bases[0]] = counts.get(bases[0], -1) + 1
            found[f"base_op_{bases[0]}_{number}"] = (one, two)
    if len(parts[0]) != len(parts[1]):
        shorter = min(map(len, parts))
        one, two = (part[shorter] if len(part) > shorter else None for part in parts)
        raise GraphMatchingException(
            f"Attempting to match\n({one}) and\n({two}),\none of which is empty. Please "
            "ensure that the two models you pass in have the same number of subgraphs."
        )
    return dict(reversed(found.items()))
