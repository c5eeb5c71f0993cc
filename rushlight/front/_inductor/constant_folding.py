"""Steps of a graph whose operands are all attributes: computed once."""

from rushlight.autograd.grad_mode import no_grad
from rushlight.fx.graph_module import _get_attr
from rushlight.fx.node import map_arg

__all__ = ["constant_fold"]


def _stays(node):
    """Whether a step is computed at each call: layers of integers begin with such ones."""
    return node.is_impure() or str(node.target).startswith(
        "quantized_decomposed.dequantize"
    )


def constant_fold(gm, constraint_fn=None):
    """Puts a constant in the place of each step that only attributes lead to.

    Args:
        gm: the `GraphModule`, which is changed.
        constraint_fn: whether a step may be replaced; by default any may.

    >>> import rushlight as rl
    >>> from rushlight.fx import symbolic_trace
    >>> class Scaled(rl.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = rl.nn.Parameter(rl.ones(2))
    ...     def forward(self, x):
    ...         return x + (self.weight * 3).exp()
    >>> graph = symbolic_trace(Scaled())
    >>> constant_fold(graph)
    >>> [node.name for node in graph.graph.nodes]
    ['x', '_frozen_param0', 'add', 'output']
    """
    graph, known = gm.graph, {}
    for node in graph.nodes:
        operands = node.all_input_nodes
        if node.op == "get_attr":
            known[node] = _get_attr(gm, node.target)
        elif operands and all(one in known for one in operands) and not _stays(node):
            args, kwargs = map_arg((node.args, node.kwargs), known.__getitem__)
            call = getattr(args[0], node.target) if node.op == "call_method" else None
            with no_grad():
                known[node] = (
                    call(*args[1:], **kwargs) if call else node.target(*args, **kwargs)
                )
    count = 0
    for node, value in known.items():
        needed = node.op != "get_attr" and any(user not in known for user in node.users)
        if not needed or constraint_fn is not None and not constraint_fn(node):
            continue
        while hasattr(gm, f"_frozen_param{count}"):
            count += 1
        gm.register_buffer(f"_frozen_param{count}", value)
        with graph.inserting_before(node):
            constant = graph.get_attr(f"_frozen_param{count}")
        constant.meta.update(node.meta)
        node.replace_all_uses_with(constant)
    graph.eliminate_dead_code()
    graph.lint()
    gm.recompile()
