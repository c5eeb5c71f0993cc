"""Exported programs as trees of modules again, by the calls that were recorded."""

from __future__ import annotations

import abc
import enum
import operator

from rushlight.export._constraints import InputConstraints
from rushlight.export._guards import leaf_paths
from rushlight.export._unlift import checked_leaves, own_module
from rushlight.export.graph_signature import InputKind, OutputKind, writes
from rushlight.fx._pytree import tree_flatten_spec
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.graph_module import _assign_attr as _assign
from rushlight.fx.node import map_arg
from rushlight.nn.modules.module import Module
from rushlight.operators import call
from rushlight.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["FlatArgsAdapter", "UnflattenedModule", "unflatten"]


class _AttrKind(enum.Enum):
    """What an attribute of a module is."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    MODULE = "module"


def _assign_attr(from_obj, to_module, target, attr_kind, persistent=True):
    """Puts a value at a path, with empty modules on the way where there are none.

    Args:
        from_obj: the value.
        to_module: the module that the path begins at.
        target: the path.
        attr_kind: what it is to be there.
        persistent: whether a buffer is saved with the module.

    Raises:
        TypeError: what is to be a parameter is none.
    """
    before, _, name = target.rpartition(".")
    if before and not hasattr(to_module, before):
        _assign(from_obj, to_module, target)
    home = to_module.get_submodule(before)
    if attr_kind is _AttrKind.PARAMETER:
        home.register_parameter(name, from_obj)
    elif attr_kind is _AttrKind.BUFFER:
        home.register_buffer(name, from_obj, persistent=persistent)
    else:
        setattr(home, name, from_obj)


class FlatArgsAdapter(abc.ABC):
    """Turns arguments that are nested in another way into those of the recording."""

    @abc.abstractmethod
    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        """The leaves of the recording.

        Args:
            target_spec: how they are nested.
            input_spec: how the arguments are nested.
            input_args: the leaves of the arguments.
            metadata: notes of the program; None.
            obj: the arguments.
        """

    def get_flat_arg_paths(self):
        """The paths of the leaves that are asked for."""
        return []


def unflatten(module, flat_args_adapter=None):
    """A program as a tree of modules like the one that was exported.

    Each module of the tree has the steps that were recorded while the original was
    called, and can be changed for another.

    Args:
        module: the `ExportedProgram`.
        flat_args_adapter: what is done with arguments that are nested otherwise.

    >>> import rushlight as rl
    >>> model = rl.nn.Sequential(rl.nn.Linear(2, 3), rl.nn.ReLU())
    >>> tree = unflatten(rl.export.export(model, (rl.ones(1, 2),)))
    >>> [name for name, _ in tree.named_children()]
    ['0', '1']
    >>> bool((tree(rl.ones(1, 2)) == model(rl.ones(1, 2))).all())
    True
    """
    return UnflattenedModule(module, flat_args_adapter)


class UnflattenedModule(Module):
    """What `unflatten` gives.

    Attributes:
        graph: the steps of the outermost module; calls of modules are steps.
    """

    def __init__(self, export_module, flat_args_adapter=None):
        super().__init__()
        self.call_spec = export_module.call_spec
        self.flat_args_adapter = flat_args_adapter
        self.graph_signature = export_module.graph_signature
        self.input_constraints = _constraints_of(export_module)
        _with_children(self, own_module(export_module))
        _Tree(self, export_module).build()

    def forward(self, *args, **kwargs):
        """Runs the program; arguments are those of the module that was exported."""
        wanted = self.call_spec.in_spec
        if self.flat_args_adapter is None:
            leaves = checked_leaves(wanted, args, kwargs)
            self.input_constraints(leaves)
        else:
            leaves, spec = tree_flatten((tuple(args), kwargs))
            if spec != wanted:
                leaves = self.flat_args_adapter.adapt(
                    target_spec=wanted, input_spec=spec, input_args=leaves, obj=args
                )
        result = self._run_steps(self, *leaves)
        return tree_unflatten(list(result), self.call_spec.out_spec)

    def print_readable(self, print_output=True, **_options):
        """Prints the steps of the outermost module."""
        text = str(self.graph)
        if print_output:
            print(text)
        return text


def _constraints_of(program):
    specs = {one.arg.name: one.kind for one in program.graph_signature.input_specs}
    values = [
        node.meta.get("val")
        for node in program.graph.find_nodes(op="placeholder")
        if specs[node.name] is InputKind.USER_INPUT
    ]
    return InputConstraints(leaf_paths(program), values, program.range_constraints)


class _Tree:
    """Distributes a program's steps over modules."""

    def __init__(self, root, program):
        self.root, self.program = root, program
        self.targets: dict = {}  # placeholder -> path of the tensor
        self.calls: dict = {}  # path -> how many graphs it has
        self.signatures = {
            one.fqn: one.signature
            for one in program.module_call_graph
            if one.fqn and one.signature is not None
        }
        specs = {one.arg.name: one for one in program.graph_signature.input_specs}
        self.users = []
        for node in program.graph.nodes:
            if node.op != "placeholder":
                continue
            if specs[node.name].kind is InputKind.USER_INPUT:
                self.users.append(node)
            else:
                self.targets[node] = specs[node.name].target

    def build(self):
        """Builds the tree into the root."""
        program = self.program
        for name, child in program.graph_module.named_children():
            if not hasattr(self.root, name):
                self.root.add_module(name, child)
        steps = [
            one
            for one in program.graph.nodes
            if one.op not in ("placeholder", "output")
        ]
        graph, known = Graph(), {}
        for node in self.users:
            known[node] = graph.placeholder(node.name)
        self._fill(graph, known, steps, "", self.root)
        results, signature = (
            program.graph.output_node().args[0],
            program.graph_signature,
        )
        written = writes(signature)
        by_target = {path: node for node, path in self.targets.items()}
        kept = []
        for spec, one in zip(signature.output_specs, results):
            if spec not in written:
                kept.append(map_arg(one, lambda n: self._value(graph, known, n, "")))
                continue
            target = (
                next(n for n in self.users if n.name == spec.target)
                if spec.kind is OutputKind.USER_INPUT_MUTATION
                else by_target[spec.target]
            )
            graph.call_function(
                call.copy_.overloads[0],
                (
                    self._value(graph, known, target, ""),
                    self._value(graph, known, one, ""),
                ),
            )
        graph.output(tuple(kept))
        self.root.graph = graph
        code = graph.python_code("self")
        names = dict(code.globals)
        exec(code.src, names)
        self.root._run_steps = names["forward"]

    def _value(self, graph, known, node, path):
        """A value inside of the graph of a module."""
        if node not in known:
            target = self.targets[node]
            known[node] = graph.get_attr(target[len(path) + 1 :] if path else target)
        return known[node]

    def _fill(self, graph, known, steps, path, home):
        """Writes the steps of one module; those of modules within are their own."""
        at = 0
        while at < len(steps):
            key, child = _child_of(steps[at], path)
            stop = at
            while stop < len(steps) and _child_of(steps[stop], path)[0] == key:
                stop += 1
            run = steps[at:stop]
            at = stop
            if child is None:
                for node in run:
                    known[node] = graph.node_copy(
                        node, lambda n: self._value(graph, known, n, path)
                    )
                continue
            self._call(graph, known, run, path, child, home)

    def _call(self, graph, known, run, path, child, home):
        """Moves steps into the module that they belong to, and calls it."""
        inside = set(run)
        inner, own = Graph(), {}
        given = []
        count = self.calls.get(child, 0)
        name = f"{child}@{count}" if count else child
        module = _module_at(self.root, child)
        results = [node for node in run if any(one not in inside for one in node.users)]
        needed = self._from_outside(run, child)
        noted = CallAsRecorded.of(self.signatures.get(name), needed, results)
        if noted is not None:
            own.update(noted.open(inner, module))
        else:
            for node in needed:
                own[node] = inner.placeholder(node.name)
                given.append(node)
        self._fill(inner, own, run, child, module)
        if noted is not None:
            noted.close(inner, module, own)
        else:
            made = tuple(own[node] for node in results)
            inner.output(made[0] if len(made) == 1 else made)
        name = self._place_part(inner, run, module, name, child)
        self.calls[child] = count + 1
        target = name[len(path) + 1 :] if path else name

        def value(node):
            return self._value(graph, known, node, path)

        if noted is not None:
            known.update(noted.called(graph, home, target, value))
            return
        called = graph.call_module(target, tuple(map(value, given)))
        if len(results) == 1:
            known[results[0]] = called
            return
        for at, node in enumerate(results):
            known[node] = graph.call_function(operator.getitem, (called, at))

    def _from_outside(self, run, child):
        """What the steps of a module read that is neither theirs nor the module's own."""
        inside, found = set(run), {}

        def look(node):
            if node in inside or self.targets.get(node, "").startswith(child + "."):
                return
            found[node] = True

        for node in run:
            map_arg((node.args, node.kwargs), look)
        return list(found)

    def _place_part(self, inner, run, module, name, child):
        """Puts the steps of one call of a module into the tree; says where they are.

        Calls that do the same have the steps of the first one.
        """
        for node in run:
            if node.op == "get_attr" and not hasattr(module, node.target):
                module.add_module(
                    node.target, getattr(self.program.graph_module, node.target)
                )
        made = GraphModule(module, inner, type(module).__name__)
        if name != child:
            first = _module_at(self.root, child)
            if isinstance(first, GraphModule) and _same(inner, first.graph):
                return child
            _place(self.root, name, made)
            return name
        made._is_part = True
        _place(self.root, name, _with_children(made, module))
        return name


class CallAsRecorded:
    """A call of a module with the arguments and results that it had in the recording.

    Another module that takes and gives the same may stand in its place.

    Args:
        signature: the `ModuleCallSignature` that was noted.
    """

    def __init__(self, signature):
        self.signature = signature

    @classmethod
    def of(cls, signature, needed, results):
        """The call as it was noted; None where steps read or give other values.

        Args:
            signature: what was noted, or None.
            needed: the nodes that the module's steps read from outside.
            results: the nodes that are read outside.
        """
        if signature is None:
            return None
        inputs = {one.name for one in signature.inputs}
        outputs = {one.name for one in signature.outputs}
        if all(node.name in inputs for node in needed) and all(
            node.name in outputs for node in results
        ):
            made = cls(signature)
            made.needed = {node.name: node for node in needed}
            made.results = {node.name: node for node in results}
            return made
        return None

    def open(self, graph, module):
        """Writes down what the module takes; the values of nodes outside, within it."""
        args, kwargs = self.signature.in_spec.children()
        positional = [
            graph.placeholder(f"_positional_arg_{at}")
            for at in range(args.num_children)
        ]
        named = {key: graph.placeholder(key) for key in kwargs.context or ()}
        leaves = graph.call_function(
            tree_flatten_spec,
            (
                (tuple(positional), named),
                _spec_of(graph, module, self.signature.in_spec),
            ),
        )
        return {
            self.needed[one.name]: graph.call_function(operator.getitem, (leaves, at))
            for at, one in enumerate(self.signature.inputs)
            if one.name in self.needed
        }

    def close(self, graph, module, own):
        """Writes down what the module gives."""
        by_name = {node.name: value for node, value in own.items()}
        leaves = [
            by_name.get(one.name, getattr(one, "value", None))
            for one in self.signature.outputs
        ]
        spec = _spec_of(graph, module, self.signature.out_spec)
        graph.output(graph.call_function(tree_unflatten, (leaves, spec)))

    def called(self, graph, home, target, value):
        """Writes down the call; the values of the module's nodes behind it.

        Args:
            graph: of the module that calls.
            home: that module.
            target: the name of the called one in it.
            value: gives a node's value in the graph.
        """
        leaves = [
            value(self.needed[one.name])
            if one.name in self.needed
            else getattr(one, "value", None)
            for one in self.signature.inputs
        ]
        whole = graph.call_function(
            tree_unflatten, (leaves, _spec_of(graph, home, self.signature.in_spec))
        )
        args, kwargs = self.signature.in_spec.children()
        sides = [graph.call_function(operator.getitem, (whole, at)) for at in range(2)]
        result = graph.call_module(
            target,
            tuple(
                graph.call_function(operator.getitem, (sides[0], at))
                for at in range(args.num_children)
            ),
            {
                key: graph.call_function(operator.getitem, (sides[1], key))
                for key in kwargs.context or ()
            },
        )
        spec = _spec_of(graph, home, self.signature.out_spec)
        flat = graph.call_function(tree_flatten_spec, (result, spec))
        known = {**self.needed, **self.results}  # what went through it is its own, too
        return {
            known[one.name]: graph.call_function(operator.getitem, (flat, at))
            for at, one in enumerate(self.signature.outputs)
            if one.name in known
        }


def _same(one, other):
    """Whether two graphs have the same steps, whatever these are called."""

    def rows(graph):
        numbers = {node: f"%{at}" for at, node in enumerate(graph.nodes)}
        return [
            (
                node.op,
                node.op == "placeholder" or node.target,
                repr(map_arg((node.args, node.kwargs), numbers.get)),
            )
            for node in graph.nodes
        ]

    return rows(one) == rows(other)


def _spec_of(graph, home, spec):
    """The step that reads a description of a nest, which a module is given."""
    count = sum(name.startswith("_spec_") for name in vars(home))
    name = next(
        (
            one
            for one in vars(home)
            if one.startswith("_spec_") and vars(home)[one] == spec
        ),
        f"_spec_{count}",
    )
    setattr(home, name, spec)
    return graph.get_attr(name)


def _with_children(made, module):
    """A module of steps with all that the one of tensors has."""
    for name, tensor in module._parameters.items():
        made.register_parameter(name, tensor)
    for name, tensor in module._buffers.items():
        kept = name not in module._non_persistent_buffers_set
        made.register_buffer(name, tensor, persistent=kept)
    for name, child in module._modules.items():
        made.add_module(name, child)
    return made


def _child_of(node, path):
    """The module just below ``path`` that a step belongs to: its call, and its path."""
    stack = node.meta.get("nn_module_stack") or {}
    start = f"{path}." if path else ""
    for key, (one, _) in stack.items():
        if one and one != path and one.startswith(start):
            return key, one
    return None, None


def _module_at(root, path):
    home = root
    for part in path.split("."):
        if part not in home._modules:
            home.add_module(part, Module())
        home = home._modules[part]
    return home


def _place(root, path, module):
    home, _, name = path.rpartition(".")
    target = _module_at(root, home) if home else root
    target._modules[name] = module
