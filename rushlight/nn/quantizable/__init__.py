"""The older name of `rushlight.ao.nn.quantizable`."""

from rushlight.ao.nn._aliases import forward

__getattr__, __dir__ = forward(__name__)
