"""Functions and methods that are declared with several signatures.

A declaration is decorated with ``_overload`` or ``_overload_method``; the last definition
of the name, undecorated, is the program of them all. Each signature is translated for
itself, as ``name__0``, ``name__1`` and so on, and a call takes the first that fits.
"""

from __future__ import annotations

import ast
import copy
import functools
import re

from rushlight.jit._sources import Source

_NUMBERED = re.compile(r"(.+)__(\d+)")


class _Declared:
    """The signatures of a name, in order."""

    def __init__(self):
        self.functions = []
        self.is_used = False  # what is declared from then on replaces them


_DECLARED: dict = {}


def _key(function):
    return function.__module__, function.__qualname__


def declare(function):
    """Keeps one of the signatures of a name."""
    declared = _DECLARED.setdefault(_key(function), _Declared())
    if declared.is_used:
        declared = _DECLARED[_key(function)] = _Declared()
    declared.functions.append(function)
    return function


def signatures_of(function):
    """The declarations of a function's name; empty where there is one signature."""
    if not hasattr(function, "__qualname__"):
        return []
    declared = _DECLARED.get(_key(function))
    if declared is None:
        return []
    declared.is_used = True
    return declared.functions


def split(name):
    """A numbered name without its number, and the number; None for others.

    >>> split("forward__1"), split("forward")
    (('forward', 1), None)
    """
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2])) if found else None


def stem(name):
    """A name without its number."""
    found = split(name)
    return found[0] if found else name


def numbered(names, name):
    """Those of some names that stand for one, in order; the name itself first.

    >>> numbered(["forward__1", "other__0", "forward__0"], "forward")
    ('forward__0', 'forward__1')
    """
    return _numbered(tuple(names), name)


@functools.lru_cache(4096)  # asked at each call of a translated module
def _numbered(names, name):
    found = [split(each) for each in names]
    numbers = sorted(each[1] for each in found if each and each[0] == name)
    plain = (name,) if numbers and name in names else ()
    return *plain, *(f"{name}__{number}" for number in numbers)


def with_signature(tree, declaration):
    """The program of a definition under the signature of a declaration.

    Args:
        tree: the definition's tree.
        declaration: the decorated function.
    """
    source = Source.of(declaration)
    (declared,) = [
        node for node in source.parse().body if isinstance(node, ast.FunctionDef)
    ]
    made = copy.copy(tree)
    made.args = copy.copy(tree.args)
    kinds = {argument.arg: argument.annotation for argument in _arguments(declared)}
    for word in ("posonlyargs", "args", "kwonlyargs"):
        rows = [_annotated(row, kinds) for row in getattr(tree.args, word)]
        setattr(made.args, word, rows)
    made.returns = declared.returns or tree.returns
    return made


def _arguments(tree):
    return [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]


def _annotated(argument, kinds):
    made = copy.copy(argument)
    made.annotation = kinds.get(argument.arg) or argument.annotation
    return made
