"""``script`` of anything, and programs given as text."""

import ast
import inspect
import textwrap
import warnings

import rushlight as torch
from rushlight.jit._callables import ScriptFunction
from rushlight.jit._modules import UNIT, Modules, settle_result
from rushlight.jit._script_modules import ScriptModule, script_module
from rushlight.jit._sources import Source, Untranslatable
from rushlight.jit._texts import text_names
from rushlight.nn import Module


def script(obj):
    """Translates a function, class or module; see :func:`rushlight.jit.script`."""
    if isinstance(obj, (ScriptFunction, ScriptModule)):
        return obj
    try:
        return _script(obj)
    except Untranslatable as reason:
        warnings.warn(
            f"torch.jit.script: {getattr(obj, '__qualname__', type(obj).__qualname__)} stays "
            f"Python, {reason} is not translated yet",
            stacklevel=3,
        )
        return obj


def _script(obj):
    if isinstance(obj, Module):
        return script_module(obj)
    if inspect.isclass(obj):
        return script_class(obj)
    if isinstance(obj, (dict, list)):
        return obj
    if inspect.isfunction(obj) or hasattr(obj, "__wrapped__"):
        function = UNIT.script_function(obj)
        settle_result(function)
        return ScriptFunction(function, obj)
    if inspect.ismethod(obj):
        raise RuntimeError(
            "torch.jit.script: methods are translated with their module; mark the method "
            "with @torch.jit.export and script the module"
        )
    if callable(obj) and not inspect.isbuiltin(obj):
        UNIT.script_class(type(obj))
        return obj
    raise TypeError(f"{type(obj)} is a built-in class")


def script_class(python):
    """Translates a class; it is used as before."""
    if issubclass(python, Module):
        raise RuntimeError(
            f"Type '{python}' cannot be compiled since it inherits from nn.Module, consider "
            "passing an instance instead"
        )
    if getattr(python, "_torch_script_interface", False):
        UNIT.interface(python, False)
    elif issubclass(python, tuple) and hasattr(python, "_fields"):
        UNIT.named_tuple(python, None)
    elif issubclass(python, torch.Tensor):
        raise RuntimeError("torch.jit.script: classes of tensors are not translated")
    else:
        UNIT.script_class(python)
    return python


class CompilationUnit:
    """Functions translated from their text.

    >>> unit = CompilationUnit("def double(x):\\n    return x + x")
    >>> unit.double(2.5 * torch.ones(1))
    tensor([5.])
    """

    def __init__(self, lang=None, _frames_up=0):
        self._unit, self._functions = Modules(), {}
        if lang is not None:
            self.define(lang)

    def define(self, lang, rcb=None, _frames_up=0):
        """Adds the functions of a text."""
        source = Source(textwrap.dedent(lang))
        names = text_names(self._unit)
        for node in source.parse().body:
            if isinstance(node, ast.FunctionDef):
                function = self._unit.define(node, source, names, node.name)
                names.scopes[0][node.name] = ScriptFunction(function)
                self._functions[node.name] = names.scopes[0][node.name]
        for function in self._functions.values():
            settle_result(function.function)

    def __getattr__(self, name):
        found = self.__dict__.get("_functions", {}).get(name)
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return found

    def find_function(self, name):
        """The function of a name, or None."""
        return self._functions.get(name)

    def get_functions(self):
        """All functions."""
        return list(self._functions.values())
