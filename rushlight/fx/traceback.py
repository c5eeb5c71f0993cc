"""Notes that steps recorded from now on get: where they come from, what they are for."""

from __future__ import annotations

import contextlib
import copy
import functools
import traceback
from typing import Any

__all__ = [
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "get_current_replay_node",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_current_replay_node",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]


class _State:
    """What is noted now."""

    def __init__(self):
        self.meta: dict[str, Any] = {}
        self.preserve = False
        self.replayed: Any = None


_state = _State()


@contextlib.contextmanager
def preserve_node_meta(enable=True):
    """A block in which recorded steps get the current notes.

    Args:
        enable: False for a block in which they do not.
    """
    before = _state.preserve, _state.meta
    _state.preserve, _state.meta = enable, before[1].copy()
    try:
        yield
    finally:
        _state.preserve, _state.meta = before


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
    _state.meta["custom"] = {**copy.copy(before or {}), **annotation_dict}
    try:
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


@contextlib.contextmanager
def set_current_meta(node, pass_name=""):
    """A block whose steps get a node's notes.

    Args:
        node: the node.
        pass_name: what the block does, kept as the step's origin.
    """
    if not (_state.preserve and node.meta):
        yield
        return
    before = _state.meta
    _state.meta = node.meta.copy()
    if pass_name:
        origin = (node.name, pass_name)
        _state.meta["from_node"] = [*_state.meta.get("from_node", ()), origin]
    try:
        yield
    finally:
        _state.meta = before


def get_current_meta():
    """The notes that recorded steps get."""
    return _state.meta


@contextlib.contextmanager
def set_current_replay_node(node):
    """A block in which a node is being run again."""
    before, _state.replayed = _state.replayed, node
    try:
        yield
    finally:
        _state.replayed = before


def get_current_replay_node():
    """The node that is being run again; None if none is."""
    return _state.replayed
