"""Passes as objects."""

import abc
from collections import namedtuple

__all__ = ["PassBase", "PassResult"]


class PassResult(namedtuple("PassResult", ["graph_module", "modified"])):
    """What a pass gives: the module, and whether it was changed."""

    __slots__ = ()


class PassBase(abc.ABC):
    """A pass: ``call`` does it, ``requires`` and ``ensures`` check before and after."""

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module):
        """Does the pass and gives a ``PassResult``, or None."""

    def requires(self, graph_module):
        """Checks that the pass can be done."""
        return

    def ensures(self, graph_module):
        """Checks that the pass has been done."""
        return
