"""What programs around a model need."""

import importlib

__all__ = ["data"]


def __getattr__(name):
    # Imported when it is first used: most of it is about processes.
    if name in __all__:
        return importlib.import_module(f"rushlight.utils.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
