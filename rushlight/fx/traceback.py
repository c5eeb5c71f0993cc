"""Notes that steps recorded from now on get: where they come from, what they are for."""

import contextlib
import copy
import functools
import traceback
from enum import Enum
from typing import Any

from rushlight.core.state import AttributeScope

__all__ = [
    "NodeSource",
    "NodeSourceAction",
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "get_current_replay_node",
    "get_graph_provenance_json",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_current_replay_node",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]


class NodeSourceAction(Enum):
    """What a pass did to have a step."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """Where a step comes from: one of the entries of its ``from_node``.

    Args:
        node: the step that it was made of; None for none.
        pass_name: who made it.
        action: a `NodeSourceAction`, or a list of them.

    >>> NodeSource(None, "fold", NodeSourceAction.CREATE)
    (name=, pass_name=fold, action=create, graph_id=-1)
    <BLANKLINE>
    """

    class NodeInfo:
        """What is kept of a step."""

        def __init__(self, name, target, graph_id):
            self.name, self.target, self.graph_id = name, target, graph_id

    def __init__(self, node, pass_name="", action=None):
        self.pass_name = pass_name
        action = [] if action is None else action
        self.action = action if isinstance(action, list) else [action]
        for one in self.action:
            if not isinstance(one, NodeSourceAction):
                raise AssertionError(f"Expected NodeSourceAction, got {type(one)}")
        self.node_info, self.from_node = None, []
        if node:
            self.node_info = self.NodeInfo(node.name, str(node.target), id(node.graph))
            self.from_node = copy.deepcopy(node.meta.get("from_node", []))

    name = property(lambda self: self.node_info.name if self.node_info else "")
    target = property(lambda self: self.node_info.target if self.node_info else "")
    graph_id = property(lambda self: self.node_info.graph_id if self.node_info else -1)

    def _get_action_string(self):
        return "+".join(one.name.lower() for one in self.action)

    def print_readable(self, indent=0):
        """The entry, and those that it comes from, ten deep at most, as lines.

        Args:
            indent: how deep it is itself.
        """
        if indent > 9:
            return ""
        row = (
            f"{'    ' * indent}(name={self.name}, pass_name={self.pass_name}, "
            f"action={self._get_action_string()}, graph_id={self.graph_id})\n"
        )
        return row + "".join(one.print_readable(indent + 1) for one in self.from_node)

    __repr__ = print_readable

    def to_dict(self):
        """The same as a dict of texts and numbers."""
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
            "from_node": [one.to_dict() for one in self.from_node],
        }

    def __eq__(self, other):
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self):
        return hash(repr(self.to_dict()))

    @classmethod
    def _from_dict(cls, d):
        """What ``to_dict`` was called of."""
        if d is None:
            return None
        if not isinstance(d, dict):
            raise AssertionError(f"Expected a dict, got {type(d)}")
        actions = NodeSourceAction.__members__
        named = [one.upper() for one in d.get("action", "").split("+")]
        made = cls(
            None, d.get("pass_name", ""), [actions[n] for n in named if n in actions]
        )
        if {"name", "target", "graph_id"} <= d.keys():
            made.node_info = cls.NodeInfo(d["name"], d["target"], d["graph_id"])
        made.from_node = [cls._from_dict(one) for one in d.get("from_node") or []]
        return made


def get_graph_provenance_json(graph):
    """Where the steps of a graph that call come from: lists of dicts, by their names.

    Args:
        graph: a `Graph`.
    """
    return {
        node.name: [
            one.to_dict() if isinstance(one, NodeSource) else one
            for one in node.meta.get("from_node", [])
        ]
        for node in graph.nodes
        if node.op == "call_function"
    }


class _State:
    """What is noted now."""

    def __init__(self):
        self.meta: dict[str, Any] = {}
        self.preserve = False
        self.replayed: Any = None


_state = _State()


def preserve_node_meta(enable=True):
    """A block in which recorded steps get the current notes.

    Args:
        enable: False for a block in which they do not.
    """
    return AttributeScope(_state, preserve=enable, meta=_state.meta.copy())


def has_preserved_node_meta():
    """Whether recorded steps get the current notes."""
    return _state.preserve


def set_stack_trace(stack):
    """Notes where the program is, for the steps recorded from now on."""
    if _state.preserve and stack:
        _state.meta["stack_trace"] = "".join(stack)


@contextlib.contextmanager
def annotate(annotation_dict):
    """A block whose steps get the given notes, under ``custom``.

    Args:
        annotation_dict: the notes; those of blocks around are kept.

    Raises:
        TypeError: they are no dict.
    """
    if not isinstance(annotation_dict, dict):
        raise TypeError(
            "The argument of annotate must be a dict, but got "
            f"{type(annotation_dict).__name__}"
        )
    had, before = "custom" in _state.meta, _state.meta.get("custom")
    try:
        _state.meta["custom"] = {**(before or {}), **annotation_dict}
        yield
    finally:
        if had:
            _state.meta["custom"] = before
        else:
            _state.meta.pop("custom", None)


def annotate_fn(annotation_dict):
    """A decorator: the steps of the function get the given notes."""

    def mark(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return call

    return mark


def set_grad_fn_seq_nr(seq_nr):
    """Notes which node of the autograd graph is being recorded."""
    if _state.preserve:
        before = _state.meta.get("grad_fn_seq_nr", [])
        _state.meta["grad_fn_seq_nr"] = [*before, seq_nr]
        _state.meta["in_grad_fn"] = _state.meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr():
    """Ends what ``set_grad_fn_seq_nr`` began."""
    if not _state.preserve:
        return
    depth = _state.meta.get("in_grad_fn", 0) - 1
    if depth <= 0:
        _state.meta.pop("in_grad_fn", None)
        _state.meta.pop("grad_fn_seq_nr", None)
    else:
        _state.meta["in_grad_fn"] = depth
        _state.meta["grad_fn_seq_nr"] = _state.meta["grad_fn_seq_nr"][:-1]


def format_stack():
    """Where the program is: what was noted, or else the frames, as lines."""
    if _state.preserve:
        return [_state.meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


def set_current_meta(node, pass_name=""):
    """A block whose steps get a node's notes.

    Args:
        node: the node.
        pass_name: what the block does, kept as the step's origin.
    """
    if not (_state.preserve and node.meta):
        return contextlib.nullcontext()
    source = NodeSource(node, pass_name, NodeSourceAction.CREATE)
    return AttributeScope(_state, meta={**node.meta, "from_node": [source]})


def get_current_meta():
    """The notes that recorded steps get."""
    return _state.meta


def set_current_replay_node(node):
    """A block in which a node is being run again."""
    return AttributeScope(_state, replayed=node)


def get_current_replay_node():
    """The node that is being run again; None if none is."""
    return _state.replayed
