"""Graphs as panels: what ``backward`` goes through, fx graphs, the tree of modules."""

from __future__ import annotations

import time

import rushlight
from rushlight.inspection._viewer import Panel
from rushlight.utils.pictures import STYLE, Box, graph_svg, layered_svg, module_tree


def graph_panel(tensor, names=None, limit=2000):
    """The graph that ``backward`` of a tensor goes through, for `inspection_page`.

    Args:
        tensor: a result that has a graph.
        names: the leaves' names: a dict of tensors, or a module for its parameters'.
        limit: the most nodes that are drawn.

    Raises:
        ValueError: the tensor has no graph, or one that is too large.

    >>> import rushlight as rl
    >>> x = rl.ones(2, requires_grad=True)
    >>> "SumBackward0" in graph_panel((x * 2).sum(), {"x": x}).body
    True
    """
    return Panel("Autograd graph", graph_svg(tensor, names, limit), style=STYLE)


def fx_panel(graph_module, limit=2000):
    """A graph of calls, such as ``fx.symbolic_trace`` gives, for `inspection_page`.

    Each box has the node's name and what it calls, with the result's sizes where they
    are known (``fx.passes.shape_prop``, exported programs).

    Args:
        graph_module: a `fx.GraphModule`, an exported program, or a `fx.Graph`.
        limit: the most nodes that are drawn.

    Raises:
        ValueError: the graph is too large.

    >>> import rushlight as rl
    >>> panel = fx_panel(rl.fx.symbolic_trace(rl.nn.Sequential(rl.nn.ReLU())))
    >>> panel.body.count("<rect")
    3
    """
    graph = getattr(graph_module, "graph", graph_module)
    nodes = list(graph.nodes)
    if len(nodes) > limit:
        raise ValueError(
            f"fx_panel: the graph has {len(nodes)} nodes, more than {limit}\n"
            "  remedy: raise limit"
        )
    boxes = {node: Box(node, node.name, _detail(node), _kind(node)) for node in nodes}
    for node in nodes:
        boxes[node].below = [boxes[user] for user in node.users]
    return Panel("fx graph", layered_svg(list(boxes.values())), style=STYLE)


def _kind(node):
    if node.op in ("placeholder", "get_attr"):
        return "leaf"
    return "root" if node.op == "output" else "node"


def _detail(node):
    """What a node calls, and its result's sizes."""
    target = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if node.op in ("placeholder", "output"):
        name = ""
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    shape = getattr(value, "shape", None)
    return f"{name} {list(shape) if shape is not None else ''}".strip()


def module_panel(model, *inputs, **kwargs):
    """The tree of a model's modules: sizes, parameters and time, for `inspection_page`.

    Args:
        model: a module.
        inputs, kwargs: the model's arguments; a tuple of sizes stands for zeros. With
            them modules have their outputs' sizes, and the time of one call.

    >>> import rushlight as rl
    >>> panel = module_panel(rl.nn.Sequential(rl.nn.Linear(4, 3)), (2, 4))
    >>> "[2, 3]" in panel.body and " ms" in panel.body
    True
    """
    times = _times(model, inputs, kwargs) if inputs or kwargs else None
    body = module_tree(model, *inputs, times=times, **kwargs)
    return Panel("Modules", body, style=STYLE)


def _times(model, inputs, kwargs):
    """Seconds that the calls of each module take, in the second of two runs."""
    values = [
        rushlight.zeros(one)
        if isinstance(one, tuple) and all(isinstance(size, int) for size in one)
        else one
        for one in inputs
    ]
    begun: list = []
    times: dict = {}

    def enter(module, args):
        begun.append(time.perf_counter())

    def leave(module, args, result):
        times[module] = times.get(module, 0.0) + time.perf_counter() - begun.pop()

    training = {module: module.training for module in model.modules()}
    handles = [m.register_forward_pre_hook(enter) for m in training]
    handles += [m.register_forward_hook(leave, always_call=True) for m in training]
    model.eval()
    try:
        with rushlight.no_grad(), rushlight.random.fork_rng():
            for _ in range(2):
                times.clear()
                model(*values, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in training.items():
            module.training = mode
    return times
