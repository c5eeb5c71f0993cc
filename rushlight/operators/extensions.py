"""Compiled extensions of PyTorch, which cannot be loaded, and classes from them."""

import os

loaded_libraries: set = set()


def load_library(path):
    """Would load operators from a compiled extension of PyTorch.

    Raises:
        OSError: it is not there, or it is one, which only PyTorch's own core can load.
    """
    path = os.fspath(path)
    why = (
        "it is made for PyTorch's compiled core"
        if os.path.exists(path)
        else "no such file"
    )
    raise OSError(f"Could not load this library: {path} ({why})")


def import_module(module):
    """Imports a module that registers operators when it is imported."""
    import importlib

    importlib.import_module(module)


CUSTOM = "__torch__.torch.classes."  # what programs' names of such classes begin with


MAKERS: dict = {}  # by qualified name, the function of a state that gives an object
METHODS: dict = {}  # by qualified name and method, the operator that programs call


class CustomClass:
    """Objects that operators take and programs hand on, by a name of ``torch.classes``.

    Attributes:
        namespace, kind: the two parts of the name.
        state_type: what ``stored`` gives, as annotations of programs spell it.
    """

    namespace = kind = state_type = ""

    def __repr__(self):
        return f"ScriptObject <{self._type()}>"

    def _type(self):
        return f"{CUSTOM}{self.namespace}.{self.kind}"

    def stored(self):
        """The state as programs are stored: what the class's maker takes."""
        raise RuntimeError(f"{self._type()} is not stored in programs")


def restored(name, state):
    """The object of a custom class's name and a state.

    Args:
        name: the qualified name.
        state: what ``stored`` gave.

    Raises:
        RuntimeError: there is no such class, or the state is none of its.

    >>> restored("__torch__.torch.classes.none.Nothing", ())
    Traceback (most recent call last):
    RuntimeError: Unknown class __torch__.torch.classes.none.Nothing
    """
    if name not in MAKERS:
        raise RuntimeError(f"Unknown class {name}")
    try:
        return MAKERS[name](state)
    except (TypeError, ValueError, IndexError, AttributeError) as fault:
        raise RuntimeError(f"{name} has no such state: {fault}") from fault


class _ClassNamespace:
    """Classes from compiled extensions, of which none are loaded."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, attr):
        raise RuntimeError(
            f"Tried to instantiate class '{self.name}.{attr}', but it does not exist! "
            "Ensure that it is registered via torch::class_"
        )


class _Classes:
    """``torch.classes``: namespaces of classes from compiled extensions."""

    loaded_libraries = loaded_libraries

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _ClassNamespace(name)

    def load_library(self, path):
        """As ``ops.load_library``."""
        load_library(path)


classes = _Classes()
