"""The older place of `rushlight.ao.nn.quantized`."""

from rushlight.ao.nn import quantized as _moved


def __getattr__(name):
    return getattr(_moved, name)


def __dir__():
    return dir(_moved)
