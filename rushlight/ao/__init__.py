"""Models made smaller: quantization, and modules of quantized models."""

_LATER = ("nn", "ns", "pruning", "quantization")


def __getattr__(name):
    if name in _LATER:  # no import of every program's
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
