"""Sources parsed once for all tests that look at them."""

import ast
import gc
from contextlib import contextmanager
from functools import cache


@contextmanager
def _uncollected():
    """Trees are millions of objects, none of them garbage: the collector looks away."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@cache
def tree(path):
    """A file's syntax tree; nobody changes it."""
    with _uncollected():
        return ast.parse(path.read_text())


@cache
def nodes(path):
    """All nodes of a file's tree."""
    with _uncollected():
        found = [tree(path)]
        for node in found:  # grows: twice as quick as `ast.walk`
            for field in node._fields:
                value = getattr(node, field, None)
                if isinstance(value, list):
                    found += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST):
                    found.append(value)
        return tuple(found)
