"""Graphs of functions, put in the place of steps of another graph."""

from collections import defaultdict

from rushlight._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from rushlight.autograd.grad_mode import no_grad
from rushlight.core.tensor import Tensor
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.fx.node import Node, map_arg
from rushlight.operators.call import empty_strided
from rushlight.utils._pytree import tree_leaves


def values_of(args):
    """What steps give, as far as is known; constants as they are."""

    def value(node):
        found = node.meta.get("val", node.meta.get("example_value"))
        if found is None:
            raise ValueError(
                f"nothing is known of what {node} gives\n  remedy: "
                "FakeTensorProp(module).propagate(*inputs) before the pass"
            )
        return found

    return map_arg(list(args), value)


def _like(tensor):
    """A tensor that looks like another: one that is given twice is two."""
    sizes, strides = list(tensor.shape), list(tensor.stride())
    return empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)


def fwd_only(fn, args, *, run_functional_passes=True, get_decomp_fn=None):
    """The graph of a function's operators, without gradients.

    Args:
        fn: the function.
        args: its arguments, with elements or without.
        get_decomp_fn: gives what is recorded in place of operators.
    """
    modes = [
        one.fake_mode for one in tree_leaves(list(args)) if isinstance(one, FakeTensor)
    ]
    mode = modes[0] if modes else FakeTensorMode(allow_non_fake_inputs=True)
    table = get_decomp_fn() if get_decomp_fn is not None else None
    with no_grad(), mode:
        given = [_like(one) if isinstance(one, Tensor) else one for one in args]
        module = make_fx(fn, table)(*given)
    if run_functional_passes:
        module.graph.eliminate_dead_code()
        module.recompile()
    return module


def replace_with_graph(match, graph, replacement_graph, args):
    """Puts a graph in the place of a match's steps; the new steps.

    Args:
        match: the match.
        graph: the graph that it is in.
        replacement_graph: its inputs are ``args``, its results the match's.
        args: steps and constants.
    """
    inner = getattr(replacement_graph, "graph", replacement_graph)
    olds = match.output_nodes()
    first = min(one for one in olds if one is not None)
    given, made, results = iter(args), [], []
    known: dict = {}
    with graph.inserting_before(first):
        for node in inner.nodes:
            if node.op == "placeholder":
                known[node] = next(given)
            elif node.op == "output":
                results = [map_arg(one, known.get) for one in _listed(node.args[0])]
            else:
                known[node] = graph.node_copy(node, lambda one: known[one])
                made.append(known[node])
    if len(results) != len(olds):
        raise AssertionError(
            f"the replacement gives {len(results)} results, the pattern {len(olds)}"
        )
    for old, new in zip(olds, results, strict=True):
        if old is None:
            continue
        for key in ("stack_trace", "val", "tensor_meta"):
            if isinstance(new, Node) and key in old.meta:
                new.meta.setdefault(key, old.meta[key])
        old.replace_all_uses_with(new)
    match.erase_nodes()
    if any(isinstance(one, Node) and not one < made[0] for one in args if made):
        stable_topological_sort(graph)
    return made


def _listed(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def stable_topological_sort(graph):
    """Puts the steps of a graph behind what they need, else in the order that they had.

    Args:
        graph: the graph.
    """
    order, placed, waiting = [], set(), defaultdict(list)
    todo = list(reversed(list(graph.nodes)))
    while todo:
        node = todo.pop()
        missing = next((one for one in node.all_input_nodes if one not in placed), None)
        if missing is not None:
            waiting[missing].append(node)
            continue
        placed.add(node)
        order.append(node)
        todo += reversed(waiting.pop(node, []))
    if waiting:
        raise AssertionError("the graph goes in a circle")
    cursor = None
    for node in order:
        if cursor is not None and cursor.next is not node:
            cursor.append(node)
        cursor = node
