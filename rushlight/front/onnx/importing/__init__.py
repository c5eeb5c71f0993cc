"""Models of ONNX as modules: read, checked, and made of calls."""

from rushlight.onnx.importing import (
    control,
    elementwise,
    layers,
    recurrent,
    reduction,
    shape,
)
from rushlight.onnx.importing._build import OnnxModule, build, run_node
from rushlight.onnx.importing._reader import Source, checked, read
from rushlight.onnx.importing._table import IMPLEMENTED, implements

__all__ = [
    "IMPLEMENTED",
    "OnnxModule",
    "Source",
    "build",
    "checked",
    "implements",
    "load_model",
    "module_of",
    "read",
    "run_node",
]


def load_model(path, strict=True):
    """What `rushlight.onnx.load` gives."""
    proto, source = read(path)
    return build(proto, source, strict)


def module_of(proto, strict=True):
    """A module of a message."""
    source = Source("<ModelProto>")
    return build(checked(proto, source), source, strict)
