"""Observed graphs as graphs of integers."""

import copy

import rushlight as rl
from rushlight import nn
from rushlight.ao._operators.packed import PackedParams
from rushlight.ao.nn import intrinsic as nni
from rushlight.ao.nn.quantized import reference
from rushlight.ao.nn.quantized.common import quantize_weight
from rushlight.ao.quantization import quantization_mappings as mappings
from rushlight.ao.quantization.fx import _decomposed  # noqa: F401 — its operators
from rushlight.ao.quantization.fx.fuse import set_module
from rushlight.ao.quantization.fx.patterns import LAYERS, weight_of
from rushlight.ao.quantization.fx.prepare import OBSERVER
from rushlight.ao.quantization.utils import get_qparam_dict
from rushlight.fx import Graph, GraphModule
from rushlight.fx.graph_module import _get_attr


class Converting:
    """Writes the graph of integers of an observed graph.

    Args:
        model: the observed `GraphModule`.
        facts: what preparing found: ``rules``, ``qconfigs`` and ``scopes`` by node's name,
            ``inputs`` that are integers by name, and ``outputs`` by number.
    """

    def __init__(self, model, facts):
        self.model, self.facts = model, facts
        self.graph, self.values, self.counts = Graph(), {}, {}
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.whole = {}  # nodes of numbers by nodes of integers
        self.integers = set()  # new nodes whose results are integers
        self.made = set()  # paths of modules of integers

    def run(self):
        """The module of the new graph."""
        last_names = {rule[2]: name for name, rule in self.facts["rules"].items()}
        for node in self.model.graph.nodes:
            if node.op == "call_module" and node.target.startswith(OBSERVER):
                self.observed(node)
            elif node.name in self.facts["rules"]:
                self.quantized(node, *self.facts["rules"][node.name])
            elif node.name in last_names:  # part of the node before it
                self.values[node] = self.values[node.args[0]]
            elif node.op == "output":
                self.values[node] = self.graph.output(self.results(node.args[0]))
            else:
                self.values[node] = self.graph.node_copy(node, self.numbers)
                if node.name in self.facts["inputs"]:
                    self.integers.add(self.values[node])
        for node in [n for n in self.graph.nodes if n.op == "get_attr" and not n.users]:
            self.graph.erase_node(node)
        self.graph.lint()
        found = GraphModule(self.model, self.graph)
        found._register_state_dict_hook(_save_packed)
        found._register_load_state_dict_pre_hook(_load_packed, with_module=True)
        return found

    def results(self, outputs):
        """What the graph gives: numbers, but for what is to stay integers."""
        several = isinstance(outputs, tuple | list)
        found = [
            rl.fx.map_arg(
                each,
                self.values.__getitem__
                if index in self.facts["outputs"]
                else self.numbers,
            )
            for index, each in enumerate(outputs if several else [outputs])
        ]
        return type(outputs)(found) if several else found[0]

    def numbers(self, node):
        """A value as numbers."""
        value = self.values[node]
        if value not in self.integers:
            return value
        if value not in self.whole:
            self.whole[value] = self.graph.call_method("dequantize", (value,))
        return self.whole[value]

    def attribute(self, name, value):
        """A node of a new attribute, the first free number behind its name."""
        number = self.counts[name] = self.counts.get(name, -1) + 1
        name = f"{name}{number}"
        if isinstance(value, rl.Tensor):
            self.model.register_buffer(name, value)
        else:  # a packed weight
            setattr(self.model, name, value)
        return self.graph.get_attr(name)

    def pass_over(self, prefix):
        """Counts attributes that PyTorch makes, though nothing reads them."""
        for word in ("scale", "zero_point"):
            name = f"{prefix}_{word}_"
            self.counts[name] = self.counts.get(name, -1) + 1

    def observed(self, node):
        """Numbers that an observer looked at become integers."""
        source = node.args[0]
        value = self.values[source]
        self.values[node] = value
        if value in self.integers:
            return
        user = next(iter(node.users), None)
        configured = self.facts["qconfigs"].get(source.name)
        own = source.op != "placeholder" and configured is not None
        scope = self.scope(source if own or user is None else user)
        prefix = scope + ("" if own else "_input")
        if self.is_weight(node):
            self.weight(node, prefix)
            return
        seen = self.modules[node.target]
        scale, point = seen.calculate_qparams()
        given = self.attribute(f"{prefix}_scale_", scale.reshape([]).float())
        moved = self.attribute(f"{prefix}_zero_point_", point.reshape([]).long())
        made = self.graph.call_function(
            rl.quantize_per_tensor, (value, given, moved, seen.dtype)
        )
        self.integers.add(made)
        self.values[node] = made

    def is_weight(self, node):
        """Whether an observer looks at the weight of a function."""
        user = next(iter(node.users), None)
        kind = self.facts["rules"].get(user and user.name, (None,))[0]
        return kind == "weighted" and weight_of(user) is node

    def weight(self, node, prefix):
        """A weight that an observer looked at: it is packed where it is used."""
        self.pass_over(prefix)

    def scope(self, node):
        """The path of a node's module, as names of attributes have it."""
        path = self.facts["scopes"].get(node.name, "")
        if node.op == "call_module" and not node.target.startswith(OBSERVER):
            path = node.target
        return path.replace(".", "_")

    def named(self, name):
        """The node of a name."""
        return next(node for node in self.model.graph.nodes if node.name == name)

    def output_parameters(self, last):
        """The scale and the zero point of a result, by the name of its node."""
        for user in self.named(last).users:
            if user.op == "call_module" and user.target.startswith(OBSERVER):
                return self.modules[user.target].calculate_qparams()
        return rl.tensor([1.0]), rl.tensor([0])

    def quantized(self, node, kind, name, last):
        """A node computed with integers."""
        if kind in ("module", "table"):
            made = self.module(node, kind, last)
        elif kind == "weighted":
            made = self.weighted(node, name, last)
        elif kind == "rounded":
            made = self.graph.node_copy(node, self.numbers)
        elif kind in ("shared", "fixed", "join"):
            made = self.graph.node_copy(node, lambda arg: self.values[arg])
            self.integers.add(made)
            self.pass_over(self.scope(node))
        else:
            made = self.function(node, name, last)
        self.values[node] = made

    def module(self, node, kind, last):
        """A module as a module of integers; with dynamic scales, of numbers."""
        module = self.modules[node.target]
        qconfig = self.facts["qconfigs"][node.name]
        module.qconfig = qconfig
        dynamic = getattr(qconfig.activation(), "is_dynamic", False)
        if node.target in self.made:  # called once more
            made = module
        elif kind == "table":
            made = LAYERS[type(module)].from_float(module)
        elif dynamic or not self.has_integers(node):
            known = mappings.get_default_dynamic_quant_module_mappings()
            made = known[type(module)].from_float(module)
        else:
            module.activation_post_process = _Known(self.output_parameters(last))
            made = LAYERS[type(module)].from_float(module)
        set_module(self.model, node.target, made)
        self.modules[node.target] = made
        self.made.add(node.target)
        if dynamic or kind == "table" or not self.has_integers(node):
            return self.graph.node_copy(node, self.numbers)
        found = self.graph.node_copy(node, lambda arg: self.values[arg])
        self.integers.add(found)
        return found

    def weighted(self, node, name, last):
        """A function of a constant weight as the operator of a packed one."""
        seen, weight, bias, settings = self.constants(node)
        half = "_fp16" if seen.dtype is rl.float16 else ""
        if not half:
            weight = quantize_weight(weight, seen)
        ops, scope = rl.ops.quantized, self.scope(node)
        packed = getattr(ops, f"{name}_prepack{half}")(weight, bias, *settings)
        packed = self.attribute(f"{scope}_packed_weight_", packed)
        integers = self.has_integers(node)
        name += "_relu" if last != node.name else ""
        if integers:
            x, rest = self.values[node.args[0]], self.parameters(last)
        else:
            x, name = self.numbers(node.args[0]), f"{name}_dynamic{half}"
            rest = () if half else (rl.backends.quantized.engine in ("fbgemm", "x86"),)
        made = self.graph.create_node(
            "call_function", getattr(ops, name), (x, packed, *rest), {}, node.name
        )
        if integers:
            self.integers.add(made)
        return made

    def constants(self, node):
        """The observer of a function's weight, the weight, its bias and a window's settings."""
        names = "input", "weight", "bias", "stride", "padding", "dilation", "groups"
        given = {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}
        given |= dict(zip(names, node.args)) | node.kwargs
        seen, weight = self.modules[given["weight"].target], given["weight"].args[0]
        weight, bias = (
            one and _get_attr(self.model, one.target) for one in (weight, given["bias"])
        )
        seen(weight)
        *windows, groups = [given[name] for name in names[3:]]
        count = weight.ndim - 2
        windows = [[one] * count if isinstance(one, int) else one for one in windows]
        return seen, weight, bias, (*windows, groups) if count else ()

    def parameters(self, last):
        """Attributes of the scale and the zero point of a result."""
        scale, point = self.output_parameters(last)
        scope = self.scope(self.named(last))
        return (
            self.attribute(f"{scope}_scale_", scale.reshape([]).float()),
            self.attribute(f"{scope}_zero_point_", point.reshape([]).long()),
        )

    def has_integers(self, node):
        """Whether what comes in is integers."""
        return bool(node.args) and self.values.get(node.args[0]) in self.integers

    def function(self, node, name, last):
        """A function as an operator on integers."""
        relu = "_relu" if last != node.name else ""
        operator = getattr(rl.ops.quantized, name + relu)
        args = rl.fx.map_arg(node.args, lambda arg: self.values[arg])
        scalar = [arg for arg in args if isinstance(arg, (int, float))]
        if name in ("add", "mul") and scalar:
            tensor = next(arg for arg in args if not isinstance(arg, (int, float)))
            made = self.graph.call_function(operator, (tensor, scalar[0]))
        else:
            given = self.parameters(last)
            made = self.graph.call_function(
                operator, self.ordered(node, name, args, *given)
            )
        self.integers.add(made)
        return made

    def ordered(self, node, name, args, scale, point):
        """An operator's arguments: settings where its schema has them."""
        settings = rl.fx.map_arg(node.kwargs, lambda arg: self.values[arg])
        x, rest = args[0], list(args[1:])
        if name == "elu":
            alpha = rest[0] if rest else settings.get("alpha", 1.0)
            return (x, scale, point, alpha)
        if name == "leaky_relu":
            slope = rest[0] if rest else settings.get("negative_slope", 0.01)
            return (x, slope, False, scale, point)
        if name == "layer_norm":
            names = "normalized_shape weight bias eps".split()
            given = dict(zip(names, rest)) | settings
            return (
                x, given["normalized_shape"], given.get("weight"), given.get("bias"),
                given.get("eps", 1e-5), scale, point,
            )  # fmt: skip
        if name == "instance_norm":
            names = "running_mean running_var weight bias use_input_stats momentum eps"
            given = dict(zip(names.split(), rest)) | settings
            eps = given.get("eps", 1e-5)
            return (x, given.get("weight"), given.get("bias"), eps, scale, point)
        if name == "hardswish":
            return (x, scale, point)
        return (*args, scale, point)


class Referencing(Converting):
    """Writes the graph of numbers that says what the graph of integers computes.

    Values are quantized where an observer was, and are numbers again before a node reads
    them.
    """

    def run(self):
        """The module of the new graph."""
        for node in self.model.graph.nodes:
            if node.op == "call_module" and node.target.startswith(OBSERVER):
                self.observed(node)
                continue
            kind = self.facts["rules"].get(node.name, (None,))[0]
            if kind in ("module", "table"):
                self.refer(node)
            self.values[node] = self.graph.node_copy(node, self.numbers)
        self.graph.lint()
        return GraphModule(self.model, self.graph)

    def weight(self, node, prefix):
        """A weight that an observer looked at, as integers and as numbers again."""
        seen = self.modules[node.target]
        seen(_get_attr(self.model, node.args[0].target))
        axis = getattr(seen, "ch_axis", -1)
        scale, point = seen.calculate_qparams()
        function, rest = rl.quantize_per_channel, (axis, seen.dtype)
        if seen.qscheme in (rl.per_tensor_affine, rl.per_tensor_symmetric):
            function, rest = rl.quantize_per_tensor, (seen.dtype,)
            scale, point = scale.reshape([]), point.reshape([])
        given = (
            self.attribute(f"{prefix}_scale_", scale.float()),
            self.attribute(f"{prefix}_zero_point_", point.long()),
        )
        value = self.values[node]
        made = self.graph.call_function(function, (value, *given, *rest))
        self.integers.add(made)
        self.values[node] = made

    def refer(self, node):
        """Puts the reference form of a layer, or of one that is part of it, in its place."""
        module, path = self.modules[node.target], node.target
        seen = getattr(module, "weight_fake_quant", None)
        if seen is not None:
            module = module.to_float()
            set_module(self.model, path, module)
        if isinstance(module, nni._FusedModule):
            module, path = module[0], f"{path}.0"
        kind = next((k for k in type(module).__mro__ if k in REFERENCES), None)
        if kind is None:
            return
        if seen is None:
            seen = self.facts["qconfigs"][node.name].weight()
            seen(module.weight)
        made = REFERENCES[kind].from_float(module, get_qparam_dict(seen))
        set_module(self.model, path, made)


def _save_packed(module, state, prefix, local_metadata):
    """Adds packed weights of functions to a module's state."""
    for name, value in vars(module).items():
        if isinstance(value, PackedParams):
            state[prefix + name] = value


def _load_packed(module, state, prefix, *unused):
    """Takes packed weights of functions out of a state."""
    for name, value in vars(module).items():
        if isinstance(value, PackedParams) and prefix + name in state:
            setattr(module, name, state.pop(prefix + name))


REFERENCES = {
    made._FLOAT_MODULE: made
    for made in vars(reference).values()
    if isinstance(made, type) and hasattr(made, "_FLOAT_MODULE")
}


class _Known(nn.Module):
    """Stands where an observer was, with what it had found."""

    is_post_process = True

    def __init__(self, parameters):
        super().__init__()
        self.parameters_found = parameters

    def calculate_qparams(self):
        """Scale and zero point."""
        return self.parameters_found


def convert(model, facts, writer=Converting):
    """The module of integers of an observed module; the observed one stays.

    Args:
        model, facts: as of `Converting`.
        writer: `Converting`, or `Referencing` for a module of numbers.
    """
    model = copy.deepcopy(model)
    return writer(model, facts).run()
