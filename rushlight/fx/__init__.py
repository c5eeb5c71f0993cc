"""Programs as graphs: recorded, looked at, changed, and run again.

``symbolic_trace`` runs a program with stand-ins for its arguments and notes each step in a
``Graph``; a ``GraphModule`` writes the graph as Python, which runs.
"""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr
from rushlight.fx import _symbolic_trace as _tracing
from rushlight.fx import graph, immutable_collections, traceback
from rushlight.fx._symbolic_trace import Tracer, symbolic_trace, wrap
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter, Transformer
from rushlight.fx.node import Node, has_side_effect, map_arg
from rushlight.fx.proxy import Proxy
from rushlight.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

CodeGen = graph.CodeGen
PH = _tracing.PH
ProxyableClassMeta = _tracing.ProxyableClassMeta


__getattr__ = _lazy_getattr(__name__, ("config", "operator_schemas", "tensor_type"))
