"""Optimisations of finished models."""


def __getattr__(name):
    if name in ("quantization",):  # no import of every program's
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
