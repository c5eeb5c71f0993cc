"""Passes over a finished graph: what nothing needs, what is there twice, what is known."""

import numpy as np

import rushlight as rl
from rushlight.onnx._operands import names_in, renamed
from rushlight.onnx.errors import OnnxLoadError
from rushlight.onnx.importing import run_node

_MOST = 4096  # elements of a result that is worth being written down
_RANDOM = frozenset(
    ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike",
     "RandomUniform", "RandomUniformLike")
)  # fmt: skip


def without_dead_nodes(nodes, results):
    """The nodes that results need, in their order.

    Args:
        nodes: the messages of the nodes.
        results: the names of the results.
    """
    needed, kept = set(results), []
    for node in reversed(nodes):
        if any(one in needed for one in node.output):
            kept.append(node)
            needed.update(names_in(node))
    return kept[::-1]


def _key(node):
    attributes = sorted(
        one.SerializeToString(deterministic=True) for one in node.attribute
    )
    return (
        node.domain,
        node.op_type,
        tuple(node.input),
        tuple(attributes),
        len(node.output),
    )


def _merged(nodes, results):
    """One node for all that compute the same of the same; no names for names."""
    known: dict = {}
    names: dict = {}
    kept = []
    for node in nodes:
        renamed(node, names)
        free = not any(one in results for one in node.output)
        if node.op_type == "Identity" and free:
            names[node.output[0]] = node.input[0]
            continue
        if node.op_type in _RANDOM or not free:
            kept.append(node)
            continue
        first = known.setdefault(_key(node), node)
        if first is node:
            kept.append(node)
        else:
            names.update(zip(node.output, first.output))
    return kept


def _fold_constants(nodes, graph, results):
    """Nodes of known operands become constants, where those are small."""
    kept = []
    for node in nodes:
        known = [graph.constants.get(one) for one in node.input if one]
        names = set(node.output)
        if (
            node.domain
            or node.op_type in _RANDOM
            or len(known) != len(node.input)
            or not known
            or any(not isinstance(one, np.ndarray) for one in known)
            or names & results
            or any(one.HasField("g") for one in node.attribute)
        ):
            kept.append(node)
            continue
        try:
            made = run_node(
                node, [rl.from_numpy(one.copy()) for one in known], graph.opset
            )
        except (OnnxLoadError, RuntimeError, TypeError, ValueError):
            kept.append(node)
            continue
        if any(one.numel() > _MOST for one in made):
            kept.append(node)
            continue
        for name, one in zip(node.output, made):
            graph.constants[name] = one.contiguous().numpy()
    return kept


def optimized(graph, results):
    """The nodes of a graph that are left when all passes have run.

    Args:
        graph: a `GraphBuilder`; its constants grow.
        results: the names of the results.
    """
    results = set(results)
    nodes = without_dead_nodes(graph.nodes, results)
    for _ in range(2):
        nodes = _merged(_fold_constants(nodes, graph, results), results)
    return without_dead_nodes(nodes, results)
