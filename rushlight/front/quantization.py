"""The older place of `rushlight.ao.quantization`."""

from rushlight.ao import quantization as _moved


def __getattr__(name):
    return getattr(_moved, name)


def __dir__():
    return dir(_moved)
