"""What the steps of exported programs call, by PyTorch's names."""

import re

from rushlight.dispatch.dispatcher import Operator
from rushlight.export import _names

# Numbers that a program writes down are detached by a step of its own there, and checks
# of what is known here are steps.
LEFT_OUT = ("detach_.default", "_assert_tensor_metadata.default")

_FUNCTION = re.compile(r"<function (\w+) at 0x\w+>")


def their_steps(graph):
    """What the steps of a graph of PyTorch's call."""
    return [
        _FUNCTION.sub(r"torch.\1", str(node.target))
        .replace("<built-in function ", "_operator.")
        .rstrip(">")
        .removeprefix("aten.")
        for node in graph.nodes
        if node.op == "call_function" and not str(node.target).endswith(LEFT_OUT)
    ]


def our_steps(graph):
    """What the steps of a graph call: by the names they show, which are those of files."""
    return [_shown(node) for node in graph.nodes if node.op == "call_function"]


def _shown(node):
    filed = _names.name_of(node).removeprefix("torch.ops.")
    if isinstance(node.target, Operator):
        assert str(node.target) == filed, node.format_node()
    return filed.removeprefix("aten.").removeprefix("higher_order.")
