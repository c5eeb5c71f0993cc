"""Arguments that functions and classes of a module share are described once, beside them."""

from __future__ import annotations

import re
from types import FunctionType

_ARGUMENTS = "\n\n    Args:\n        "
_AFTER = re.compile(r"\n\n    (?=Attributes:|Raises:|Returns:|>>> )|\n    \Z|\Z")
_NEXT = re.compile(r"\n        (?=\w)")


def describe_arguments(module, /, **words):
    """Adds to docstrings of a module what they leave out of the lists of arguments.

    Args:
        module: its ``globals()``.
        words: what the arguments of a name are, in every function that does not say it.

    >>> def scaled(input, by):
    ...     '''The input times a number.
    ...
    ...     Args:
    ...         by: the number.
    ...
    ...     >>> 2 * 3
    ...     6
    ...     '''
    >>> names = {"__name__": __name__, "scaled": scaled}
    >>> describe_arguments(names, input="the tensor.")
    >>> print(names["scaled"].__doc__.partition(">>>")[0].rstrip())
    The input times a number.
    <BLANKLINE>
        Args:
            input: the tensor.
            by: the number.
    """
    for name, value in module.items():
        call = value.__init__ if isinstance(value, type) else value
        if (
            isinstance(call, FunctionType)
            and value.__module__ == module["__name__"]
            and value.__doc__
            and name[0] != "_"
        ):
            value.__doc__ = _completed(value.__doc__, call.__code__, words)


def _completed(text, code, words):
    """A docstring with its list of arguments, in the order of the signature."""
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    head, listed, rest = text.partition(_ARGUMENTS)
    if not listed:
        head, rest = text[: (at := _AFTER.search(text).start())], text[at:]
        items = []
    else:
        end = _AFTER.search(rest).start()
        items, rest = _NEXT.split(rest[:end]), rest[end:]
    own = {re.split("[,:]", item)[0]: item for item in items}
    shared = {name: f"{name}: {words[name]}" for name in names if name in words}
    whole = {**shared, **own}
    if not whole or "arguments as in" in head:
        return text
    order = sorted(whole, key=lambda name: (*names, name).index(name))
    return head + _ARGUMENTS + "\n        ".join(map(whole.get, order)) + rest
