"""ONNX: what programs register for an export. There is no export yet."""

from __future__ import annotations

import enum

from rushlight.onnx import errors

__all__ = [
    "OnnxExporterError",
    "OperatorExportTypes",
    "TensorProtoDataType",
    "TrainingMode",
    "dynamo_export",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]

OnnxExporterError = errors.OnnxExporterError


class TrainingMode(enum.IntEnum):
    """The mode that a model is exported in."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """What becomes of operators that ONNX lacks."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TensorProtoDataType(enum.IntEnum):
    """ONNX's numbers for types of elements."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16


_symbolics: dict = {}


def is_in_onnx_export():
    """Whether a model is being exported: never."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Keeps how an operator is written in ONNX.

    Args:
        symbolic_name: the operator's name, with its namespace before it.
        symbolic_fn: makes ONNX's nodes.
        opset_version: the version of ONNX's operators that they belong to.

    Raises:
        ValueError: the name lacks its namespace.
    """
    space, colons, name = symbolic_name.partition("::")
    if not (space and colons and name) or "::" in name:
        raise errors.OnnxExporterError(
            f"Failed to register operator {symbolic_name}. The symbolic name must match "
            "the format domain::name, and should start with a letter and contain only "
            "alphanumerical characters"
        )
    _symbolics[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Forgets how an operator is written in ONNX."""
    _symbolics.pop((symbolic_name, opset_version), None)


def export(model, args=(), f=None, **kwargs):
    """Would write a model as ONNX: not possible yet.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "torch.onnx.export: Rushlight does not write ONNX yet\n"
        "  remedy: save the state_dict with torch.save and export it with PyTorch"
    )


def dynamo_export(model, /, *args, **kwargs):
    """Would write a model as ONNX: not possible yet.

    Raises:
        NotImplementedError: always.
    """
    export(model)
