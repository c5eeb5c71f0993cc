"""Parts of a package that are imported when a program first asks for them."""

from importlib import import_module


def lazy_getattr(package, modules, names=None):
    """A package's ``__getattr__``, which imports what is asked for.

    Args:
        package: its ``__name__``.
        modules: names of modules inside it.
        names: what else it has, and the module inside it where each lies.

    >>> find = lazy_getattr("json", ["tool"], {"JSONEncoder": "encoder"})
    >>> find("tool").__name__, find("JSONEncoder").__name__
    ('json.tool', 'JSONEncoder')
    """
    homes = names or {}

    def find(name):
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
