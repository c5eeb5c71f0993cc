"""Arguments that functions and classes of a module share are described once, beside them."""

from __future__ import annotations

import re
from types import FunctionType

_ARGUMENTS = "\n\n    Args:\n        "
_AFTER = re.compile(r"\n\n    (?=Attributes:|Raises:|Returns:|>>> )|\n    \Z|\Z")
_NEXT = re.compile(r"\n        (?=\w)")


def describe_arguments(module, /, **words):
    """Adds to docstrings of a module what they leave out of the lists of arguments.

    A class without a constructor takes those of the base that has it.

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
    said = {name: f"{name}: {text}" for name, text in words.items()}
    for name, value in module.items():
        home = value
        if isinstance(value, type):
            home = next(base for base in value.__mro__ if "__init__" in vars(base))
        call = home.__init__ if isinstance(home, type) else home
        if (
            isinstance(call, FunctionType)
            and value.__module__ == module["__name__"]
            and value.__doc__
            and name[0] != "_"
        ):
            if home is value and "arguments as in" in value.__doc__:
                continue  # another docstring has them
            inherited = {} if home is value else _parsed(home.__doc__ or "")[1]
            value.__doc__ = _completed(
                value.__doc__, call.__code__, {**said, **inherited}
            )


def _parsed(text):
    """A docstring's begin, what it lists of arguments by name, and its end."""
    head, listed, rest = text.partition(_ARGUMENTS)
    if not listed:
        at = _AFTER.search(text).start()
        return text[:at], {}, text[at:]
    end = _AFTER.search(rest).start()
    items = _NEXT.split(rest[:end])
    return head, {re.split("[,:]", item)[0]: item for item in items}, rest[end:]


def _completed(text, code, said):
    """A docstring with its list of arguments, in the order of the signature."""
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    head, own, rest = _parsed(text)
    whole = {**{name: said[name] for name in names if name in said}, **own}
    if not whole:
        return text
    order = sorted(whole, key=lambda name: (*names, name).index(name))
    return head + _ARGUMENTS + "\n        ".join(map(whole.get, order)) + rest
