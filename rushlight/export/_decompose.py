"""Exported programs without writes, and with their compositions taken apart."""

from __future__ import annotations

import rushlight as rl
from rushlight._subclasses.fake_tensor import FakeTensor
from rushlight._subclasses.symbolic import SymInt
from rushlight.autograd.levels.functional import FunctionalLevel
from rushlight.core.tensor import Tensor
from rushlight.export.exported_program import ExportedProgram, writes
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from rushlight.fx.experimental.pre_dispatch import placeholder
from rushlight.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node
from rushlight.nn.modules.module import Module
from rushlight.ops import call


def decomposed(program, table):
    """What ``ExportedProgram.run_decompositions`` gives.

    Args:
        program: the `ExportedProgram`.
        table: what to record in place of operators, by operator.
    """
    table = {**_core(), **table}
    graph = Graph()
    tracer = _Tracer(graph, Module(), "fake", table)
    values, fake = [], None
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        value = node.meta.get("val")
        made = placeholder(graph, node.name)
        if isinstance(value, FakeTensor):
            fake = value.fake_mode
            tracer.track(value, made)
        made.meta.update(node.meta)
        values.append(value)
    if fake is None:
        return program
    tracer.shape_env = fake.shape_env
    interpreter = _Replay(program.graph_module, tracer)
    with rl.no_grad(), fake, tracer, FunctionalLevel() as level:
        given = [level.wrap(v) if isinstance(v, Tensor) else v for v in values]
        results = interpreter.run(*given, enable_io_processing=False)
        written = [
            level.unwrap(g) if isinstance(g, Tensor) and level.written(g) else None
            for g in given
        ]
        results = [level.unwrap(r) if isinstance(r, Tensor) else r for r in results]
    return _finished(program, tracer, written, results)


def _finished(program, tracer, written, results):
    graph, signature = tracer.graph, program.graph_signature
    kinds = {
        InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
        InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
        InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
    }
    outputs, specs = [], []
    for spec, value in zip(signature.input_specs, written):
        if value is None:
            continue
        node = tracer.node_of(value)
        target = spec.target if spec.target is not None else spec.arg.name
        outputs.append(node)
        kind = kinds[spec.kind]
        specs.append(OutputSpec(kind, TensorArgument(node.name), target))
    before = writes(signature)
    for spec, value in zip(signature.output_specs, results):
        if not isinstance(value, (Tensor, SymInt)):
            outputs.append(value)
            specs.append(OutputSpec(spec.kind, ConstantArgument("", value), None))
            continue
        node = tracer.node_of(value)
        outputs.append(node)
        kind = TensorArgument if isinstance(value, Tensor) else SymIntArgument
        target = spec.target if spec in before else None
        specs.append(OutputSpec(spec.kind, kind(node.name), target))
    graph.output(tuple(outputs))
    _without_dead(graph)
    module = GraphModule(tracer.root, graph)
    return ExportedProgram(
        module,
        graph,
        ExportGraphSignature(list(signature.input_specs), specs),
        dict(program.state_dict),
        dict(program.range_constraints),
        program.module_call_graph,
        program.example_inputs,
        program.constants,
        guards=program._guards,
        dialect="ATEN",
    )


def _without_dead(graph):
    """Takes out steps that nothing needs: none of them writes."""
    for node in reversed(list(graph.nodes)):
        if node.op in ("call_function", "get_attr") and not node.users:
            graph.erase_node(node)


class _Tracer(ProxyTorchDispatchMode):
    """Notes where steps come from, as the program that is taken apart says."""

    notes: dict = {}

    def track(self, tensor, node):
        super().track(tensor, node)
        for key in ("stack_trace", "nn_module_stack"):
            if key in self.notes:
                node.meta.setdefault(key, self.notes[key])


class _Replay(Interpreter):
    """Runs a program's steps, and tells the tracer which one is running."""

    def __init__(self, module, tracer):
        super().__init__(module)
        self.tracer = tracer

    def run_node(self, n: Node):
        self.tracer.notes = n.meta
        return super().run_node(n)


def _core():
    """What PyTorch's core set has in place of operators that are primitive here."""

    def linear(input, weight, bias=None):
        turned = weight.permute([1, 0])
        if input.dim() == 2:
            if bias is None:
                return input.mm(turned)
            return rl.addmm(bias, input, turned)
        flat = input.reshape([-1, input.shape[-1]])
        made = flat.mm(turned) if bias is None else rl.addmm(bias, flat, turned)
        return made.view([*input.shape[:-1], weight.shape[0]])

    def reshape(input, shape):
        if input.is_contiguous():
            return input.view(shape)
        return NotImplemented

    def total(input, *, dtype=None):
        return rl.sum(input, [], dtype=dtype)

    return {
        call.linear.overloads[0]: linear,
        call.reshape.overloads[0]: reshape,
        call.sum.overloads[0]: total,
    }
