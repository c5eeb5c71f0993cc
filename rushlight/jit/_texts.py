"""Programs given as text: the names that they see, and methods added to modules."""

import ast
import builtins
import math
import textwrap
import typing

import rushlight as torch
from rushlight.jit._modules import UNIT, settle_result
from rushlight.jit._names import PythonNames
from rushlight.jit._sources import Source


def text_names(unit):
    """The names that a program given as text sees."""
    scope = {**vars(typing), "torch": torch, "Tensor": torch.Tensor, "math": math}
    scope |= {"annotate": torch.jit.annotate, "F": torch.nn.functional}
    return PythonNames([scope, vars(builtins)], unit)


def define_methods(module, text):
    """Adds methods to a translated module."""
    source = Source(textwrap.dedent(text))
    kind = module._script_type
    names = text_names(UNIT)
    for node in source.parse().body:
        if isinstance(node, ast.FunctionDef):
            full = f"{kind.name}.{node.name}"
            kind.methods[node.name] = UNIT.define(node, source, names, full, kind)
    for method in list(kind.methods.values()):
        settle_result(method)
