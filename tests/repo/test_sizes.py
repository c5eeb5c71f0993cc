"""Files and functions stay small enough to be one idea each, and rooms in their budget."""

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.repo.ratchet import hold
from tests.repo.trees import nodes
from tools.rooms import lines_of, map_of, read

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in ("rushlight", "opgen", "benchmarks", "tools", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if "_generated" not in path.parts
)
LINES_OF_A_FILE, LINES_OF_A_FUNCTION, NESTING, PARAMETERS = 600, 60, 4, 10
BLOCKS = ast.For | ast.While | ast.If | ast.With | ast.Try | ast.Match
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_file_has_at_most_a_thousand_lines(path):
    assert len(path.read_text().splitlines()) <= 1000


@cache
def functions():
    """Every function with its file."""
    return [
        (str(path.relative_to(ROOT)), node)
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, FUNCTIONS)
    ]


def _statements(node):
    """Statements that stand in a statement, and which of them is an ``elif``."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, field, None) or ()
        chained = field == "orelse" and isinstance(node, ast.If) and len(inner) == 1
        for child in inner:
            yield child, chained and isinstance(child, ast.If)


def depth(node):
    """How many blocks stand inside one another in a function; ``elif`` adds none."""
    deepest = 0
    for child, is_elif in _statements(node):
        if not isinstance(child, FUNCTIONS | ast.ClassDef):
            inner = isinstance(child, BLOCKS) and not is_elif
            deepest = max(deepest, depth(child) + inner)
    return deepest


def counts(wrong):
    """File -> functions of it for which ``wrong`` holds."""
    found = {}
    for path, node in functions():
        if wrong(node):
            found[path] = found.get(path, 0) + 1
    return found


def parameters(node):
    """How many there are, but for the range that a kernel's launch hands it."""
    names = [a.arg for a in node.args.posonlyargs + node.args.args]
    count = len(names) + len(node.args.kwonlyargs)
    return count - 2 * (names[-2:] == ["begin", "end"])


def test_no_more_files_are_long():
    found = {}
    for path in SOURCES:
        lines = len(path.read_text().splitlines())
        if lines > LINES_OF_A_FILE:
            found[str(path.relative_to(ROOT))] = 1
    hold("long_files", found, "divide the file by ideas: 600 lines at most")


def test_no_more_functions_are_long():
    found = counts(lambda n: n.end_lineno - n.lineno + 1 > LINES_OF_A_FUNCTION)
    hold("long_functions", found, "name the function's parts: 60 lines at most")


def test_no_more_functions_are_deep():
    found = counts(lambda n: depth(n) > NESTING)
    hold("deep_functions", found, "return early or name the inner block: 4 at most")


def test_no_more_functions_have_many_parameters():
    found = counts(lambda n: parameters(n) > PARAMETERS)
    remedy = "hand in what belongs together as one value: 10 parameters at most"
    hold("many_parameters", found, remedy)


def test_rooms_keep_their_budgets():
    for name, room in read().items():
        lines = lines_of(room["path"])
        assert lines <= room["most"], (
            f"{name} has {lines} lines, and {room['most']} at most\n"
            "  remedy: write less, or take something out; the budget is in docs/rooms.toml"
        )


def test_every_room_has_a_sign():
    for name, room in read().items():
        sign = ROOT / room["path"] / "README.md"
        assert sign.exists(), f"{name} has no README.md"
        text = sign.read_text()
        assert len(text.splitlines()) <= 16
        for part in ("**Imports**", "**Start**", "**Traps**"):
            assert part in text, f"{sign}: no {part}"


def test_the_root_has_few_entries():
    found = [
        path.name
        for path in (ROOT / "rushlight").iterdir()
        if path.suffix == ".py" or any(path.rglob("*.py"))
    ]
    assert len(found) <= 25, (
        f"entries of the package's root: {sorted(found)}\n"
        "  remedy: a public module goes to front/, a mirror to torch_compat/mirrors/"
    )


def test_the_map_is_what_the_budgets_say():
    assert map_of(read()) in (ROOT / "README.md").read_text(), (
        "the README's map is old\n  remedy: python -m tools.rooms"
    )
    assert tomllib.loads((ROOT / "docs/rooms.toml").read_text())
