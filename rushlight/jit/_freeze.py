"""Frozen modules: parameters and attributes are constants of the program."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight.jit import _runtime, _types
from rushlight.jit._inline import inlined
from rushlight.jit._modules import UNIT
from rushlight.jit._passes import replace, tidy
from rushlight.jit._schemas import Argument, Schema
from rushlight.jit._script_modules import RecursiveScriptModule
from rushlight.jit.ir import Function, Node

_PLAIN = (_types.IntType, _types.FloatType, _types.BoolType, _types.StringType)


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """A frozen module; see :func:`rushlight.jit.freeze`."""
    if not isinstance(mod, torch.jit.ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    kept = list(preserved_attrs or [])
    if mod.training and "training" not in kept:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call "
            ".eval() on your module before freezing."
        )
    for name in kept:
        if not hasattr(mod, name):
            raise RuntimeError(f"attribute '{name}' is not in the module")
    return _frozen(mod, kept)


def _frozen(mod, kept):
    old = mod._script_type
    kind = _types.ClassType(UNIT.free(old.name), is_module=True)
    UNIT.classes[kind.name] = kind
    kind.attributes["training"] = _types.BoolType.get()
    made = RecursiveScriptModule(kind)
    made.training = mod.training
    written: set = set()
    graphs = {}
    for name, method in old.methods.items():
        if name == "forward" or name in kept:
            graphs[name] = inlined(method.graph)
            _written(graphs[name], written)
    for name, graph in graphs.items():
        Folding(mod, made, kind, written | set(kept)).graph(graph)
        method = old.methods[name]
        arguments = [Argument("self", kind), *method.schema.arguments[1:]]
        full = f"{kind.name}.{name}"
        returns = [value.type for value in graph.returns.inputs_]
        function = Function(full, Schema(full, "", arguments, returns), None, kind)
        function._graph, function.infer = graph, False
        kind.methods[name] = function
    return made


def _written(block, found):
    for node in block.nodes_:
        if node.kind_ == "prim::SetAttr":
            found.add(node.attributes["name"])
        for inner in node.blocks_:
            _written(inner, found)


class Folding:
    """Puts values of a module in place of reading them."""

    def __init__(self, module, made, kind, kept):
        self.module, self.made, self.kind, self.kept = module, made, kind, kept
        self.labels: dict = {}
        self.changed = False

    def graph(self, graph):
        """Folds one method's program until nothing more is known."""
        own = graph.params[0]
        own.type = self.kind
        known = {own: self.module}
        self.changed = True
        while self.changed:
            self.changed = False
            self.block(graph, known)
            tidy(graph)

    def block(self, block, known):
        for node in list(block.nodes_):
            if node.owner is not block:
                continue
            if (
                node.kind_ in ("prim::GetAttr", "prim::SetAttr")
                and node.inputs_[0] in known
            ):
                self.read(block, node, known)
            elif node.kind_ == "prim::If" and self.settle(block, node):
                continue
            elif is_constant(node):
                self.compute(block, node)
            for inner in node.blocks_:
                self.block(inner, known)

    def compute(self, block, node):
        """A node of constants becomes one."""
        texts = [repr(value.node.attributes["value"]) for value in node.inputs_]
        text = node.schema.template.format(*(f"({t})" for t in texts))
        scope = {"math": math, "run": _runtime}
        try:
            value = eval(text, scope)  # a row of our own table, on literals
        except ArithmeticError:
            return
        self.constant(block, node, value)

    def constant(self, block, node, value):
        """A constant in place of a node."""
        made = Node(block.graph, "prim::Constant", [], node.place, value=value)
        made.owner = block
        block.nodes_.insert(block.nodes_.index(node), made)
        replace(node.outputs_[0], made.makes(node.outputs_[0].type))
        node.destroy()
        self.changed = True

    def read(self, block, node, known):
        owner, name = known[node.inputs_[0]], node.attributes["name"]
        if owner is self.made:
            return
        value = owner._modules[name] if name in owner._modules else getattr(owner, name)
        if isinstance(value, torch.nn.Module):
            known[node.outputs_[0]] = value
        elif name in self.kept or node.kind_ == "prim::SetAttr":
            self.keep(node, owner, name, value, known)
        elif isinstance(value, torch.Tensor):
            self.constant(block, node, value.detach())
        elif isinstance(value, (bool, int, float, str, type(None), torch.device)):
            self.constant(block, node, value)
        else:
            self.keep(node, owner, name, value, known)

    def keep(self, node, owner, name, value, known):
        """An attribute that stays one, of the frozen module itself."""
        label = self.labels.get((id(owner), name))
        if label is None:
            label = name
            while label in self.kind.attributes and label != "training":
                label = f"_{label}"
            self.labels[id(owner), name] = label
            kind = owner._script_type.attributes[name]
            self.kind.attributes[label] = kind
            if isinstance(value, torch.nn.Parameter):
                self.kind.parameters.append(label)
            elif isinstance(value, torch.Tensor):
                self.made.register_buffer(label, value)
                self.kind.buffers.append(label)
            if label not in self.made._buffers:
                setattr(self.made, label, value)
        node.attributes["name"] = label
        graph = node.owner.graph
        holder = self.holder(graph)
        known[holder] = self.made
        node.replace_input(0, holder)

    @staticmethod
    def holder(graph):
        """The frozen module itself, apart from what stood for the original."""
        return graph.params[0]

    def settle(self, block, node):
        """A branch that is known takes the place of the choice."""
        for at, value in enumerate(node.outputs_):
            first, second = (inner.returns.inputs_[at] for inner in node.blocks_)
            if first is second and value.uses:
                replace(value, first)
                self.changed = True
        test = node.inputs_[0].node
        if test is None or test.kind_ != "prim::Constant":
            return False
        chosen = node.blocks_[0 if test.attributes["value"] else 1]
        at = block.nodes_.index(node)
        for inner in chosen.nodes_:
            inner.owner = block
        for value, result in zip(node.outputs_, list(chosen.returns.inputs_)):
            replace(value, result)
        block.nodes_[at : at + 1] = chosen.nodes_
        chosen.nodes_ = []
        forget(node)
        self.changed = True
        return True


def forget(node):
    """Unreads everything that a node and what is inside of it read."""
    for inner in node.blocks_:
        for child in inner.nodes_:
            forget(child)
        forget(inner.returns)
    for value in node.inputs_:
        value.uses.remove(node)
    node.inputs_ = []


def is_constant(node):
    """Whether a node computes a plain value of constants."""
    if node.schema is None or node.schema.template is None or len(node.outputs_) != 1:
        return False
    if not isinstance(node.outputs_[0].type, _PLAIN) or not node.inputs_:
        return False
    return all(
        value.node is not None
        and value.node.kind_ == "prim::Constant"
        and isinstance(value.type, _PLAIN)
        for value in node.inputs_
    )


def optimize_for_inference(mod, other_methods=None):
    """A frozen module; see :func:`rushlight.jit.optimize_for_inference`."""
    if not isinstance(mod, torch.jit.ScriptModule):
        raise RuntimeError(
            "optimize_for_inference expects a ScriptModule as input. Please use "
            "torch.jit.script or torch.jit.trace to script your 'nn.Module'."
        )
    return freeze(mod.eval() if mod.training else mod, other_methods)
