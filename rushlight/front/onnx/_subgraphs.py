"""Control flow: functions that are arguments, as graphs inside of nodes."""

import rushlight as rl
from rushlight.onnx._graph import GraphBuilder, Value
from rushlight.onnx._model import graph_proto, value_info


def _body(translator, graph, module, values):
    """A function's steps on some values; its results."""
    nodes = [one for one in module.graph.nodes if one.op == "placeholder"]
    made = translator.steps(graph, module, dict(zip(nodes, values)))
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _as_results(graph, values):
    """Results under names of the graph's own."""
    graph.node = None
    found = []
    for one in values:
        if not isinstance(one, Value):
            kind = {bool: rl.bool, int: rl.int64, float: rl.float32}[type(one)]
            one = graph.const(one, kind)
        elif one.is_size:
            one = graph.scalar(one)
        found.append(graph.identity(one))
    return found


def _cond(translator, graph, args):
    pred, true_module, false_module, operands = args
    step, graphs = graph.node, []
    for name, module in (("then", true_module), ("else", false_module)):
        child = GraphBuilder(graph.opset, graph)
        made = _as_results(child, _body(translator, child, module, operands))
        results = made
        infos = [value_info(one) for one in made]
        graphs.append(graph_proto(child, f"{step.name}_{name}", [], infos))
    graph.node = step
    results = graph.op(
        "If", pred, then_branch=graphs[0], else_branch=graphs[1], outputs=len(results)
    )
    return results if isinstance(results, tuple) else (results,)


def _while_loop(translator, graph, args):
    cond_module, body_module, carried, extra = args
    carried, extra, step = list(carried), list(extra), graph.node
    (first,) = _body(translator, graph, cond_module, carried + extra)
    child = GraphBuilder(graph.opset, graph)
    given = [
        Value(child.names.fresh(f"{step.name}_{at}"), one.dtype, one.shape)
        for at, one in enumerate(carried)
    ]
    iteration = Value(child.names.fresh(f"{step.name}_turn"), rl.int64, ())
    before = Value(child.names.fresh(f"{step.name}_before"), rl.bool, ())
    made = _body(translator, child, body_module, given + extra)
    (again,) = _body(translator, child, cond_module, made + extra)
    results = _as_results(child, [again, *made])
    body = graph_proto(
        child,
        f"{step.name}_body",
        [value_info(one) for one in (iteration, before, *given)],
        [value_info(one) for one in results],
    )
    graph.node = step
    made = graph.op("Loop", None, first, *carried, body=body, outputs=len(carried))
    return made if isinstance(made, tuple) else (made,)


def _inlined(translator, graph, args):
    """A block with gradients on or off: its steps, as they are."""
    _, module, *operands = args
    step = graph.node
    made = _body(translator, graph, module, operands)
    graph.node = step
    return made


LOWERS = {
    "cond": _cond,
    "while_loop": _while_loop,
    "wrap_with_set_grad_enabled": _inlined,
}


def lower_subgraphs(target):
    """What writes an operator whose arguments are functions, or None."""
    name = getattr(target, "__name__", None)
    return LOWERS.get(name) if type(target).__name__ == "HigherOrderOperator" else None
