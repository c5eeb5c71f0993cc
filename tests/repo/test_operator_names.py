"""No property of an operator follows from how its name begins or ends, or what it contains.

Properties are declared: in an operator's entry (tags, schema, form). What is left are rules
of the language of schemas itself and names that make other names; the list only shrinks.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.repo.trees import nodes

ROOT = Path(__file__).parents[2] / "rushlight"
ROOMS = (
    "dispatch",
    "operators",
    "autograd",
    "graph",
    "export",
    "fx",
    "front/func",
    "front/_subclasses",
)
TESTS = ("startswith", "endswith")
# What names an operator: an attribute of one, or what was made of it.
NAMED = re.compile(
    r"\b(op|func|target|call\.op|step\.op|node\.target|overload)\."
    r"(name|_opname|base_name|full_name|__name__|entry\[NAME\])"
)
KNOWN: dict = {}  # file -> how many such lines are left in it


def lines_that_test_names(path):
    """The lines that look at part of an operator's name."""
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in TESTS and NAMED.search(ast.unparse(node.func.value)):
                yield node.lineno
        elif isinstance(node, ast.Compare) and isinstance(
            node.ops[0], (ast.In, ast.NotIn)
        ):
            right = node.comparators[0]
            if isinstance(right, ast.Attribute) and NAMED.search(ast.unparse(right)):
                yield node.lineno


@pytest.mark.parametrize("room", ROOMS)
def test_no_property_of_an_operator_is_guessed_from_its_name(room):
    found = {}
    for path in sorted((ROOT / room).rglob("*.py")):
        lines = list(lines_that_test_names(path))
        name = str(path.relative_to(ROOT))
        if len(lines) != KNOWN.get(name, 0):
            found[name] = lines
    assert not found, "declare it in the operator's entry"


def test_the_law_sees_such_a_test(tmp_path):
    path = tmp_path / "one.py"
    path.write_text(
        "def f(op, func):\n"
        "    a = op.name.startswith('_foreach_')\n"
        "    b = op.name.partition('.')[0].endswith('_')\n"
        "    c = any(word in op.name for word in ('div', 'index'))\n"
        "    return a, b, c, func.name\n"
    )
    assert sorted(lines_that_test_names(path)) == [2, 3, 4]
