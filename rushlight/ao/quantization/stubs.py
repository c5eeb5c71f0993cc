"""Marks for where values become quantized; until a model is converted, they pass them on."""

from __future__ import annotations

from rushlight.nn import Module

__all__ = ["DeQuantStub", "QuantStub"]


class _Stub(Module):
    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        """The value."""
        return x


class QuantStub(_Stub):
    """Where values would become quantized: gives them as they are.

    Args:
        qconfig: how they would be.
    """


class DeQuantStub(_Stub):
    """Where values would become numbers again: gives them as they are.

    Args:
        qconfig: how they would be.
    """
