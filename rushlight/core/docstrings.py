"""Arguments that functions and classes of a module share are described once, beside them."""

from types import FunctionType

_ARGUMENTS = "\n\n    Args:\n        "
_AFTER = [
    f"\n\n    {title}" for title in ("Attributes:", "Raises:", "Returns:", ">>> ")
]


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
        at = _end(text)
        return text[:at], {}, text[at:]
    end, items = _end(rest), {}
    for part in rest[:end].split("\n        "):
        if not items or part[:1].isidentifier():
            name = part.partition(":")[0].partition(",")[0]
            items[name] = part
        else:  # goes on in another line
            items[name] += f"\n        {part}"
    return head, items, rest[end:]


def _end(text):
    """Where a list ends: at the next title, or with the docstring."""
    found = [at for title in _AFTER if (at := text.find(title)) >= 0]
    last = len(text) - 5 if text.endswith("\n    ") else len(text)
    return min([*found, last])


def _completed(text, code, said):
    """A docstring with its list of arguments, in the order of the signature."""
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    head, own, rest = _parsed(text)
    whole = {**{name: said[name] for name in names if name in said}, **own}
    if not whole:
        return text
    order = sorted(whole, key=lambda name: (*names, name).index(name))
    return head + _ARGUMENTS + "\n        ".join(map(whole.get, order)) + rest
