"""Observers between the nodes of a graph."""

import re

import rushlight as rl
from rushlight.ao.nn import intrinsic as nni
from rushlight.ao.quantization import qconfig as configs
from rushlight.ao.quantization import quantization_mappings as mappings
from rushlight.ao.quantization.fx.fuse import set_module
from rushlight.ao.quantization.fx.graph_module import OBSERVED, ObservedGraphModuleAttrs
from rushlight.ao.quantization.fx.patterns import LAYERS, kind_of, rule_of, weight_of
from rushlight.ao.quantization.utils import (
    activation_is_statically_quantized,
    weight_dtype,
)

OBSERVER = "activation_post_process_"


class Configured:
    """The configuration of each node, by a mapping.

    Args:
        mapping: a `QConfigMapping`.
        modules: of the model, by name.
        scopes: the module that each node was traced in, by the node's name.
    """

    def __init__(self, mapping, modules, scopes):
        self.mapping, self.modules, self.scopes = mapping, modules, scopes
        self.counts = {}

    def of(self, node):
        """A node's configuration; None where it stays as it is."""
        mapping = self.mapping
        path = self.scopes.get(node.name, "")
        if node.op == "call_module":
            path = node.target
        kind = kind_of(node, self.modules)
        found = self._of_kind(node, kind)
        for pattern, qconfig in mapping.module_name_regex_qconfigs.items():
            if re.match(pattern, path):
                found = qconfig
                break
        found = self._named(path, found)
        scope = self.scopes.get(node.name, "")
        number = self.counts[scope, kind] = self.counts.get((scope, kind), -1) + 1
        ordered = mapping.module_name_object_type_order_qconfigs
        return ordered.get((scope, kind, number), found)

    def _of_kind(self, node, kind):
        """The configuration of a kind; of layers that became one, that of all of them.

        Raises:
            LookupError: they have several.
        """
        known = self.mapping.object_type_qconfigs
        fused = node.op == "call_module" and self.modules[node.target]
        if known and isinstance(fused, nni._FusedModule):
            first, *others = map(type, fused.children())
            for other in others:
                if not configs.qconfig_equals(known.get(other), known.get(first)):
                    raise LookupError(
                        "During fusion, we need to specify the same qconfigs for all "
                        f"module types in {type(fused)} offending type: {other}"
                    )
            kind = first if known.get(first) is not None else kind
        return known.get(kind, self.mapping.global_qconfig)

    def _named(self, path, found):
        while path:
            if path in self.mapping.module_name_qconfigs:
                return self.mapping.module_name_qconfigs[path]
            path = path.rpartition(".")[0]
        return found


class Observing:
    """Puts observers between the nodes of a graph's module.

    Args:
        model: the `GraphModule`.
        configured: the nodes' configurations, by node.
        quantized: which placeholders are integers.

    Attributes:
        placeholders: those that are.
    """

    def __init__(self, model, configured, quantized=()):
        self.model, self.configured = model, configured
        named = [node for node in model.graph.nodes if node.op == "placeholder"]
        self.placeholders = [named[index] for index in quantized]
        self.given = set(self.placeholders)  # integers that nothing observes
        self.shared = {}  # by node, the observer that its result has
        self.rules = {}

    def run(self):
        """Puts them everywhere; what was found is kept in ``model.meta``."""
        modules = dict(self.model.named_modules(remove_duplicate=False))
        done = set()
        for node in list(self.model.graph.nodes):
            if node in done:
                continue
            rule, qconfig = rule_of(node, modules), self.configured.get(node)
            if rule is None or qconfig is None:
                continue
            if not self.quantized(rule, qconfig):
                continue
            done.add(rule.last)
            self.rules[node.name] = (rule.kind, rule.operator, rule.last.name)
            self.inputs(rule, qconfig)
            self.output(rule, qconfig)
        return self.rules

    def quantized(self, rule, qconfig):
        """Whether a node's rule and configuration go together."""
        if rule.kind == "table":
            return weight_dtype(qconfig).name in ("quint8", "quint4x2")
        static = activation_is_statically_quantized(qconfig)
        reused = configs._is_reuse_input_qconfig(qconfig)
        if rule.kind == "module" and not static:
            kind = type(self.model.get_submodule(rule.node.target))
            return kind in mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS
        if rule.kind == "module":
            kind = type(self.model.get_submodule(rule.node.target))
            return kind in LAYERS
        if rule.kind == "weighted":
            same = configs.qconfig_equals(self.configured.get(rule.last), qconfig)
            return same and (static or rule.operator == "linear")
        if rule.kind == "shared":
            known = self.shared.keys() | self.given
            seen = rule.inputs and rule.inputs[0] in known
            return bool(rule.inputs) and static or bool(seen) and reused
        return bool(rule.inputs) and static

    def made(self, observer, source):
        """A node that observes another one's result."""
        node = _insert_obs_or_fq(source, observer, self.model, {}, self.model.graph)
        self.shared[node] = node.target
        return node

    def inputs(self, rule, qconfig):
        """Observes what comes in and was not observed, and a weight of a function."""
        self.activations(rule, qconfig)
        if rule.kind == "weighted":
            weight = weight_of(rule.node)
            seen = self.made(qconfig.weight(), weight)
            rule.node.replace_input_with(weight, seen)

    def activations(self, rule, qconfig):
        """Observes what comes in and was not observed."""
        if not activation_is_statically_quantized(qconfig):
            return
        for source in dict.fromkeys(rule.inputs):
            if source in self.shared or source in self.given:
                continue
            known = [user for user in source.users if user in self.shared]
            seen = known[0] if known else self.made(qconfig.activation(), source)
            rule.node.replace_input_with(source, seen)

    def joined(self, sources):
        """The one observer that values have which are put one after another."""
        first, *others = (self.shared[source] for source in sources)
        for name in others:
            setattr(self.model, name, getattr(self.model, first))
        return getattr(self.model, first)

    def output(self, rule, qconfig):
        """Observes what comes out."""
        last = rule.last
        if rule.kind == "table" or not (
            activation_is_statically_quantized(qconfig) or rule.shares
        ):
            return
        if rule.shares and not any(arg in self.shared for arg in rule.node.args):
            self.given.add(last)
            return
        users = list(last.users)
        if rule.shares:  # one observer under another name
            source = next(arg for arg in rule.node.args if arg in self.shared)
            seen = self.made(getattr(self.model, self.shared[source]), last)
        elif rule.kind == "join":
            seen = self.made(self.joined(rule.node.args[0]), last)
        else:
            seen = self.made(qconfig.activation(), last)
        for user in users:
            user.replace_input_with(last, seen)


def _insert_obs_or_fq(node, obs_or_fq, model, named_modules, graph, model_device=None):
    """Gives a model an observer, and a node that calls it with another one's result.

    Args:
        node: the other node.
        obs_or_fq: the observer.
        model: the model, whose attribute it becomes.
        named_modules: modules by name, which it is added to.
        graph: the model's graph.
        model_device: where the observer is to be; its first parameter's place by default.
    """
    if model_device is None:
        model_device = next((one.device for one in model.parameters()), None)
    if model_device is not None:
        obs_or_fq.to(model_device)
    number = 0
    while hasattr(model, f"{OBSERVER}{number}"):
        number += 1
    name = f"{OBSERVER}{number}"
    setattr(model, name, obs_or_fq)
    named_modules[name] = obs_or_fq
    with graph.inserting_after(node):
        return graph.call_module(name, (node,))


def _save_state(observed, *found):
    """Notes in a model's ``meta`` what preparing it found out.

    Args:
        observed: the model.
        found: the fields of `ObservedGraphModuleAttrs`.
    """
    observed.meta[OBSERVED] = ObservedGraphModuleAttrs(*found)


def scopes_of(tracer, graph):
    """The path of the module that each node was traced in."""
    known = getattr(tracer, "node_name_to_scope", {})
    found = {}
    for node in graph.nodes:
        scope = known.get(node.name, ("", None))[0]
        found[node.name] = scope
    return found


def swap_for_training(model, configured):
    """Puts layers whose weights are rounded in the place of layers."""
    known = mappings.get_embedding_qat_module_mappings()
    for node, qconfig in configured.items():
        if node.op != "call_module" or qconfig is None:
            continue
        module = model.get_submodule(node.target)
        kind = type(module)
        if kind in known and _rounds(qconfig):
            module.qconfig = qconfig
            set_module(model, node.target, known[kind].from_float(module))


def _rounds(qconfig):
    return isinstance(qconfig.weight(), rl.ao.quantization.FakeQuantizeBase)
