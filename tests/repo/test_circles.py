"""No module needs another that needs it, not even later, in a function."""

from tests.repo.floors import arrows
from tests.repo.imports import sources
from tests.repo.test_layers import EXCEPTIONS


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


def circles_of(pairs):
    graph = {module: set() for module in sources()}
    for importer, imported in pairs:
        graph[importer].add(imported)
    return circles(graph)


def test_modules_need_each_other_one_way_only():
    found = circles_of(arrows() - EXCEPTIONS.keys())
    assert not found, (
        f"circles of modules that import each other: {[sorted(c) for c in found]}\n"
        "  remedy: move what both need into a module below them, or hand it in"
    )


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "e"}}
    assert circles(graph) == {frozenset("bc")}
