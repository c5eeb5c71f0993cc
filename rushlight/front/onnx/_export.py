"""Models written as ONNX: what `rushlight.onnx.export` does."""

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import rushlight as rl
from rushlight.export import Dim
from rushlight.export import export as record
from rushlight.export.dynamic_shapes import combined_args, wanted_sizes
from rushlight.export.exported_program import ExportedProgram
from rushlight.ir.symbolic import SymInt
from rushlight.nn.modules.module import Module
from rushlight.onnx._model import (
    constant_node,
    graph_proto,
    looks_trained,
    model_proto,
    tensor_proto,
    value_info,
)
from rushlight.onnx._operands import names_in
from rushlight.onnx._optimize import optimized, without_dead_nodes
from rushlight.onnx._program import ONNXProgram
from rushlight.onnx._state import exporting, registered
from rushlight.onnx._translate import Translator, without_writes
from rushlight.onnx.errors import OnnxExporterError, OnnxExporterWarning
from rushlight.utils._pytree import tree_flatten, tree_flatten_with_path, tree_unflatten

DEFAULT_OPSET = 20
LEAST_OPSET, MOST_OPSET = 18, 25


def checked_opset(opset_version):
    """The version of ONNX's operators that is written.

    Raises:
        OnnxExporterError: it is older or newer than what can be written.
    """
    opset = DEFAULT_OPSET if opset_version is None else opset_version
    if opset < LEAST_OPSET:
        warnings.warn(
            f"opset_version={opset} is older than {LEAST_OPSET}, the first that is "
            f"written: the model has {LEAST_OPSET}",
            OnnxExporterWarning,
            stacklevel=3,
        )
        return LEAST_OPSET
    if opset > MOST_OPSET:
        raise OnnxExporterError(
            f"torch.onnx.export: opset_version={opset} is newer than {MOST_OPSET}, the "
            f"last that is known here\n  remedy: opset_version={MOST_OPSET}"
        )
    return opset


# -- sizes that stay open ----------------------------------------------------------------


def _axes(dynamic_axes, names):
    """Dimensions that stay open by the name of an input, with what they are called."""
    found = {}
    for name, axes in dynamic_axes.items():
        if name in names:
            listed = (
                axes
                if isinstance(axes, dict)
                else {
                    axis: f"{name}_dynamic_axes_{at + 1}"
                    for at, axis in enumerate(axes)
                }
            )
            found[name] = listed
    return found


class Sizes:
    """Which sizes of the arguments stay open, and what they are called.

    Args:
        model: the module.
        args: its arguments; ``kwargs`` too.
        input_names: the names of the inputs, in their order.
        dynamic_axes: open dimensions by the name of an input, as TorchScript's exporter
            has them.
        dynamic_shapes: the same as `rushlight.export.export` has it.
    """

    def __init__(self, model, args, kwargs, input_names, dynamic_axes, dynamic_shapes):
        self.args, self.kwargs = args, kwargs
        self.shapes = dynamic_shapes
        self.named: dict = {}  # number of a tensor argument -> {dimension: name}
        if dynamic_axes and not dynamic_shapes:
            self._by_names(model, input_names, dynamic_axes)
        elif dynamic_shapes:
            self._by_dims(model)

    def _leaves(self, model):
        """The tensors among the arguments: their numbers, and the names of each."""
        pairs, _ = tree_flatten_with_path(combined_args(model, self.args, self.kwargs))
        return [(path, one) for path, one in pairs if isinstance(one, rl.Tensor)]

    def _by_names(self, model, input_names, dynamic_axes):
        leaves = self._leaves(model)
        plain = [str(path[0].key) for path, _ in leaves]
        names = [*input_names, *plain[len(input_names) :]]
        axes = _axes(dynamic_axes, set(names))
        combined = combined_args(model, self.args, self.kwargs)
        flat, spec = tree_flatten(combined)
        at, shapes, larger = 0, [], []
        for one in flat:
            if not isinstance(one, rl.Tensor):
                shapes.append(None)
                larger.append(one)
                continue
            listed = {axis % one.dim(): name for axis, name in
                      axes.get(names[at], {}).items()}  # fmt: skip
            self.named[at] = listed
            shapes.append(dict.fromkeys(listed, Dim.AUTO) or None)
            larger.append(_at_least_two(one, listed))
            at += 1
        self.shapes = tree_unflatten(shapes, spec)
        self._replace(larger)

    def _replace(self, leaves):
        """Arguments of which no open size is one: that would be a number."""
        _, spec = tree_flatten((self.args, self.kwargs))
        self.args, self.kwargs = tree_unflatten(leaves, spec)

    def _by_dims(self, model):
        combined = combined_args(model, self.args, self.kwargs)
        try:
            wanted = wanted_sizes(combined, self.shapes)
        except (TypeError, ValueError, RuntimeError, AttributeError):
            return  # recording says what is wrong
        for at, (path, _) in enumerate(self._leaves(model)):
            names = {}
            for one in wanted.get(path, ()):
                if isinstance(one.spec, Dim):
                    names[one.dim] = one.spec.__name__
            self.named[at] = names

    def names_in(self, inputs):
        """What the symbols of a program are called.

        Args:
            inputs: pairs of values and fakes, in the order of the arguments.
        """
        found: dict = {}
        for at, (_, fake) in enumerate(inputs):
            for dim, name in self.named.get(at, {}).items():
                size = fake.shape[dim] if dim < fake.dim() else 0
                if isinstance(size, SymInt):
                    found.setdefault(str(size.expr), name)
        return found


def _at_least_two(tensor, dims):
    """A tensor of the same kind with no open size below two."""
    sizes = [max(n, 2) if d in dims else n for d, n in enumerate(tensor.shape)]
    if sizes == list(tensor.shape):
        return tensor
    return tensor.new_zeros(sizes)


# -- the model ---------------------------------------------------------------------------


def _assembled(translator, names, optimize):
    """The message of the whole model, and its weights."""
    graph = translator.graph
    results = [value.name for value, _ in translator.outputs]
    nodes = (
        optimized(graph, results)
        if optimize
        else without_dead_nodes(graph.nodes, results)
    )
    graph.nodes = nodes
    needed = {one for node in nodes for one in names_in(node)} | set(results)
    constants = [
        tensor_proto(name, array)
        for name, array in graph.constants.items()
        if name in needed
    ]
    written = [one for one in constants if looks_trained(one)]
    graph.nodes = [*map(constant_node, written), *nodes]
    weights = {name: one for name, one in graph.weights.items() if name in needed}
    proto = graph_proto(
        graph,
        "main_graph",
        [value_info(value, fake, names) for value, fake in translator.inputs],
        [value_info(value, fake, names) for value, fake in translator.outputs],
        [one for one in constants if not looks_trained(one)],
    )
    return model_proto(graph, proto), weights


class Custom:
    """What users write themselves: this export's table, then what is registered.

    Args:
        table: functions by operator, or by packet for all its overloads.
        opset: the version of ONNX's operators.
    """

    def __init__(self, table, opset):
        self.by_name = registered(opset)
        self.table = dict(table or {})

    def get(self, op):
        """The function that writes an operator, or None."""
        found = self.table.get(op) or self.table.get(
            getattr(op, "overloadpacket", None)
        )
        if found is None and hasattr(op, "signature"):
            found = self.by_name.get(f"{op.namespace}::{op._opname}")
        return found


@dataclasses.dataclass
class Options:
    """What an export heeds beside the model and its arguments.

    Attributes:
        opset_version: the version of ONNX's operators.
        input_names: names for the inputs, in their order; ``output_names`` for results.
        dynamic_axes: open dimensions by the name of an input.
        dynamic_shapes: the same as `rushlight.export.export` has it.
        custom_translation_table: functions that write operators, by operator.
        optimize: whether what is known or there twice is taken out.
        custom_opsets: versions of operators of other domains.
    """

    opset_version: int | None = None
    input_names: Sequence = ()
    output_names: Sequence = ()
    dynamic_axes: Mapping | None = None
    dynamic_shapes: Any = None
    custom_translation_table: Mapping | None = None
    optimize: bool = True
    custom_opsets: Mapping | None = None


def to_program(model, args, kwargs, options):
    """A model as an `ONNXProgram`.

    Args:
        model: a module, or an `ExportedProgram`.
        args: example arguments; ``kwargs`` too.
        options: the `Options`.
    """
    opset = checked_opset(options.opset_version)
    names: dict = {}
    with exporting(), rl.no_grad():
        sizes, program = None, model
        if not isinstance(model, ExportedProgram):
            sizes = Sizes(
                model, args, kwargs, options.input_names, options.dynamic_axes,
                options.dynamic_shapes,
            )  # fmt: skip
            program = record(
                model, sizes.args, sizes.kwargs, dynamic_shapes=sizes.shapes
            )
        custom = Custom(options.custom_translation_table, opset)
        translator = Translator(without_writes(program, custom), opset, custom)
        translator.graph.domains.update(options.custom_opsets or {})
        translator.run(list(options.input_names), list(options.output_names))
        if sizes is not None:
            names = sizes.names_in(translator.inputs)
        proto, weights = _assembled(translator, names, options.optimize)
    return ONNXProgram(proto, weights, program)


# -- what PyTorch's programs call ----------------------------------------------------------


def as_call(args, kwargs, dynamo):
    """The arguments of a call; TorchScript's exporter takes keywords at their end."""
    args = args if isinstance(args, tuple) else (args,)
    kwargs = dict(kwargs or {})
    if not dynamo and args and isinstance(args[-1], dict) and not kwargs:
        return args[:-1], dict(args[-1])
    return args, kwargs


def differences(program, model, args, kwargs):
    """How far results of ONNX Runtime are from the model's: a row for each result."""
    from rushlight.utils._pytree import tree_leaves

    module = model.module() if isinstance(model, ExportedProgram) else model
    with rl.no_grad():
        wanted = [
            one for one in tree_leaves(module(*args, **kwargs))
            if isinstance(one, rl.Tensor)
        ]  # fmt: skip
    made = program(*args, **kwargs)
    names = [one.name for one in program._proto.graph.output]
    rows = []
    for name, ours, theirs in zip(names, wanted, made):
        gap = (ours.double() - theirs.double()).abs()
        rows.append((name, gap.max().item() if gap.numel() else 0.0))
    return rows


def verified(program, model, args, kwargs):
    """Compares a model's results with ONNX Runtime's.

    Raises:
        OnnxExporterError: a result differs by more than rounding.
    """
    rows = differences(program, model, args, kwargs)
    for name, gap in rows:
        if not gap <= 1e-3:
            raise OnnxExporterError(
                f"torch.onnx.export: ONNX Runtime's {name} differs from the model's by {gap}"
                "\n  remedy: export the model in eval mode, or report the operator"
            )
    return rows


@contextlib.contextmanager
def in_mode(model, training):
    """A block in which a model is in a mode; then each module has its own again.

    Args:
        model: the module.
        training: 0 for evaluation, 2 for training; else it stays as it is.
    """
    if training not in (0, 2) or not isinstance(model, Module):
        yield
        return
    before = {module: module.training for module in model.modules()}
    try:
        model.train(training == 2)
        yield
    finally:
        for module, mode in before.items():
            module.training = mode


def write_report(program, folder, rows=None):
    """Writes what has become of a program's steps, as a page.

    Args:
        program: the `ONNXProgram`.
        folder: where ``onnx_export_report.md`` goes.
        rows: differences from the model's results, if it was run.
    """
    counts: dict = {}
    for node in program._proto.graph.node:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    lines = ["# Export to ONNX", "", "## Steps of the program", "", "```"]
    lines += [str(program.exported_program.graph), "```", "", "## Nodes", ""]
    lines += ["| operator | nodes |", "| --- | --- |"]
    lines += [f"| {name} | {count} |" for name, count in sorted(counts.items())]
    if rows is not None:
        lines += ["", "## Differences from the model", "", "| result | largest |"]
        lines += ["| --- | --- |", *(f"| {name} | {gap:.3g} |" for name, gap in rows)]
    path = os.path.join(folder, "onnx_export_report.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
