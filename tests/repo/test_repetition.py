"""Statements stand in one place: no six lines of a body are written again."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

from tests.repo.ratchet import hold
from tests.repo.trees import nodes

PACKAGE = Path(__file__).parents[2] / "rushlight"
LINES = 6
# Signatures and what they document are each function's own, as PyTorch's are; imports
# and declarations of types compute nothing.
COUNTS = re.compile(r"\w\w")


def _span(first, last):
    return range(first.lineno, last.end_lineno + 1)


def _passed_over(path):
    """Numbers of the lines that no statement of a body is on."""
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                yield from _span(decorator, decorator)
            yield from range(node.lineno, node.body[0].lineno)
        elif isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node):
            yield from _span(node, node)
        elif isinstance(node, ast.AnnAssign) and node.value is None:
            yield from _span(node, node)
        elif isinstance(node, ast.Assign) and _names_exports(node):
            yield from _span(node, node)


def _is_text(node):
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _names_exports(node):
    return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"


def statements(path):
    """Numbered lines of a file's bodies, without comments and white space."""
    skipped = set(_passed_over(path))
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = " ".join(line.split("  # ")[0].split())
        if number not in skipped and COUNTS.search(text) and not text.startswith("#"):
            found.append((number, text))
    return found


def repeated(paths):
    """Pairs of files, or one file twice: how many runs of lines they share."""
    places = defaultdict(list)
    for path in paths:
        lines = statements(path)
        for at in range(len(lines) - LINES + 1):
            run = lines[at : at + LINES]
            if run[-1][0] - run[0][0] < 3 * LINES:
                places[tuple(text for _, text in run)].append((path, at))
    shared = defaultdict(set)
    for found in places.values():
        for i, (path, at) in enumerate(found):
            for other, place in found[i + 1 :]:
                shared[path, other].add((at, place))
    return {
        pair: sum((a - 1, b - 1) not in runs for a, b in runs)
        for pair, runs in shared.items()
    }


def test_no_six_lines_are_written_again():
    paths = [p for p in sorted(PACKAGE.rglob("*.py")) if "_generated" not in p.parts]
    counted = Counter()
    for pair, runs in repeated(paths).items():
        names = [path.relative_to(PACKAGE).as_posix() for path in pair]
        counted[" ~ ".join(dict.fromkeys(names))] += runs
    hold("repeated_runs", counted, "one definition that both places use")


def test_repeated_lines_are_found(tmp_path):
    body = "\n".join(f"    value_{i} = {i}" for i in range(7))
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(f'def first(argument):\n    """A."""\n{body}\n')
    two.write_text(f"def second(\n    argument,\n):\n{body}\n    return value_0\n")
    assert repeated([one, two]) == {(one, two): 1}
    two.write_text("def second():\n" + body.replace("value_3", "other") + "\n")
    assert not repeated([one, two])
