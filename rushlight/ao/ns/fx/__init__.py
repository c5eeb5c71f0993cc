"""What comparisons of graphs are made of."""

from importlib import import_module


def __getattr__(name):
    if name == "utils":
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
