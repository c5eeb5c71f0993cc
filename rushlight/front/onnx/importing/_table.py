"""Which function computes which of ONNX's operators."""

import dataclasses
import inspect
from collections.abc import Callable

import rushlight as rl


@dataclasses.dataclass(frozen=True)
class Implementation:
    """A function that computes an operator.

    Attributes:
        function: takes the node's inputs, None for those that are left out, and its
            attributes by name.
        wants: which of ``opset`` and ``outputs`` (how many results are asked for) it
            takes, too.
        names: the attributes that it takes.
        kept: the positions of inputs that no training changes.
    """

    function: Callable
    wants: frozenset
    names: frozenset
    kept: tuple = ()

    def takes(self, name):
        """Whether an attribute is one of the operator's.

        A file's words become names in a program: no others may.
        """
        return name in self.names

    def arguments(self, opset, outputs):
        """What the function gets beside inputs and attributes."""
        given = {"opset": opset, "outputs": outputs}
        return {name: one for name, one in given.items() if name in self.wants}


# By the operator's name; all are of ONNX's own domain.
IMPLEMENTED: dict = {}


def implements(*names, more=(), kept=()):
    """Says that a function computes operators, in all their versions from 7 on.

    The function has the first name from now on, and `operators` for its module: so a
    printed program can name it.

    Args:
        names: the operators' names.
        more: attributes that the function takes without naming them.
        kept: the positions of inputs that no training changes, such as statistics.
    """

    def register(function):
        parameters = {*inspect.signature(function).parameters}
        function.__name__ = function.__qualname__ = names[0]
        function.__module__ = "rushlight.onnx.importing.operators"
        wants = frozenset({"opset", "outputs"} & parameters)
        taken = frozenset({*parameters, *more} - wants)
        made = Implementation(function, wants, taken, kept)
        for name in names:
            IMPLEMENTED[name] = made
        return function

    return register


def integers(value):
    """Integers that may be in a tensor, as a list; None stays."""
    if value is None:
        return None
    if isinstance(value, rl.Tensor):
        return value.reshape(-1).tolist()
    return list(value) if isinstance(value, (list, tuple)) else [value]
