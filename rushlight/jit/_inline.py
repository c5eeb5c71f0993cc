"""Graphs with what they call put in its place, and the operators that programs use."""

from rushlight.jit import _types
from rushlight.jit._passes import replace, tidy
from rushlight.jit.ir import copy_nodes


def inlined(graph):
    """A copy of a graph in which calls of functions and methods are their programs."""
    made = graph.copy()
    _inline_block(made)
    tidy(made)
    return made


def callee(node):
    """The function that a node calls, or None."""
    if node.kind_ == "prim::CallFunction":
        return node.attributes["function"]
    if node.kind_ == "prim::CallMethod":
        kind = node.inputs_[0].type
        if isinstance(kind, _types.ClassType):
            return kind.methods.get(node.attributes["name"])
    return None


def _inline_block(block):
    at = 0
    while at < len(block.nodes_):
        node = block.nodes_[at]
        function = callee(node)
        if function is not None:
            _put(block, at, node, function)  # what stands here now is looked at next
            continue
        for inner in node.blocks_:
            _inline_block(inner)
        at += 1


def _put(block, at, node, function):
    """A call's nodes in the place of the call."""
    known = dict(zip(function.graph.params, node.inputs_))
    before, after = block.nodes_[:at], block.nodes_[at + 1 :]
    block.nodes_ = []
    copy_nodes(function.graph, block, known)
    made = block.nodes_
    replace(node.outputs_[0], known[function.graph.returns.inputs_[0]])
    for value in node.inputs_:
        value.uses.remove(node)
    block.nodes_ = [*before, *made, *after]


def operator_names(module):
    """The names of the operators that a module's methods call, sorted."""
    found: set = set()
    seen: set = set()
    for inner in module.modules():
        for method in inner._script_type.methods.values():
            _gather(method, found, seen)
    return sorted(found)


def _gather(function, found, seen):
    if function in seen:
        return
    seen.add(function)
    _of_block(function.graph, found, seen)


def _of_block(block, found, seen):
    for node in block.nodes_:
        if node.schema is not None:
            over = node.schema.overload_name
            found.add(f"{node.kind_}.{over}" if over else node.kind_)
        function = callee(node)
        if function is not None:
            _gather(function, found, seen)
        for inner in node.blocks_:
            _of_block(inner, found, seen)
