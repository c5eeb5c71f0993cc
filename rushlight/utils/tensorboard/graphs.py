"""A model as a graph that TensorBoard draws: what its call does, inside of its modules."""

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

import rushlight as rl
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_leaves


def _tensors(tree):
    return [each for each in tree_leaves(tree) if isinstance(each, rl.Tensor)]


class _Recorder(TorchDispatchMode):
    """Makes a node of every operator that is called, under the module that calls it."""

    def __init__(self, model):
        super().__init__()
        self.nodes, self.used = [], set()
        self.makers = {}  # id of a tensor -> the name of the node that it comes from
        self.alive = []  # tensors that are seen, so that no two have one id
        root = type(model).__name__
        self.positions = {
            module: [root, *name.split(".")] for name, module in _named(model)
        }
        self.stack = [[root]]
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            self.hold(tensor, "/".join([root, *name.split(".")]), "Parameter")

    def hold(self, tensor, name, op, inputs=()):
        """A node for a tensor, or for what makes it."""
        at, unique = 1, name
        while unique in self.used:
            unique, at = f"{name}_{at}", at + 1
        self.used.add(unique)
        attributes = {}
        if tensor is not None:
            shape = _shape_of(tensor.shape)
            shapes = AttrValue(list=AttrValue.ListValue(shape=[shape]))
            attributes["_output_shapes"] = shapes
            self.makers[id(tensor)] = unique
            self.alive.append(tensor)
        node = NodeDef(name=unique, op=op, input=list(inputs), attr=attributes)
        self.nodes.append(node)
        return unique

    def sources(self, tree):
        """The nodes that the tensors of a nest come from."""
        makers = (self.makers.get(id(each)) for each in _tensors(tree))
        return [maker for maker in makers if maker is not None]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        op = func.name().split(".")[0]
        inputs = self.sources((args, kwargs or {}))
        outputs = _tensors(result)
        first = outputs[0] if outputs else None
        path = "/".join([*self.stack[-1], op.split("::")[-1]])
        made = self.hold(first, path, op, inputs)
        for other in outputs[1:]:
            self.makers[id(other)] = made
            self.alive.append(other)
        return result

    def enter(self, module, args):
        """A module begins; what is called now is inside of it."""
        self.stack.append(self.positions.get(module, self.stack[-1]))

    def leave(self, module, args, output):
        """The module is done."""
        self.stack.pop()


def _named(model):
    return [(name, module) for name, module in model.named_modules() if name]


def graph_of(model, inputs):
    """The graph of one call of a model, without gradients.

    Args:
        model: the module.
        inputs: its argument, or a tuple of them.

    Returns:
        A ``GraphDef``.
    """
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    recorder = _Recorder(model)
    handles = []
    for _, module in _named(model):
        handles.append(module.register_forward_pre_hook(recorder.enter))
        handles.append(module.register_forward_hook(recorder.leave, always_call=True))
    try:
        for i, tensor in enumerate(_tensors(given)):
            recorder.hold(tensor, f"input/{i}", "IO Node")
        with rl.no_grad(), recorder:
            output = model(*given)
        for i, tensor in enumerate(_tensors(output)):
            recorder.hold(None, f"output/{i}", "IO Node", recorder.sources(tensor))
    finally:
        for handle in handles:
            handle.remove()
    return GraphDef(node=recorder.nodes, versions=VersionDef(producer=22))


def _shape_of(sizes):
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def graph_of_onnx(path):
    """The graph of an ONNX model: its inputs and outputs, and a node for each call.

    Args:
        path: the model's file.

    Returns:
        A ``GraphDef``.
    """
    import onnx

    graph = onnx.load(path).graph
    nodes = []
    for value in [*graph.input, *graph.output]:
        kind = value.type.tensor_type
        sizes = [dim.dim_value for dim in kind.shape.dim]
        facts = {
            "dtype": AttrValue(type=kind.elem_type),
            "shape": AttrValue(shape=_shape_of(sizes)),
        }
        nodes.append(NodeDef(name=value.name, op="Variable", attr=facts))
    for node in graph.node:
        texts = [
            " = ".join(str(value) for _, value in attribute.ListFields())
            for attribute in node.attribute
        ]
        facts = {"parameters": AttrValue(s=", ".join(texts).encode())}
        name = node.output[0]
        nodes.append(NodeDef(name=name, op=node.op_type, input=node.input, attr=facts))
    return GraphDef(node=nodes, versions=VersionDef(producer=22))
