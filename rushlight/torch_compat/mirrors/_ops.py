"""Operators as objects, under PyTorch's names for their classes."""

from rushlight.dispatch.dispatcher import Operator as OpOverload
from rushlight.dispatch.packet import OperatorPacket as OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket"]
