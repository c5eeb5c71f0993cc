"""Graphs as text, for logs and messages."""

__all__ = [
    "first_call_function_nn_module_stack",
    "get_node_context",
    "lazy_format_graph_code",
]


class _Lazy:
    """A text that is made where it is asked for."""

    def __init__(self, make):
        self.make = make

    def __str__(self):
        return self.make()


def lazy_format_graph_code(name, gm, maybe_id=None, **kwargs):
    """A module's code with a title, made where it is asked for.

    Args:
        name: the title.
        gm: the module.
        maybe_id: a number behind the title.
        kwargs: what ``print_readable`` takes.
    """
    title = name if maybe_id is None else f"{name} {maybe_id}"
    kwargs.setdefault("print_output", False)

    def text():
        where = gm.forward.__code__.co_filename
        code = gm.print_readable(**kwargs)
        return _format_graph_code(f"===== {title} =====\n", where, code)

    return _Lazy(text)


def _format_graph_code(name, filename, graph_str):
    return f"TRACED GRAPH\n {name} {filename} {graph_str}\n"


def first_call_function_nn_module_stack(graph):
    """Which modules the first step with that note was called in; None without one.

    Args:
        graph: a `Graph`.
    """
    for node in graph.nodes:
        if node.op == "call_function" and "nn_module_stack" in node.meta:
            return node.meta["nn_module_stack"]
    return None


def get_node_context(node, num_nodes=2):
    """A step and those before it, a line each.

    Args:
        node: the step.
        num_nodes: how many.

    >>> from rushlight import fx
    >>> graph = fx.symbolic_trace(lambda x: x + 1).graph
    >>> print(get_node_context(graph.output_node()))
    %add : [num_users=1] = call_function[target=operator.add](args = (%x, 1), kwargs = {})
    return add
    """
    lines = []
    for _ in range(num_nodes):
        lines.append(str(node.format_node()))
        if node.op == "root":
            break
        node = node.prev
    return "\n".join(reversed(lines))
