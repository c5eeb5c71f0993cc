"""Operators that take functions, under PyTorch's name for the place."""

from rushlight._higher_order_ops.associative_scan import associative_scan
from rushlight._higher_order_ops.auto_functionalize import auto_functionalized_v2
from rushlight._higher_order_ops.base import HigherOrderOperator
from rushlight._higher_order_ops.cond import cond
from rushlight._higher_order_ops.map import map
from rushlight._higher_order_ops.out_dtype import out_dtype
from rushlight._higher_order_ops.scan import scan
from rushlight._higher_order_ops.while_loop import while_loop
from rushlight._higher_order_ops.wrap import wrap_with_set_grad_enabled

__all__ = [
    "HigherOrderOperator",
    "associative_scan",
    "auto_functionalized_v2",
    "cond",
    "map",
    "out_dtype",
    "scan",
    "while_loop",
    "wrap_with_set_grad_enabled",
]
