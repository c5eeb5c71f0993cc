"""Marks for where values become quantized, and a module between two of them."""

from rushlight.nn import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class _Stub(Module):
    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        """The value."""
        return x


class QuantStub(_Stub):
    """Where values become quantized: gives them as they are until a model is converted.

    Args:
        qconfig: how they are.
    """


class DeQuantStub(_Stub):
    """Where values become numbers again: gives them as they are until a model is converted.

    Args:
        qconfig: how they are.
    """


class QuantWrapper(Module):
    """A module between a mark where values become quantized and one where they end to be.

    Args:
        module: the module.
    """

    def __init__(self, module):
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X):
        """The module's value."""
        return self.dequant(self.module(self.quant(X)))
