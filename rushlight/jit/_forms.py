"""Forms of the package's own modules and functions, as programs that can be translated.

Modules and functions are programs as they are written. Where their sources are Python that
programs do not have (sizes that are one number or several, results of two kinds), what a
translated program does in their place is written in the files of ``forms``, in the language
of programs: a class for a module, a function for one of ``nn.functional``. Those files are
read here and never imported. What differs in the rank alone is written once: ``ConvNd`` is the
form of ``Conv1d``, ``Conv2d`` and ``Conv3d``, with ``N`` for the number.
"""

import ast
import builtins
import functools
import math
import re
import typing
import warnings
from pathlib import Path

import rushlight as torch
from rushlight.core import naming
from rushlight.jit import annotations
from rushlight.jit._names import PythonNames
from rushlight.jit._sources import Source

_FOLDER = Path(__file__).parent / "forms"
_RANK = re.compile(r"Nd(?=\b|_)|\bN\b|(?<=BroadcastingList)N\b")


def _texts(path):
    """A file as it is written, and then with each rank for ``N`` below its imports."""
    text = path.read_text()
    yield text
    head, *forms = re.split(r"(?<=\n\n\n)", text, maxsplit=1)
    if "Nd" in text:
        for rank in "123":
            yield head + _RANK.sub(lambda n, rank=rank: n[0].replace("N", rank), *forms)


@functools.cache
def _definitions(kind, home=""):
    """The forms of a kind by name, each with the source that it stands in.

    Args:
        home: the package whose modules a file says that it stands for.
    """
    found = {}
    for path in sorted(_FOLDER.glob("*.py")):
        for text in _texts(path):
            if home != "".join(_HOME.findall(text)):
                continue
            source = Source(text, str(path))
            for node in source.parse().body:
                if isinstance(node, kind):
                    found.setdefault(node.name, (source, node))
    return found


_HOME = re.compile(r'^HOME = "(.*)"$', re.MULTILINE)


@functools.cache
def _homes():
    found = {
        home
        for path in _FOLDER.glob("*.py")
        for home in _HOME.findall(path.read_text())
    }
    return sorted(found, key=len, reverse=True)


def _home_of(python):
    """The package of a class that has forms of its own, or none."""
    return next((h for h in _homes() if python.__module__.startswith(h)), "")


def _classes(home=""):
    return _definitions(ast.ClassDef, home)


def _functions():
    return _definitions(ast.FunctionDef)


class _Form:
    """A function that only other forms call."""

    def __init__(self, name):
        self.__name__ = name
        self.__module__ = "rushlight.nn.functional"

    def __eq__(self, other):
        return isinstance(other, _Form) and self.__name__ == other.__name__

    def __hash__(self):
        return hash(self.__name__)


def _names(unit):
    scope = {**vars(typing), "torch": torch, "math": math, "Tensor": torch.Tensor}
    scope["F"] = torch.nn.functional
    scope["PackedSequence"] = torch.nn.utils.rnn.PackedSequence
    scope["annotate"] = torch.jit.annotate
    scope["warnings"] = warnings
    scope.update(vars(annotations))
    scope.update({name: _Form(name) for name in _functions() if name.startswith("_")})

    return PythonNames([scope, vars(builtins)], unit)


def method_form(python, name):
    """Source, tree and names of a module's method; None where it is its own program.

    Args:
        python: the class; its bases are asked in order.
        name: the method's name.
    """
    for base in python.__mro__:
        if not naming.is_own(base.__module__):
            continue
        home = _home_of(base)
        classes = _classes(home)
        if base.__name__ not in classes:
            if name in vars(base):
                return None
            continue
        source, tree = classes[base.__name__]
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return source, node, _names
    return None


def function_form(python):
    """Source, tree and names of a function's form, or None."""
    name = getattr(python, "__name__", None)
    found = _functions().get(name)
    if found is None:
        return None
    homes = (torch.nn.functional, torch.nn.utils.rnn)
    public = any(getattr(home, name, None) is python for home in homes)
    if not public and not isinstance(python, _Form):
        return None
    return *found, _names


def overloads_of(python, name):
    """The methods that stand for one: itself, and ``name__1`` for other operands."""
    names = [name, f"{name}__1"]
    return names if method_form(python, names[1]) is not None else []
