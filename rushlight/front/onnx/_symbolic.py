"""Functions of users that write operators: what they are called with."""

import re

import rushlight as rl
from rushlight.onnx._graph import Value
from rushlight.onnx._types import number_of
from rushlight.onnx.errors import OnnxExporterError
from rushlight.utils._pytree import tree_leaves

_ATTRIBUTE = re.compile(r"^(.+)_(([ifstgz])|(ty))$")


class SymbolicContext:
    """The graph as such functions know it: ``g.op("domain::Name", x, alpha_f=1.0)``.

    Args:
        graph: the graph that is built.
    """

    def __init__(self, graph):
        self.graph, self.opset = graph, graph.opset

    def op(self, opname, *raw_args, outputs=1, **kwargs):
        """One more node.

        Args:
            opname: the operator, with its domain before it unless it is ONNX's own.
            raw_args: values and numbers.
            outputs: how many results it has.
            kwargs: attributes, with the letter of their type behind their names.
        """
        domain, colons, name = opname.rpartition("::")
        domain = "" if domain in ("onnx", "aten_onnx") else domain
        if colons and domain:
            self.graph.domains.setdefault(domain, 1)
        attributes = {}
        for key, value in kwargs.items():
            found = _ATTRIBUTE.match(key)
            if found is None:
                raise OnnxExporterError(
                    f"Invalid attribute specifier '{key}' names must be suffixed with "
                    "type, e.g. 'dim_i' or 'dims_i'"
                )
            if isinstance(value, rl.Tensor):
                from rushlight.onnx._model import tensor_proto

                value = tensor_proto("", value)
            attributes[found.group(1)] = value
        given = [self._operand(one) for one in raw_args]
        kinds = [one.dtype for one in given if one is not None]
        kind = kinds[0] if kinds else None
        made = self.graph.op(
            name, *given, outputs=outputs, domain=domain, dtype=kind,
            shape=given[0].shape if given and given[0] is not None else None,
            **attributes,
        )  # fmt: skip
        return made

    def _operand(self, value):
        if value is None or isinstance(value, Value):
            return value
        if isinstance(value, rl.Tensor):
            return self.graph.const(value.tolist(), value.dtype)
        leaf = (tree_leaves(value) or [0])[0]
        kind = {bool: rl.bool, int: rl.int64, float: rl.float32}[type(leaf)]
        return self.graph.const(value, kind)

    def cast(self, value, dtype):
        """A value with elements of another type."""
        return self.graph.op("Cast", value, to=number_of(dtype), dtype=dtype)


def call_symbolic(function, graph, args, kwargs):
    """What a user's function writes for a call.

    Args:
        function: takes the graph and the call's arguments; or a function of onnxscript,
            which becomes a function of the model.
        graph: the graph that is built.
        args: the arguments; ``kwargs`` too.
    """
    if isinstance(function, (list, tuple)):
        function = function[0]
    proto = getattr(function, "to_function_proto", None)
    if proto is None:
        return function(SymbolicContext(graph), *args, **kwargs)
    found = proto()
    key = found.domain, found.name
    graph.functions[key] = found
    graph.domains.setdefault(found.domain, 1)
    for one in found.opset_import:
        if one.domain not in ("", found.domain):
            graph.domains.setdefault(one.domain, one.version)
    values = [one for one in args if one is None or isinstance(one, Value)]
    names = list(found.attribute) + [one.name for one in found.attribute_proto]
    attributes = {k: v for k, v in kwargs.items() if k in names}
    rest = [one for one in args if one is not None and not isinstance(one, Value)]
    attributes.update(zip((one for one in names if one not in kwargs), rest))
    return graph.op(
        found.name, *values, domain=found.domain, outputs=len(found.output),
        dtype=values[0].dtype if values and values[0] is not None else None,
        **attributes,
    )  # fmt: skip
