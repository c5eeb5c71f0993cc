"""Operators leave it to the dispatcher and to roles where a tensor lives."""

import ast
from pathlib import Path

from rushlight.backends import Backend
from tests.repo.trees import nodes

OPERATORS = Path(__file__).parents[2] / "rushlight" / "operators"
# Attributes that tell a device, or a tensor by its device, from others.
TELLING = {"on_host", "has_memory", "is_cuda", "is_cpu", "is_meta", "kind"}
MOST_METHODS = 15


def asks(node):
    """Whether an expression asks where something is."""
    if isinstance(node, ast.Compare):
        return any(
            isinstance(side, ast.Attribute)
            and side.attr == "type"
            and getattr(side.value, "attr", getattr(side.value, "id", "")) == "device"
            for side in (node.left, *node.comparators)
        )
    if not isinstance(node, ast.Attribute) or node.attr not in TELLING:
        return False
    return node.attr != "kind" or getattr(node.value, "attr", "") == "device"


def test_no_operator_asks_where_a_tensor_lives():
    found = {
        path.relative_to(OPERATORS).as_posix(): lines
        for path in sorted(OPERATORS.rglob("*.py"))
        if (lines := [node.lineno for node in nodes(path) if asks(node)])
    }
    assert not found, "a kernel for the key, a KernelTable, or a role of the device"


def test_questions_are_found():
    questions = ast.parse(
        "a.storage.device.on_host, x.is_meta, x.device.type == 'cpu', d.device.kind, "
        "kernel.kind, x.type == y.type"
    )
    assert sum(map(asks, ast.walk(questions))) == 4


def test_a_backend_has_no_more_methods():
    methods = [name for name in vars(Backend) if not name.startswith("_")]
    assert len(methods) <= MOST_METHODS, "a role of the backend, not a method"
