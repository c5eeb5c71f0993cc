"""Modules made of graphs."""

from __future__ import annotations

from rushlight.core.tensor import Tensor
from rushlight.fx import GraphModule
from rushlight.nn import Module

__all__ = ["GraphModule"]


def _copy_attr(from_module, to_module, target):
    """Gives a module what another holds at a path, with the modules on the way."""
    *path, name = target.split(".")
    for item in path:
        inner = getattr(from_module, item)
        if getattr(to_module, item, None) is inner:
            return
        if not hasattr(to_module, item):
            setattr(to_module, item, Module())
        from_module, to_module = inner, getattr(to_module, item)
    value = getattr(from_module, name)
    if isinstance(value, Tensor) and name in from_module._buffers:
        to_module.register_buffer(name, value)
    else:
        setattr(to_module, name, value)
