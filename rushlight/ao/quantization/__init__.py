"""Quantization: the places where a model marks its beginning and end."""

from rushlight.ao.quantization.stubs import DeQuantStub, QuantStub

__all__ = ["DeQuantStub", "QuantStub"]
