"""ONNX's messages: graphs, models, and files of them."""

import os

import rushlight as rl
from rushlight.io.serialization import replacing
from rushlight.ir.symbolic import SymInt
from rushlight.onnx._types import number_of, raw_bytes

# A message of protobuf holds no more; ONNX keeps larger weights in a file beside it.
LARGEST = 2**31 - 2**20
_INLINE = 1024  # bytes of a tensor that are never worth a place in another file
_IR = 10  # the first in which nodes say where they come from


def value_info(value, fake=None, names=None):
    """The name, type and sizes of an input or a result.

    Args:
        value: the value.
        fake: what the recording has in its place.
        names: what open sizes are called, by the names that they have in the program.
    """
    from onnx import helper

    dtype = fake.dtype if isinstance(fake, rl.Tensor) else value.dtype
    shape = fake.shape if isinstance(fake, rl.Tensor) else value.shape
    sizes = None if shape is None else [size_name(one, names or {}) for one in shape]
    return helper.make_tensor_value_info(value.name, number_of(dtype), sizes)


def size_name(size, names):
    """A size: the number, or what it is called; None for what is not known."""
    if type(size) is int:
        return size
    if not isinstance(size, SymInt):
        return None
    text = str(size.expr)
    for name, shown in names.items():
        if text == name:
            return shown
    words = text.replace("(", "( ").replace(")", " )").split()
    return (
        " ".join(names.get(word, word) for word in words)
        .replace("( ", "(")
        .replace(" )", ")")
    )


def tensor_proto(name, tensor):
    """A tensor, or an array, as a message."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    if isinstance(tensor, np.ndarray):
        return numpy_helper.from_array(tensor, name)
    made = TensorProto(name=name, data_type=number_of(tensor.dtype))
    made.dims.extend(tensor.shape)
    made.raw_data = raw_bytes(tensor)
    return made


def looks_trained(proto):
    """Whether a reader takes a tensor of a file for a weight: real numbers in a row."""
    from onnx import helper

    kind = helper.tensor_dtype_to_np_dtype(proto.data_type).kind
    return bool(proto.dims) and kind == "f"


def constant_node(proto):
    """A tensor's message as a node that gives it: not a weight."""
    from onnx import helper

    return helper.make_node(
        "Constant", [], [proto.name], name=f"node_{proto.name}", value=proto
    )


def graph_proto(graph, name, inputs, outputs, weights=()):
    """A graph as a message.

    Args:
        graph: a `GraphBuilder`.
        name: the graph's name.
        inputs: messages of its inputs; ``outputs`` too.
        weights: messages of its tensors.
    """
    from onnx import helper

    return helper.make_graph(graph.nodes, name, inputs, outputs, list(weights))


def model_proto(graph, proto):
    """The whole model around a graph's message.

    Args:
        graph: what has been built: its domains and functions are the model's.
        proto: the message of the graph.
    """
    from onnx import helper

    imports = [helper.make_opsetid("", graph.opset)]
    imports += [helper.make_opsetid(*pair) for pair in graph.domains.items()]
    least = helper.find_min_ir_version_for(imports, ignore_unknown=True)
    return helper.make_model(
        proto,
        opset_imports=imports,
        functions=list(graph.functions.values()),
        ir_version=max(_IR, least),
        producer_name="rushlight",
        producer_version=rl.__version__,
    )


# -- files -------------------------------------------------------------------------------


def save_model(proto, weights, path, external=None):
    """Writes a model to a file, at once or not at all.

    Args:
        proto: the model's message without its weights; it is as before when this is
            done.
        weights: tensors by name.
        path: a path, or a file that is open for bytes.
        external: whether weights go to a file beside it; by itself where they are too
            large for one message.
    """
    total = sum(one.numel() * one.element_size() for one in weights.values())
    if external is None:
        external = total > LARGEST
    initializers = proto.graph.initializer
    before = len(initializers)
    try:
        if hasattr(path, "write"):
            initializers.extend(tensor_proto(*item) for item in weights.items())
            path.write(proto.SerializeToString())
            return
        path = os.fspath(path)
        if external and any(_is_large(one) for one in weights.values()):
            _write_external(weights, path, initializers)
        else:
            initializers.extend(tensor_proto(*item) for item in weights.items())
        with replacing(path) as file:
            file.write(proto.SerializeToString())
    finally:
        del initializers[before:]


def _is_large(tensor):
    return tensor.numel() * tensor.element_size() > _INLINE


def _write_external(weights, path, initializers):
    """Writes weights to ``path.data``, and says in their messages where they are."""
    from onnx import TensorProto

    data = f"{path}.data"
    with replacing(data) as file:
        for name, tensor in weights.items():
            if not _is_large(tensor):
                initializers.append(tensor_proto(name, tensor))
                continue
            file.write(b"\0" * (-file.tell() % 64))
            start = file.tell()
            raw = raw_bytes(tensor)
            file.write(raw)
            made = initializers.add()
            made.name, made.data_type = name, number_of(tensor.dtype)
            made.dims.extend(tensor.shape)
            made.data_location = TensorProto.EXTERNAL
            for key, value in (
                ("location", os.path.basename(data)),
                ("offset", start),
                ("length", len(raw)),
            ):
                entry = made.external_data.add()
                entry.key, entry.value = key, str(value)
