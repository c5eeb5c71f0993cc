"""Graphs with recorders in them, and with parts of another graph beside their own."""

from typing import NamedTuple

import rushlight as rl
from rushlight.ao.nn import quantized as nnq
from rushlight.ao.ns.fx.graph_matcher import is_observer, modules_of
from rushlight.ao.ns.fx.ns_types import NSSingleResultValuesType
from rushlight.ao.ns.fx.utils import get_target_type_str, path_of
from rushlight.ao.quantization.utils import getattr_from_fqn
from rushlight.fx import Graph, GraphModule, Node, map_arg

INPUT = NSSingleResultValuesType.NODE_INPUT.value
OUTPUT = NSSingleResultValuesType.NODE_OUTPUT.value


class Side(NamedTuple):
    """One of two compared models, and a part of it.

    Attributes:
        name: the model's.
        model: the graph's module.
        part: an `NSSubgraph`.
        reference: the name that the part has on both sides.
    """

    name: str
    model: GraphModule
    part: tuple
    reference: str


def sources_of(node, several=False):
    """The nodes that a node reads values from, by the index of the argument.

    Args:
        node: of a graph.
        several: whether all arguments count, or the first alone.

    Yields:
        tuple: index of the argument, index within a list, and the node.
    """
    args = node.args or tuple(node.kwargs.values())
    for index, arg in enumerate(args if several else args[:1]):
        for within, each in enumerate(arg if isinstance(arg, (list, tuple)) else [arg]):
            if isinstance(each, Node) and (index == 0 or each.op != "get_attr"):
                yield index, within, each


class Instrumented:
    """A copy of a graph, node by node, with recorders.

    Args:
        model: the graph's module, which gets the recorders.
        logger_cls: makes recorders.
    """

    def __init__(self, model, logger_cls):
        self.model, self.logger_cls = model, logger_cls
        self.graph, self.copies = Graph(), {}

    def copy(self, node):
        """Copies a node; it reads what recorders let through."""
        if node.op == "output":
            return self.graph.output(map_arg(node.args[0], self.copies.__getitem__))
        self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)
        return self.copies[node]

    def free_name(self, prefix):
        """The first name that the model has not, of a prefix and a number."""
        number = 0
        while hasattr(self.model, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def call(self, name, module, *args):
        """A node that calls a module under a new name."""
        setattr(self.model, name, module)
        return self.graph.create_node("call_module", name, args, {}, name)

    def log(self, value, side, node, kind, suffix, index=0, within=0):
        """A recorder behind a node of the copy.

        Args:
            value: the node.
            side: whose value it is.
            node: that the value is taken or given by.
            kind: ``node_input`` or ``node_output``.
            suffix: of the recorder's name.
            index, within: of the argument, and within a list.
        """
        name = self.free_name(value.name + suffix)
        base = side.part.base_op_node
        logger = self.logger_cls(
            node.name, value.name, side.name, side.reference,
            get_target_type_str(value, self.model), get_target_type_str(base, side.model),
            kind, within, index, path_of(base, side.model),
        )  # fmt: skip
        return self.call(name, logger, value)

    def log_inputs(self, node, side, suffix, several):
        """Recorders in front of a node that is yet to be copied."""
        for index, within, source in list(sources_of(node, several)):
            seen = self.copies[source]
            self.copies[source] = self.log(
                seen, side, node, INPUT, suffix, index, within
            )

    def log_output(self, node, side, suffix):
        """A recorder behind a node that was copied."""
        value = self.copies[node]
        self.copies[node] = self.log(value, side, node, OUTPUT, suffix)

    def made(self):
        """The module of the copy."""
        return GraphModule(self.model, self.graph)


def add_loggers_to_model(model, sides, logger_cls, should_log_inputs):
    """A graph's module with recorders around its parts.

    Args:
        model: the graph's module.
        sides: a `Side` for each part.
        logger_cls: makes recorders.
        should_log_inputs: whether what parts take is recorded, too.
    """
    first = {side.part.start_node: side for side in sides}
    last = {side.part.end_node: side for side in sides}
    found = Instrumented(model, logger_cls)
    for node in model.graph.nodes:
        if should_log_inputs and node in first:
            found.log_inputs(node, first[node], "_ns_logger_", True)
        found.copy(node)
        if node in last:
            found.log_output(node, last[node], "_ns_logger_")
    return found.made()


# ---- a graph's parts beside another's


def _nodes_of(part):
    """The nodes of a part, the first one first."""
    found = [part.end_node]
    while found[0] is not part.start_node:
        found.insert(0, found[0].args[0])
    return found


def is_quantizing(module):
    """Whether a module makes integers of numbers."""
    return isinstance(module, nnq.Quantize)


def gives_integers(node, model):
    """Whether a node's result is quantized: made so, or of what it reads.

    Args:
        node: of the graph.
        model: the graph's module.
    """
    modules = modules_of(model)
    while True:
        if node.target is rl.quantize_per_tensor:
            return True
        if node.op == "placeholder" or node.target in ("dequantize", rl.dequantize):
            return False
        if node.op == "call_module":
            module = modules[node.target]
            if is_quantizing(module):
                return True
            if isinstance(module, nnq.DeQuantize):
                return False
        sources = list(sources_of(node))
        if not sources:
            return False
        node = sources[0][2]


def _quantized_like(node, model):
    """The scale and the zero point of a quantized node; None where they are unknown."""
    modules = modules_of(model)
    module = modules.get(node.target) if node.op == "call_module" else None
    if module is not None and hasattr(module, "zero_point"):
        return module.scale, module.zero_point
    named = [arg for arg in node.args if isinstance(arg, Node) and arg.op == "get_attr"]
    if node.op == "call_function" and len(named) >= 2:
        return tuple(getattr_from_fqn(model, arg.target) for arg in named[-2:])
    sources = list(sources_of(node))
    return _quantized_like(sources[0][2], model) if sources else None


class Shadowing(Instrumented):
    """A copy of a graph with parts of another one beside its own.

    Args:
        model, logger_cls, should_log_inputs: as for `add_loggers_to_model`.
    """

    def __init__(self, model, logger_cls, should_log_inputs):
        super().__init__(model, logger_cls)
        self.should_log_inputs = should_log_inputs

    def why_not(self, part, other):
        """Why a part has no other one beside it; None where it has."""
        for side in (part, other):
            first, *rest = _nodes_of(side.part)
            several = len(list(sources_of(first, True))) > 1
            recurrent = first.op == "call_module" and len(first.args) == 2
            one = first.args and isinstance(first.args[0], Node)
            if not one or (several and not recurrent):
                return "unsupported"
            if any(len(list(sources_of(node, True))) > 1 for node in rest):
                return "unhandled logic in subgraph copy"
        source = other.part.start_node.args[0]
        if gives_integers(source, other.model) and not self.reads_integers(part):
            if _quantized_like(source, other.model) is None:
                return "unknown input qparams"
        return None

    def reads_integers(self, side):
        """Whether a part takes quantized values."""
        return gives_integers(side.part.start_node.args[0], side.model)

    def cast(self, value, node, part, other):
        """A value of one graph as the other graph's part takes it."""
        wanted, given = self.reads_integers(other), self.reads_integers(part)
        name = self.free_name(f"{node.name}_dtype_cast_")
        if given and not wanted:
            return self.graph.create_node(
                "call_function", rl.dequantize, (value,), {}, name
            )
        if wanted and not given:
            found = _quantized_like(other.part.start_node.args[0], other.model)
            scale, point = (
                each.item() if rl.is_tensor(each) else each for each in found
            )
            args = (value, scale, point, rl.quint8)
            return self.graph.create_node(
                "call_function", rl.quantize_per_tensor, args, {}, name
            )
        return self.call(name, rl.nn.Identity(), value)

    def add_shadow(self, value, node, part, other):
        """The other graph's part, which takes a value of this one."""
        value = taken = self.cast(value, node, part, other)
        if self.should_log_inputs:
            first = other.part.start_node
            value = taken = self.log(value, other, first, INPUT, "_ns_logger_a_inp_")
        for each in _nodes_of(other.part):
            value = self.shadow(each, value, node, other.model)
        if self.should_log_inputs:
            logger = getattr(self.model, taken.target)
            logger.ref_node_name = next(iter(taken.users)).name
        self.log(value, other, value, OUTPUT, "_ns_logger_a_")

    def shadow(self, each, value, node, model):
        """A copy of another graph's node, which takes a value of this one."""
        modules = modules_of(model)
        prefix = f"{node.name}_shadow_copy_"

        def taken(arg):
            while is_observer(arg, modules):
                arg = arg.args[0]
            if arg.op == "placeholder":  # the state of a recurrent layer
                return self.copies[node.args[1]]
            name = self.free_name(prefix)
            setattr(self.model, name, getattr_from_fqn(model, arg.target).detach())
            return self.graph.create_node("get_attr", name, (), {}, name)

        rest = map_arg(each.args[1:], taken)
        kwargs = map_arg(dict(each.kwargs), taken)
        name = self.free_name(prefix)
        if each.op == "call_module":
            return self.call(name, modules[each.target], value, *rest)
        return self.graph.create_node(
            each.op, each.target, (value, *rest), kwargs, name
        )


def create_a_shadows_b(model, pairs, logger_cls, should_log_inputs):
    """A graph's module in which parts of another graph run beside its own.

    Args:
        model: the graph's module.
        pairs: of a `Side` that stands beside and one that it stands beside.
        logger_cls: makes recorders.
        should_log_inputs: whether what parts take is recorded, too.
    """
    found = Shadowing(model, logger_cls, should_log_inputs)
    first, last = {}, {}
    for other, part in pairs:
        reason = found.why_not(part, other)
        if reason is None:
            first[part.part.start_node] = last[part.part.end_node] = part, other
        else:
            kinds = [
                get_target_type_str(side.part.base_op_node, side.model)
                for side in (part, other)
            ]
            print(
                f"skipping shadow loggers for node_b: {kinds[0]}, start_node_a: "
                f"{kinds[1]}, {reason}"
            )
    for node in list(model.graph.nodes):
        begins = first.get(node)
        source = begins and found.copies[node.args[0]]
        if begins and should_log_inputs:
            found.log_inputs(node, begins[0], "_ns_logger_b_inp_", False)
        found.copy(node)
        if begins:
            found.add_shadow(source, node, *begins)
        if node in last:
            found.log_output(node, last[node][0], "_ns_logger_b_")
    return found.made()
