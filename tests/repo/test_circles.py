"""No module needs another that needs it, not even later, in a function."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "rushlight/ops",
    "rushlight/codegen",
    "rushlight/nn/modules",
    "rushlight/autograd",
)
# What is left, and why. The list may only become shorter.
KNOWN = {
    # values print, read and measure themselves by what is written over them
    frozenset(("expr", "emit.python", "emit.reference")),
    frozenset(("loops", "loops_reader", "loops_reference")),
    frozenset(("complexes", "complex_functions")),
    # a `Function` is recorded by a level, which makes Functions
    frozenset(("function", "levels.custom")),
}


def modules_of(package):
    """Names within the package, and their files."""
    folder = ROOT / package
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[-1] != "__init__":
            found[".".join(parts)] = path
    return found


def needed(package, modules, path, everywhere):
    """Modules of the package that a file imports: at its top, or ``everywhere`` in it."""
    prefix = package.replace("/", ".")
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree) if everywhere else tree.body:
        names = []
        if isinstance(node, ast.ImportFrom) and not node.level:
            home = node.module or ""
            names = [home, *(f"{home}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith(prefix + ".") and name[len(prefix) + 1 :] in modules:
                yield name[len(prefix) + 1 :]


def circles(graph):
    """Sets of modules that all need each other, by Tarjan's algorithm (1972)."""
    number, lowest, path, found = {}, {}, [], []

    def visit(module):
        number[module] = lowest[module] = len(number)
        path.append(module)
        for other in graph[module]:
            if other not in number:
                visit(other)
            if other in path:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            at = path.index(module)
            if len(path) - at > 1:
                found.append(frozenset(path[at:]))
            del path[at:]

    for module in graph:
        if module not in number:
            visit(module)
    return set(found)


def circles_of(package, everywhere):
    modules = modules_of(package)
    return circles(
        {
            name: {other for other in needed(package, modules, path, everywhere)}
            - {name}
            for name, path in modules.items()
        }
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_need_each_other_one_way_only(package):
    assert not circles_of(package, everywhere=False)
    assert circles_of(package, everywhere=True) <= KNOWN


def test_the_list_of_what_is_left_names_nothing_else():
    found = set().union(*(circles_of(p, everywhere=True) for p in PACKAGES))
    assert found == KNOWN


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "e"}}
    assert circles(graph) == {frozenset("bc")}
