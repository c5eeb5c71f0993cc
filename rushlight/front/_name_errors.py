"""Names that are not there: which one, and which present name stands nearest."""

from types import ModuleType


class MissingName(AttributeError):
    """A module lacks a name. Its text is written when somebody reads it.

    Programs ask for names that may be missing, with ``hasattr``; looking for similar
    ones then would be in vain.
    """

    def __init__(self, module, name):
        super().__init__(module, name, name=name, obj=None)

    def __str__(self):
        module, name = self.args
        return (
            f"module {module.__name__!r} has no attribute {name!r}"
            f"{nearest(module, name)}"
        )

    def __reduce__(self):
        return AttributeError, (str(self),)


# What a program catches and prints is an AttributeError.
MissingName.__module__ = "builtins"
MissingName.__name__ = MissingName.__qualname__ = "AttributeError"


def nearest(module, name, modules=False):
    """The end of a message: present names like the missing one, or nothing.

    >>> import rushlight as rl
    >>> nearest(rl.nn, "Lineer")
    "; nearest are 'Linear' and 'Bilinear'"
    """
    import difflib

    present = {
        word
        for word in (*dir(module), *getattr(module, "__all__", ()))
        if not word.startswith("_") or name.startswith("_")
    }
    package = module.__name__.partition(".")[0] + "."
    held = vars(module)
    for word in list(present):
        value = held.get(word)
        foreign = isinstance(value, ModuleType) and package not in value.__name__
        if foreign or (modules and not isinstance(value, ModuleType)):
            present.discard(word)
    lowered: dict = {}
    for word in sorted(present):
        lowered.setdefault(word.lower(), word)
    found = difflib.get_close_matches(name.lower(), lowered, n=2, cutoff=0.7)
    words = [repr(lowered[word]) for word in found]
    if not words:
        return ""
    verb = "is" if len(words) == 1 else "are"
    return f"; nearest {verb} {' and '.join(words)}"


def guard(module, find_submodule):
    """Lets a module's own lookup of names end in ``MissingName``.

    Args:
        module: the module.
        find_submodule: what imports a module inside it by its name, or gives None.
    """
    look = vars(module).get("__getattr__")
    if getattr(look, "guards", False):
        return

    def find(name):
        if look is not None:
            try:
                return look(name)
            except AttributeError as error:
                if error.__cause__ is not None or name.startswith("__"):
                    raise
        found = None if name.startswith("__") else find_submodule(name)
        if found is None:
            raise MissingName(module, name)
        return found

    find.guards = True
    find.__name__ = "__getattr__"
    module.__getattr__ = find
