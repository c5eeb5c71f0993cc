"""Passes as classes: what changes graphs, and by what it is known."""

import hashlib
from abc import ABC, abstractmethod

__all__ = [
    "CustomGraphModulePass",
    "CustomGraphPass",
    "CustomPassBase",
    "get_hash_for_files",
]


class CustomPassBase(ABC):
    """What changes programs, and says by what it is known."""

    @abstractmethod
    def uuid(self):
        """What differs where the pass does; None where nothing is to be kept."""


class CustomGraphPass(CustomPassBase):
    """A pass over graphs: a setting of `rushlight._inductor.config`.

    >>> class Nothing(CustomGraphPass):
    ...     def __call__(self, graph):
    ...         pass
    ...
    ...     def uuid(self):
    ...         return get_hash_for_files((__file__,))
    """

    @abstractmethod
    def __call__(self, graph):
        """Changes a graph."""


class CustomGraphModulePass(CustomPassBase):
    """A pass over the modules of graphs."""

    @abstractmethod
    def __call__(self, gm):
        """Changes a module."""


def get_hash_for_files(paths, extra=""):
    """A digest of files.

    Args:
        paths: the files.
        extra: text that belongs to it.
    """
    digest = hashlib.sha256()
    digest.update(extra.encode("utf-8"))
    for path in paths:
        with open(path, "rb") as file:
            digest.update(path.encode("utf-8") + file.read())
    return digest.digest()
