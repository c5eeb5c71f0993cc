"""Values pickled in PyTorch's terms, so that they mean the same there."""

from __future__ import annotations

import copyreg


def install():
    """Data types, layouts and memory formats are pickled by PyTorch's names for them."""
    from rushlight.core.dtype import DType
    from rushlight.core.layout import Layout, MemoryFormat, contiguous_format, strided
    from rushlight.core.tensor import install as put

    put("__module__", "torch", DType)  # what pickle asks a value for its name's home
    copyreg.pickle(DType, _name)
    copyreg.pickle(type(contiguous_format), _name)
    MemoryFormat.__module__ = "torch"
    copyreg.pickle(type(strided), _layout)
    Layout.__module__ = "torch"


def _name(value):
    return value.name


def _layout(value):
    from rushlight.serialization import _get_layout

    return _get_layout, (f"torch.{value.name}",)
