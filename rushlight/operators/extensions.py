"""Compiled extensions of PyTorch, which cannot be loaded, and classes from them."""

from __future__ import annotations

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
