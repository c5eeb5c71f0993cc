"""The older place of `rushlight.ao.nn.qat`."""

from rushlight.ao.nn import qat as _moved


def __getattr__(name):
    return getattr(_moved, name)


def __dir__():
    return dir(_moved)
