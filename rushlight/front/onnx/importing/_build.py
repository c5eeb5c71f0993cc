"""Graphs of ONNX as modules: a call for each node."""

from __future__ import annotations

import operator
import re

import rushlight as rl
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.onnx._operands import names_in
from rushlight.onnx._types import dtype_of
from rushlight.onnx.errors import OnnxLoadError
from rushlight.onnx.importing._reader import attribute_of, tensor_of
from rushlight.onnx.importing._table import IMPLEMENTED

_PART = re.compile(r"([A-Za-z_]\w*|\d+)$", re.ASCII)
_SMALL = 64  # integers of a constant that are written into the program
_DEEPEST = 32  # graphs inside of graphs
_OWN = ("", "ai.onnx")
# How the graphs of a node, and its operands, become its function's arguments.
_WITH_GRAPHS = {
    "If": lambda given, graphs: [*given, graphs["then_branch"], graphs["else_branch"]],
    "Loop": lambda given, graphs: [*given[:2], graphs["body"], given[2:]],
    "Scan": lambda given, graphs: [graphs["body"], given],
    "SequenceMap": lambda given, graphs: [graphs["body"], given],
}


class OnnxModule(GraphModule):
    """A model of ONNX as a module; an error inside names the file and the node.

    Attributes:
        inputs: name, type of elements and sizes of each input; sizes are numbers, names,
            or None.
        source: what messages call the file.
    """

    def __init__(self, root, graph, inputs=(), source="", strict=True):
        super().__init__(root, graph, "OnnxModule")
        self.inputs, self.source, self.strict = list(inputs), source, strict

    def __call__(self, *args, **kwargs):
        if self.strict and self.inputs:
            check_inputs(self.inputs, args, kwargs, self.source)
        try:
            return super().__call__(*args, **kwargs)
        except OnnxLoadError as error:
            if "node" in str(error):
                raise
            raise self._located(args, kwargs, error) from error
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError,
                KeyError, ZeroDivisionError, OverflowError) as error:  # fmt: skip
            raise self._located(args, kwargs, error) from error

    def _located(self, args, kwargs, error):
        """The error with the node that it comes from: the run is repeated to find it."""
        finder = _Finder(self)
        names = [one.name for one in self.graph.nodes if one.op == "placeholder"]
        given = [
            *args,
            *(kwargs[name] for name in names[len(args) :] if name in kwargs),
        ]
        try:
            finder.run(*given)
        except Exception:
            if finder.node is not None:
                what = finder.node.meta.get("onnx_node", finder.node.name)
                return OnnxLoadError(
                    f"onnx.load: {self.source}: node {what}: {error}\n  remedy: give "
                    "inputs of the sizes that the model is for, or write it once more"
                )
        return OnnxLoadError(f"onnx.load: {self.source}: {error}")


class _Finder(Interpreter):
    """Runs a module step by step, and keeps the one that is running."""

    node = None

    def __init__(self, module):
        super().__init__(module)
        self.extra_traceback = False

    def run_node(self, n):
        if n.op == "call_function":
            self.node = n
        return super().run_node(n)


def check_inputs(inputs, args, kwargs, source):
    """Compares arguments with what a file says of its inputs.

    Raises:
        OnnxLoadError: types or sizes differ; it names the input.
    """
    known: dict = {}
    rest = [kwargs[name] for name, _, _ in inputs[len(args) :] if name in kwargs]
    for (name, dtype, sizes), value in zip(inputs, [*args, *rest]):
        if not isinstance(value, rl.Tensor):
            continue
        shown = f"{value.dtype}{list(value.shape)}"
        if dtype is not None and value.dtype is not dtype:
            raise OnnxLoadError(
                f"onnx.load: {source}: input {name!r} is {shown}, but the file says "
                f"{dtype}\n  remedy: {name}.to({dtype})"
            )
        if sizes is None:
            continue
        fits = len(sizes) == value.dim() and all(
            size is None or known.setdefault(size, have) == have if isinstance(size, str)
            else size is None or size == have
            for size, have in zip(sizes, value.shape)
        )  # fmt: skip
        if not fits:
            raise OnnxLoadError(
                f"onnx.load: {source}: input {name!r} is {shown}, but the file says "
                f"[{', '.join(map(str, sizes))}]"
                + (f" where {known}" if known else "")
                + "\n  remedy: give that size, or load with strict=False"
            )


# -- nodes -------------------------------------------------------------------------------


def run_node(proto, values, opset):
    """Computes one node, as a list of results.

    Args:
        proto: the node.
        values: its operands.
        opset: the version of ONNX's operators.

    Raises:
        OnnxLoadError: there is no such operator.
    """
    found = IMPLEMENTED.get(proto.op_type)
    if found is None or proto.op_type in _WITH_GRAPHS:
        raise OnnxLoadError(f"{proto.op_type} is not known")
    from rushlight.onnx.importing._reader import Source

    source = Source("<graph>")
    attributes = {
        one.name: attribute_of(one, source, proto.op_type) for one in proto.attribute
    }
    given = iter(values)
    operands = [next(given) if name else None for name in proto.input]
    made = found.function(
        *operands, **attributes, **found.arguments(opset, len(proto.output))
    )
    return list(made) if isinstance(made, (list, tuple)) else [made]


class Builder:
    """Makes a module of a graph.

    Args:
        graph_proto: the graph's message.
        model: what all graphs of a model share.
        captured: names from around, which come in as arguments behind the graph's own.
        depth: how many graphs are around this one.
    """

    def __init__(self, graph_proto, model, captured=(), depth=0):
        if depth > _DEEPEST:
            raise model.source.error(
                f"more than {_DEEPEST} graphs inside of each other"
            )
        self.proto, self.model, self.captured = graph_proto, model, list(captured)
        self.source, self.depth = model.source, depth
        self.graph, self.root = Graph(), Module()
        self.env: dict = {"": None}
        self.plain: dict = {}  # small integers that are written into the program
        self.count = 0

    def module(self):
        """The whole graph."""
        own = {one.name for one in self.proto.initializer}
        inputs = []
        for info in self.proto.input:
            if info.name in own:
                continue  # a weight that may be replaced: it stays as it is
            self._placeholder(info.name)
            inputs.append(_input_row(info))
        for name in self.captured:
            self._placeholder(name)
        kept = set(self._kept())
        for tensor in self.proto.initializer:
            self._weight(tensor, tensor.name not in kept)
        if self.proto.sparse_initializer:
            raise self.source.error("its weights are sparse, which is not known here",
                                    "write them as plain tensors")  # fmt: skip
        for at, node in enumerate(self.proto.node):
            self._node(node, f"{node.name or at!r} ({node.op_type})", {})
        results = [
            self._value(one.name, "the graph's result") for one in self.proto.output
        ]
        self.graph.output(results[0] if len(results) == 1 else tuple(results))
        strict = self.model.strict and self.depth == 0
        return OnnxModule(self.root, self.graph, inputs, self.source.name, strict)

    def _placeholder(self, name):
        self.env[name] = self.graph.placeholder(_identifier(name))

    def _value(self, name, what):
        if name not in self.env:
            raise self.source.error(
                f"{what} needs {name!r}, which no node before it gives",
                "write the model once more; its nodes have to be in order",
            )
        return self.env[name]

    # -- constants ---------------------------------------------------------------------

    def _kept(self):
        """Names of what nodes read and no training changes."""
        for node in self.proto.node:
            if node.domain in _OWN and node.op_type in IMPLEMENTED:
                kept = IMPLEMENTED[node.op_type].kept
                yield from (node.input[at] for at in kept if at < len(node.input))

    def _weight(self, proto, trained):
        tensor = tensor_of(proto, self.source, f"the weight {proto.name!r}")
        if _is_small(tensor):
            self.plain[proto.name] = tensor
        self.env[proto.name] = self._attribute(proto.name, tensor, trained)

    def _attribute(self, name, tensor, trained=False):
        """A step that reads a tensor of the module, a parameter or a buffer."""
        path = self._path(name)
        *parts, own = path.split(".")
        home = self.root
        for part in parts:
            if part not in home._modules:
                home.add_module(part, Module())
            home = home._modules[part]
        if trained and tensor.dtype.is_floating_point and tensor.dim():
            home.register_parameter(own, Parameter(tensor))
        else:
            home.register_buffer(own, tensor)
        return self.graph.get_attr(path)

    def _path(self, name):
        """Where a weight lies in the module: by its name, if that can be a path."""
        parts = name.split(".")
        home, free = self.root, all(_PART.match(one) for one in parts)
        for at, part in enumerate(parts):
            if not free:
                break
            last = at + 1 == len(parts)
            if last or part not in home._modules:
                free = part not in home._modules and not hasattr(home, part)
                break
            home = home._modules[part]
        if free:
            return name
        self.count += 1
        return f"_{_identifier(name)}_{self.count}"

    # -- nodes -------------------------------------------------------------------------

    def _node(self, node, what, replaced):
        """One call, or those of a function of the model."""
        what = f"node {what}"
        function = self.model.functions.get((node.domain, node.op_type))
        if function is not None:
            return self._inlined(node, function, what)
        if node.domain not in _OWN or node.op_type not in IMPLEMENTED:
            name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            raise self.source.error(
                f"{what}: the operator {name} is not known here",
                "rushlight.onnx.importing.implements(name)(function) teaches one of "
                "ONNX's own; a function of the model works in any domain",
            )
        operands = [self._value(name, what) for name in node.input]
        attributes, graphs = self._attributes(node, what)
        made = self._call(node, operands, attributes, graphs)
        made.meta["onnx_node"] = what.removeprefix("node ")
        outputs = [name for name in node.output]
        if len(outputs) == 1:
            self.env[outputs[0]] = made
            return None
        for at, name in enumerate(outputs):
            if name:
                self.env[name] = self.graph.call_function(operator.getitem, (made, at))
        return None

    def _attributes(self, node, what):
        attributes, graphs = {}, {}
        known = IMPLEMENTED[node.op_type]
        for one in node.attribute:
            if not known.takes(one.name):
                raise self.source.error(
                    f"{what} has an attribute {one.name!r}, which {node.op_type} has not",
                    "write the model once more, for a version that is known here",
                )
            if one.HasField("g"):
                graphs[one.name] = self._inner(one.g)
                continue
            value = attribute_of(one, self.source, what)
            if isinstance(value, rl.Tensor):
                value = self._attribute(f"{node.op_type.lower()}_value", value)
            if value is not None:
                attributes[one.name] = value
        return attributes, graphs

    def _inner(self, proto):
        """A graph inside of a node: its module, and what it takes from around."""
        made = {one.name for one in proto.input} | {
            one.name for one in proto.initializer
        }
        names = []
        for node in proto.node:
            names += [one for one in names_in(node) if one not in made]
            made.update(node.output)
        names += [one.name for one in proto.output if one.name not in made]
        names = [one for one in dict.fromkeys(names) if one]
        for name in names:
            self._value(name, "a graph inside of a node")
        return proto, names

    def _call(self, node, operands, attributes, graphs):
        found = IMPLEMENTED[node.op_type]
        rest = found.arguments(self.model.opset, len(node.output))
        if node.op_type not in _WITH_GRAPHS:
            operands = self._written_down(node, operands)
            args = tuple(operands)
            return self.graph.call_function(
                found.function, args, {**attributes, **rest}
            )
        captured = list(dict.fromkeys(n for _, names in graphs.values() for n in names))
        modules = {}
        for name, (proto, _) in graphs.items():
            inner = Builder(proto, self.model, captured, self.depth + 1).module()
            self.count += 1
            path = f"_{name}_{self.count}"
            self.root.add_module(path, inner)
            modules[name] = self.graph.get_attr(path)
        missing = {"If": ("then_branch", "else_branch")}.get(node.op_type, ("body",))
        if any(one not in modules for one in missing):
            raise self.source.error(
                f"node {node.name!r} ({node.op_type}) lacks its graph"
            )
        if node.op_type == "Loop":
            operands += [None] * (2 - len(operands))
        args = _WITH_GRAPHS[node.op_type](operands, modules)
        args += [self.env[name] for name in captured]
        return self.graph.call_function(
            found.function, tuple(args), {**attributes, **rest}
        )

    def _written_down(self, node, operands):
        """Operands, small constant integers as lists where sizes are meant."""
        wanted = _INTEGERS.get(node.op_type, ())
        return [
            self.plain[name].tolist() if at in wanted and name in self.plain else one
            for at, (name, one) in enumerate(zip(node.input, operands))
        ]

    def _inlined(self, node, function, what):
        """The nodes of a function of the model, in the place of its call."""
        self.model.enter(function, what)
        operands = [self._value(name, what) for name in node.input]
        outer, plain = self.env, self.plain
        self.env = {"": None, **dict(zip(function.input, operands))}
        self.env.update((name, None) for name in function.input[len(operands) :])
        self.plain = {
            inner: plain[name]
            for inner, name in zip(function.input, node.input) if name in plain
        }  # fmt: skip
        given = {one.name: one for one in function.attribute_proto}
        given.update((one.name, one) for one in node.attribute)
        for at, one in enumerate(function.node):
            made = type(one)()
            made.CopyFrom(one)
            _fill_attributes(made, given)
            self._node(made, f"{what}, {one.name or at!r} ({one.op_type})", given)
        results = [self._value(name, what) for name in function.output]
        self.env, self.plain = outer, plain
        self.env.update((name, one) for name, one in zip(node.output, results) if name)
        self.model.leave(function)


# Operands that are integers of sizes, by operator: as lists they need no tensor.
_INTEGERS = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Squeeze": (1,), "Unsqueeze": (1,),
    "Slice": (1, 2, 3, 4), "Split": (1,), "Pad": (1, 3), "ReduceSum": (1,),
    "ReduceMean": (1,), "ReduceMax": (1,), "ReduceMin": (1,), "ReduceProd": (1,),
    "ReduceL1": (1,), "ReduceL2": (1,), "ReduceLogSumExp": (1,), "ReduceLogSum": (1,),
    "ReduceSumSquare": (1,), "ConstantOfShape": (0,), "TopK": (1,), "CumSum": (1,),
}  # fmt: skip


def _fill_attributes(node, given):
    """Gives attributes that name one of the function's its value."""
    kept = []
    for one in node.attribute:
        if one.ref_attr_name:
            value = given.get(one.ref_attr_name)
            if value is None:
                continue
            made = type(one)()
            made.CopyFrom(value)
            made.name = one.name
            kept.append(made)
        else:
            for graph in [one.g] if one.HasField("g") else list(one.graphs):
                for child in graph.node:
                    _fill_attributes(child, given)
            kept.append(one)
    kept = [type(one).FromString(one.SerializeToString()) for one in kept]
    del node.attribute[:]
    node.attribute.extend(kept)


def _is_small(tensor):
    whole = tensor.dtype in (rl.int64, rl.int32)
    return whole and tensor.dim() <= 1 and tensor.numel() <= _SMALL


def _identifier(name):
    """A name that is one of Python's."""
    made = re.sub(r"\W", "_", name, flags=re.ASCII)
    return made if made[:1].isalpha() or made[:1] == "_" else f"_{made}"


def _input_row(info):
    """What a file says of an input."""
    if not info.type.HasField("tensor_type"):
        return info.name, None, None
    kind = info.type.tensor_type
    sizes = None
    if kind.HasField("shape"):
        sizes = [
            one.dim_value if one.HasField("dim_value") else one.dim_param or None
            for one in kind.shape.dim
        ]
    return info.name, dtype_of(kind.elem_type), sizes


class Model:
    """What the graphs of one model share.

    Args:
        proto: the model's message.
        source: where it comes from.
        strict: whether sizes of inputs are checked.
    """

    def __init__(self, proto, source, strict):
        self.source, self.strict = source, strict
        versions = {one.domain: one.version for one in proto.opset_import}
        self.opset = versions.get("", versions.get("ai.onnx", 13))
        self.functions = {(one.domain, one.name): one for one in proto.functions}
        self.running: list = []

    def enter(self, function, what):
        """Begins a function; one that calls itself is refused."""
        key = function.domain, function.name
        if key in self.running:
            raise self.source.error(
                f"{what}: the function {function.name} calls itself"
            )
        self.running.append(key)

    def leave(self, function):
        """Ends it."""
        self.running.remove((function.domain, function.name))


def build(proto, source, strict=True):
    """A module of a model's message."""
    return Builder(proto.graph, Model(proto, source, strict)).module()
