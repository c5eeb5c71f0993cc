"""Marks for where values become quantized; until a model is converted, they pass them on."""

from __future__ import annotations

from rushlight.nn import Module

__all__ = ["DeQuantStub", "QuantStub"]


class QuantStub(Module):
    """Where values would become quantized: gives them as they are.

    Args:
        qconfig: how they would be.
    """

    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        """The value."""
        return x


class DeQuantStub(Module):
    """Where values would become numbers again: gives them as they are.

    Args:
        qconfig: how they would be.
    """

    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        """The value."""
        return x
