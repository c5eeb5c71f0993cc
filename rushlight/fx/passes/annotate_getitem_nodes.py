"""Types of items, from the types of what they are taken from."""

import operator
import typing


def annotate_getitem_nodes(graph):
    """Notes the type of each step that takes an item of a typed tuple, list or dict."""
    for node in graph.nodes:
        if node.target is not operator.getitem:
            continue
        sequence, index = node.args
        kind = sequence.type
        if kind is None or not isinstance(index, int):
            continue
        inner = typing.get_args(kind)
        if typing.get_origin(kind) is tuple and inner:
            variable = len(inner) == 2 and inner[1] is ...
            node.type = inner[0] if variable else inner[index]
        elif typing.get_origin(kind) is list and inner:
            node.type = inner[0]
        elif hasattr(kind, "_fields"):
            name = kind._fields[index]
            node.type = typing.get_type_hints(kind).get(name)
