"""Which operator a function of Python is: ``torch.relu``, ``math.sqrt``, ``F.conv2d``."""

import functools
import math
import warnings

import rushlight as torch
from rushlight.jit import _schemas

_SPACES = (("linalg", "linalg_"), ("special", "special_"), ("fft", "fft_"))
# Functions that are operators under another name, or whose overloads the table has.
_NAMED = (
    ("tensor", "aten::tensor"),
    ("as_tensor", "aten::as_tensor"),
    ("device", "aten::device"),
    ("numel", "aten::numel"),
    ("is_floating_point", "aten::is_floating_point"),
    ("is_complex", "aten::is_complex"),
    ("is_grad_enabled", "aten::is_grad_enabled"),
    ("get_num_threads", "aten::get_num_threads"),
    ("manual_seed", "aten::manual_seed"),
    ("broadcast_tensors", "aten::broadcast_tensors"),
    ("embedding_bag", "aten::embedding_bag"),
    ("meshgrid", "aten::meshgrid"),
    ("wait", "aten::wait"),
    ("_unwrap_optional", "aten::_unwrap_optional"),
)


def _is_operator(name):
    return bool(_schemas.overloads(f"aten::{name}"))


def _of_space(space, prefix, found):
    for name in dir(space):
        python = getattr(space, name, None)
        if callable(python) and not isinstance(python, type) and _has(prefix + name):
            found.setdefault(id(python), (python, f"aten::{prefix}{name}"))


@functools.cache
def _registered():
    return frozenset(dir(torch.ops.aten))


def _has(name):
    return name in _registered() and not name.startswith("__")


@functools.cache
def _table():
    found: dict = {}
    for name, operator in _NAMED:
        space = torch if hasattr(torch, name) else torch.jit
        python = getattr(space, name)
        found[id(python)] = (python, operator)
    found[id(warnings.warn)] = (warnings.warn, "aten::warn")
    for name in dir(math):
        python = getattr(math, name)
        if callable(python) and _is_operator(name):
            found[id(python)] = (python, f"aten::{name}")
    _of_space(torch, "", found)
    for space, prefix in _SPACES:
        _of_space(getattr(torch, space), prefix, found)
    return found


def operator_of(python):
    """The name of the operator that a function is, or None."""
    known = _table().get(id(python))
    if known is not None and known[0] is python:
        return known[1]
    packet = getattr(python, "overloadpacket", python)
    if type(packet).__name__ == "OperatorPacket":
        return str(packet._qualified_op_name)
    return None
