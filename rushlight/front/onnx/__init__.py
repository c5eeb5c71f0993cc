"""ONNX: models written for other runtimes, and read from their files.

>>> import io
>>> import rushlight as rl
>>> program = rl.onnx.export(rl.nn.Linear(2, 3), (rl.ones(1, 2),))
>>> program.save(file := io.BytesIO())
>>> rl.onnx.load(io.BytesIO(file.getvalue()))(rl.ones(1, 2)).shape
rushlight.Size([1, 3])
"""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr
import enum
import os
import warnings

from rushlight.onnx import _state, errors
from rushlight.onnx._program import ONNXProgram
from rushlight.onnx._state import is_in_onnx_export
from rushlight.onnx.errors import OnnxExporterError, OnnxLoadError

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "OnnxLoadError",
    "OperatorExportTypes",
    "TensorProtoDataType",
    "TrainingMode",
    "dynamo_export",
    "export",
    "is_in_onnx_export",
    "load",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]


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
    _state.SYMBOLICS[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Forgets how an operator is written in ONNX."""
    _state.SYMBOLICS.pop((symbolic_name, opset_version), None)


def export(
    model,
    args=(),
    f=None,
    *,
    kwargs=None,
    verbose=None,
    input_names=None,
    output_names=None,
    opset_version=None,
    dynamo=True,
    external_data=True,
    dynamic_shapes=None,
    custom_translation_table=None,
    report=False,
    optimize=True,
    verify=False,
    profile=False,
    dump_exported_program=False,
    artifacts_dir=".",
    export_params=True,
    keep_initializers_as_inputs=False,
    dynamic_axes=None,
    training=TrainingMode.EVAL,
    operator_export_type=OperatorExportTypes.ONNX,
    do_constant_folding=True,
    custom_opsets=None,
    export_modules_as_functions=False,
    autograd_inlining=True,
):
    """A model in ONNX, in a file if one is named.

    Args:
        model: a module, or an `ExportedProgram`.
        args: example arguments, a tuple; tensors among them are the model's inputs.
        f: a path for the model, or a file open for bytes.
        kwargs: example keyword arguments.
        verbose: prints the model when it is made.
        input_names: names for the inputs, in their order; ``output_names`` for results.
        opset_version: the version of ONNX's operators, 18 or newer; 20 by itself.
        dynamo: False is the older signature: the model is written in evaluation mode
            (``training`` says otherwise), and nothing is given back.
        external_data: whether weights go to a file beside the model, ``f.data``.
        dynamic_shapes: which sizes stay open, as `rushlight.export.export` has it.
        custom_translation_table: functions that write operators, by operator: of
            onnxscript, or called with the graph and the call's arguments.
        report: writes ``onnx_export_report.md``, with the steps and their nodes.
        optimize: takes out what nothing needs, what is there twice, what is known.
        verify: runs the model by ONNX Runtime and compares.
        profile: kept for PyTorch's programs.
        dump_exported_program: writes the program beside the report.
        artifacts_dir: where the report goes.
        export_params: whether weights are part of the file; else they are inputs.
        keep_initializers_as_inputs: whether weights are inputs, too.
        dynamic_axes: open dimensions by the name of an input: names by dimension, or a
            list of dimensions.
        training: the mode that the model is written in; ``dynamo=False`` alone heeds it.
        operator_export_type: kept for PyTorch's programs.
        do_constant_folding: the same as ``optimize``, for ``dynamo=False``.
        custom_opsets: versions of operators of other domains.
        export_modules_as_functions: kept for PyTorch's programs.
        autograd_inlining: kept for PyTorch's programs.

    Returns:
        an `ONNXProgram`; None with ``dynamo=False``.

    Raises:
        UnsupportedOperatorError: steps of the model have no form in ONNX; it names each
            operator and the line that has called it.
        OnnxExporterError: the arguments do not fit together.

    >>> import rushlight as rl
    >>> batch = rl.export.Dim("batch")
    >>> program = export(
    ...     rl.nn.Linear(2, 3), (rl.ones(4, 2),), dynamic_shapes=({0: batch},)
    ... )
    >>> program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    'batch'
    """
    from rushlight.onnx import _export

    args, kwargs = _export.as_call(args, kwargs, dynamo)
    if not dynamo and f is None:
        raise ValueError("torch.onnx.export: with dynamo=False f is the path of a file")
    if operator_export_type is not OperatorExportTypes.ONNX:
        raise OnnxExporterError(
            f"torch.onnx.export: operator_export_type={operator_export_type} writes "
            "operators that no runtime has\n  remedy: custom_translation_table"
        )
    options = _export.Options(
        opset_version,
        input_names or (),
        output_names or (),
        dynamic_axes,
        dynamic_shapes,
        custom_translation_table,
        optimize if dynamo else do_constant_folding,
        custom_opsets,
    )
    with _export.in_mode(model, None if dynamo else training):
        program = _export.to_program(model, args, kwargs, options)
    if verbose:
        print(program)
    rows = _export.verified(program, model, args, kwargs) if verify else None
    if report or dump_exported_program:
        os.makedirs(artifacts_dir, exist_ok=True)
    if report:
        _export.write_report(program, artifacts_dir, rows)
    if dump_exported_program:
        path = os.path.join(artifacts_dir, "onnx_export.pt2")
        _export.rl.export.save(program.exported_program, path)
    if f is not None:
        program.save(
            f,
            include_initializers=export_params,
            keep_initializers_as_inputs=keep_initializers_as_inputs,
            external_data=(external_data or None) if dynamo else None,
        )
    return program if dynamo else None


def dynamo_export(model, /, *model_args, export_options=None, **model_kwargs):
    """A model in ONNX, as PyTorch 2.1 to 2.5 had it: `export` takes its place.

    Args:
        model: the module.
        model_args: example arguments; ``model_kwargs`` too.
        export_options: kept for such programs.
    """
    warnings.warn(
        "torch.onnx.dynamo_export is deprecated; use torch.onnx.export(..., dynamo=True)",
        FutureWarning,
        stacklevel=2,
    )
    return export(model, model_args, kwargs=model_kwargs)


def load(path, *, strict=True):
    """A module that computes what a model in ONNX does.

    Weights are parameters where they are floating-point numbers, and buffers otherwise,
    by the names that the file has. Nothing in a file is run but the operators that it
    names.

    Args:
        path: a path; a file open for bytes; or an ``onnx.ModelProto``.
        strict: whether sizes that contradict what the file says of its inputs are
            refused.

    Returns:
        a `GraphModule` of calls.

    Raises:
        OnnxLoadError: the file is no model, or has operators that are not here; it
            names the file, the node and the remedy.

    >>> import rushlight as rl
    >>> program = rl.onnx.export(rl.nn.Tanh(), (rl.ones(2),))
    >>> load(program.model_proto)(rl.zeros(2))
    tensor([0., 0.])
    """
    from rushlight.onnx.importing import load_model

    return load_model(path, strict)


__getattr__ = _lazy_getattr(__name__, ("symbolic_helper",))
