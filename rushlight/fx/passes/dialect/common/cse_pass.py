"""Computes once what a graph computes several times."""

from functools import cache

from rushlight import nn
from rushlight.core import naming
from rushlight.dispatch.declared import says
from rushlight.dispatch.dispatcher import every_operator
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.passes.infra.pass_base import PassBase, PassResult
from rushlight.utils._pytree import tree_flatten

_DRAWING = (nn.modules.dropout._DropoutNd, nn.RReLU, nn.RNNBase)


@cache
def get_CSE_banned_ops():
    """The names of functions that give something new at each call, or only look."""
    return {"_assert"} | {
        op._opname
        for op in every_operator()
        if says(op, "random") or says(op, "unset") or op.entry and not op.returns
    }


def writes(target):
    """Whether some form of an operator writes to its arguments, as their schemas say."""
    found = getattr(target, "overloads", None) or (target,)
    if callable(found):  # a packet of `torch.ops` names them
        found = [getattr(target, name) for name in found()]
    schemas = [getattr(one, "_schema", None) for one in found]
    return any(schema is not None and schema.is_mutable for schema in schemas)


def gives_the_same(module):
    """Whether a module of ours neither draws numbers nor keeps what it has met."""
    return all(
        naming.is_own(type(one).__module__)
        and not isinstance(one, _DRAWING)
        and not (one.training and one._buffers)
        for one in module.modules()
    )


class CSEPass(PassBase):
    """Gives later users the result of an equal, earlier step.

    Args:
        banned_ops: functions of which each call counts.

    >>> import rushlight as rl
    >>> from rushlight import fx
    >>> gm = fx.symbolic_trace(lambda x: rl.sin(x) + rl.sin(x))
    >>> print(*CSEPass()(gm).graph_module.graph.nodes)
    x sin add output
    """

    def __init__(self, banned_ops=None):
        super().__init__()
        self.banned_ops = banned_ops or set()

    def call(self, graph_module):
        """Makes a module of a graph without repetitions."""
        made = Graph()
        values: dict[Node, Node] = {}
        seen: dict = {}
        modified = False
        for node in graph_module.graph.nodes:
            key = self._key(graph_module, node, values)
            if key is not None and key in seen:
                values[node] = seen[key]
                modified = True
                continue
            copied = made.node_copy(node, values.__getitem__)
            values[node] = copied
            if key is not None:
                seen[key] = copied
        return PassResult(GraphModule(graph_module, made), modified)

    def _key(self, graph_module, node, values):
        """What equal steps have in common; None where a step must stay."""
        if node.op in ("placeholder", "output"):
            return None
        if node.op == "call_module":
            if not gives_the_same(graph_module.get_submodule(node.target)):
                return None
        elif node.op == "call_method":
            name = node.target
            inplace = name.endswith("_") and not name.endswith("__")
            if inplace or name in ("__setitem__", *get_CSE_banned_ops()):
                return None
        elif node.op == "call_function" and self._is_banned(node):
            return None
        leaves, spec = tree_flatten((node.args, dict(node.kwargs)))
        leaves = [values[leaf] if isinstance(leaf, Node) else leaf for leaf in leaves]
        try:
            kinds = tuple((type(leaf), leaf) for leaf in leaves)
            key = (node.op, node.target, kinds, str(spec))
            hash(key)
        except TypeError:
            return None
        return key

    def _is_banned(self, node):
        name = getattr(node.target, "__name__", "").partition(".")[0]
        if node.target in self.banned_ops or name in get_CSE_banned_ops():
            return True
        return node.is_impure() or writes(node.target)
