"""The older place of `rushlight.ao.nn.intrinsic`."""

from rushlight.ao.nn import intrinsic as _moved


def __getattr__(name):
    return getattr(_moved, name)


def __dir__():
    return dir(_moved)
