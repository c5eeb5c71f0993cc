"""Programs as graphs: ``wrap`` notes what a tracer would leave whole. None traces yet."""

from __future__ import annotations

import inspect

from rushlight.nn import Module as _Module

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

_wrapped_fns_to_patch: dict = {}
_side_effects: set = set()


def _refuse(name):
    raise NotImplementedError(
        f"torch.fx.{name}: Rushlight does not trace programs into graphs yet\n"
        "  remedy: call the module itself, and hooks for what happens inside of it"
    )


def wrap(fn_or_name):
    """Notes a function of the calling module that a tracer would leave whole.

    Args:
        fn_or_name: the function, as by a decorator, or its name.

    Raises:
        RuntimeError: it is neither.
        NotImplementedError: the call is not at the top of a module.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    if callable(fn_or_name):
        name = fn_or_name.__name__
    else:
        name = fn_or_name
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def has_side_effect(fn):
    """Notes a function whose calls must stay in a graph though nobody uses the result."""
    _side_effects.add(fn)
    return fn


def symbolic_trace(root, concrete_args=None):
    """Would trace a module into a graph: not possible yet.

    Raises:
        NotImplementedError: always.
    """
    _refuse("symbolic_trace")


def replace_pattern(gm, pattern, replacement):
    """Would replace parts of a graph: there is none yet.

    Raises:
        NotImplementedError: always.
    """
    _refuse("replace_pattern")


class Tracer:
    """Would trace modules into graphs; subclasses may be defined, none can trace yet."""

    def __init__(self, autowrap_modules=(), autowrap_functions=(), **options):
        self.autowrap_modules = autowrap_modules
        self.autowrap_functions = autowrap_functions

    def trace(self, root, concrete_args=None):
        """Not possible yet.

        Raises:
            NotImplementedError: always.
        """
        _refuse("Tracer.trace")

    def is_leaf_module(self, m, module_qualified_name):
        """Whether a module is left whole: those of the package, but for containers."""
        home = m.__module__.removeprefix("torch.").removeprefix("rushlight.")
        container = type(m).__name__ == "Sequential"
        return home.startswith("nn.") and not container


class _Absent:
    """A part of a graph: there is none, so that nothing is one."""

    def __init__(self, *args, **kwargs):
        _refuse(type(self).__name__)


class Graph(_Absent):
    """A program as a list of nodes."""


class Node(_Absent):
    """One step of a graph."""


class Proxy(_Absent):
    """What stands for a value while a program is traced."""


class GraphModule(_Module):
    """A module made of a graph: there is none, so that nothing is one."""

    def __init__(self, *args, **kwargs):
        _refuse("GraphModule")


class Interpreter(_Absent):
    """Runs a graph node by node."""


class Transformer(Interpreter):
    """Makes a graph of another."""


from rushlight.fx import graph_module, node, proxy
