"""How operators are written in ONNX: one function for each, by groups of operators."""

from rushlight.onnx._registry import LOWERINGS, lowering_of, lowers
from rushlight.onnx.lowering import (
    activation,
    convolution,
    creation,
    elementwise,
    indexing,
    loss,
    matmul,
    mixtures,
    normalization,
    ordering,
    pooling,
    recurrent,
    reduction,
    shape,
)

__all__ = ["LOWERINGS", "lowering_of", "lowers"]
