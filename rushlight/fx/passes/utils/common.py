"""Parts of graphs as modules, and graphs compared."""

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
from rushlight.nn.modules.module import Module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A module of given modules."""

    def __init__(self, d):
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(gm, subgraph, comp_name="", class_name="GraphModule"):
    """A module of a graph whose paths lead to another module's parts.

    Args:
        gm: the module that has the parts.
        subgraph: the graph.
        comp_name: the new module's name, in front of new paths.
        class_name: what it is called in print.

    Returns:
        The module, and the old path for each new one.
    """
    holder = HolderModule({})
    moved: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        *path, last = node.target.split(".")
        held, owner = gm, holder
        for item in path:
            held = getattr(held, item)
            if not hasattr(owner, item):
                owner.add_module(item, HolderModule({}))
            owner = getattr(owner, item)
        name = f"{comp_name}.{node.target}" if comp_name else node.target
        moved[name] = node.target
        if not hasattr(owner, last):
            setattr(owner, last, getattr(held, last))
    return GraphModule(holder, subgraph, class_name), moved


def compare_graphs(left, right):
    """Whether two graphs do the same.

    >>> from rushlight import fx
    >>> one = fx.symbolic_trace(lambda x: x + 1).graph
    >>> compare_graphs(one, fx.symbolic_trace(lambda y: y + 1).graph)
    True
    """
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return len(matcher.match(right)) > 0
