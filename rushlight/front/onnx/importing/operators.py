"""ONNX's operators by their names, as functions: ``operators.Conv``."""

from rushlight.onnx.importing._table import IMPLEMENTED

__all__: list = []


def __getattr__(name):
    if name in IMPLEMENTED:
        return IMPLEMENTED[name].function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(IMPLEMENTED)
