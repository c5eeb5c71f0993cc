"""What does not depend on arguments, computed once."""

import re
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, map_arg
from rushlight.fx.passes.split_module import split_module
from rushlight.nn.parameter import Parameter

__all__ = [
    "FoldedGraphModule",
    "get_unique_attr_name_in_module",
    "split_const_subgraphs",
]


class FoldedGraphModule(GraphModule):
    """A module of a graph, a part of which is computed at the first call.

    Args:
        root: the module with what the graph refers to.
        graph: the steps.
        const_subgraph: the steps that do not depend on arguments.
        fx_const_folded_attrs_name: where their results are kept.
        device_for_folded_attrs: where those live.
    """

    def __init__(
        self, root, graph, const_subgraph=None, fx_const_folded_attrs_name=None,
        device_for_folded_attrs="cuda",
    ):  # fmt: skip
        super().__init__(root, graph)
        self.const_subgraph_module = (
            None if const_subgraph is None else GraphModule(root, const_subgraph)
        )
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args, **kwargs):
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args)

    def run_folding(self):
        """Computes the part and keeps its results.

        Raises:
            AssertionError: it has been done.
        """
        name = self.fx_const_folded_attrs_name
        if self.const_subgraph_module is None or name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        folded = self.const_subgraph_module()

        def kept(value):
            if not isinstance(value, Tensor):
                return value
            return Parameter(value.detach().clone(), requires_grad=value.requires_grad)

        setattr(
            self,
            name,
            ParameterRow([kept(each) for each in folded])
            if isinstance(folded, tuple)
            else kept(folded),
        )


class ParameterRow(list):
    """Several results, by their numbers."""


def get_unique_attr_name_in_module(mod_traced, name):
    """A name like the given one that a module has nothing under."""
    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        found = re.match(r"(.*)_(\d+)$", name)
        name = f"{name}_1" if found is None else f"{found[1]}_{int(found[2]) + 1}"
    return name


def _inline_module(gm, inline_mod_name, run_dce=True):
    """Puts the steps of a called module in the place of its call."""
    inner = dict(gm.named_modules())[inline_mod_name]
    if not isinstance(inner, GraphModule):
        raise AssertionError(f"Expected GraphModule, got {type(inner)}")
    [call] = gm.graph.find_nodes(op="call_module", target=inline_mod_name)
    arguments = iter(call.args)
    values: dict[Node, Any] = {}
    for node in inner.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(arguments)
        elif node.op == "output":
            result = map_arg(node.args[0], values.__getitem__)
            if isinstance(result, tuple):
                for user in list(call.users):
                    user.replace_all_uses_with(result[user.args[1]])
            else:
                call.replace_all_uses_with(result)
        else:
            with gm.graph.inserting_before(call):
                copied = gm.graph.node_copy(node, values.__getitem__)
            if node.op in ("call_module", "get_attr"):
                held = inner
                for item in node.target.split("."):
                    held = getattr(held, item)
                copied.target = node.target.replace(".", "_")
                setattr(gm, copied.target, held)
            values[node] = copied
    if run_dce:
        gm.graph.eliminate_dead_code()
    gm.recompile()


def split_const_subgraphs(
    module, skip_folding_node_fn=None, device_for_folded_attrs="cpu"
):
    """A module that computes once what does not depend on its arguments.

    Args:
        module: the module.
        skip_folding_node_fn: says of steps that they are not to be computed before.
        device_for_folded_attrs: where the results live.

    >>> import rushlight as rl
    >>> from rushlight import nn
    >>> class M(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = nn.Parameter(rl.ones(2))
    ...     def forward(self, x):
    ...         return x + self.w * 3
    >>> split_const_subgraphs(M())(rl.zeros(2)).tolist()
    [3.0, 3.0]
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant: set[Node] = set()
    found = False
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op != "get_attr" and not set(node.all_input_nodes) <= constant:
            continue
        if node.op != "get_attr" and not node.all_input_nodes:
            continue
        if skip_folding_node_fn and skip_folding_node_fn(node):
            continue
        if node.is_impure() or _is_training_module(traced, node):
            continue
        constant.add(node)
        found = found or node.op != "get_attr"
    if not found:
        return FoldedGraphModule(traced, traced.graph)
    split = split_module(traced, module, lambda node: 0 if node in constant else 1)
    const_gm, rest_name = split.submod_0, "submod_1"
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    [call] = split.graph.find_nodes(op="call_module", target="submod_0")
    for node, given in zip(
        const_gm.graph.find_nodes(op="placeholder"), call.args, strict=True
    ):
        # what is given to the part is read by it
        setattr(const_gm, given.target, getattr(split, given.target))
        with const_gm.graph.inserting_before(node):
            node.replace_all_uses_with(const_gm.graph.get_attr(given.target))
        const_gm.graph.erase_node(node)
    setattr(split, name, None)
    with split.graph.inserting_before(call):
        read = split.graph.create_node("get_attr", name)  # computed by the first call
    call.replace_all_uses_with(read)
    split.graph.erase_node(call)
    for path, value in _tensors(const_gm):
        setattr(split, path, value)
    if hasattr(split, rest_name):
        _inline_module(split, rest_name)
    return FoldedGraphModule(
        split, split.graph, const_gm.graph, name, device_for_folded_attrs
    )


def _tensors(gm):
    """What the steps of a graph refer to: names and values."""
    for node in gm.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            yield node.target, getattr(gm, node.target)


def _is_training_module(gm, node):
    return node.op == "call_module" and gm.get_submodule(node.target).training
