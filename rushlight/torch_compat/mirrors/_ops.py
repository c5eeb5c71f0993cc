"""Operators as objects, under PyTorch's names for their classes."""

from rushlight._higher_order_ops.base import HigherOrderOperator
from rushlight.dispatch.dispatcher import Operator as OpOverload
from rushlight.dispatch.packet import OperatorPacket as OpOverloadPacket

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket"]
