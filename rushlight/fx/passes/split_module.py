"""A graph cut into modules, by a number for each step."""

import inspect
import operator
from typing import Any

from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, map_arg
from rushlight.nn.modules.module import Module

__all__ = ["Partition", "split_module", "split_module_simple"]


class Partition:
    """One of the parts: its steps, and what goes in and out."""

    def __init__(self, name):
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self):
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n "
            f"outputs: {self.outputs},\n partitions depended on: {self.dependencies},\n "
            f"partition dependents: {self.dependents}"
        )


def _get_attr_from_qualname(mod, qualname):
    for item in qualname.split("."):
        if not hasattr(mod, item):
            raise AttributeError(f"Node target {qualname} not found!")
        mod = getattr(mod, item)
    return mod


def split_module(
    m, root_m, split_callback, qualname_map=None, keep_original_order=False,
    keep_original_node_name=False, keep_original_input_name=True,
    partition_affix=None, tuple_return=False,
):  # fmt: skip
    """Makes modules of the parts of a graph, and one that calls them.

    Args:
        m: the module.
        root_m: where its steps' paths lead; PyTorch's name for the same.
        split_callback: gives the number of each step's part.
        qualname_map: filled with the old path for each new one.
        keep_original_order: whether parts are called in the order of their numbers'
            first steps.
        keep_original_node_name: whether the parts' steps keep their names.
        keep_original_input_name: whether the parts' arguments are called as what they
            get.
        partition_affix: goes into the parts' names.
        tuple_return: whether parts give a tuple even of one result.

    Raises:
        RuntimeError: parts wait for each other.

    >>> from rushlight import fx
    >>> gm = fx.symbolic_trace(lambda x: (x + 1) * 2)
    >>> parts = split_module(gm, None, lambda node: int(node.name == "mul"))
    >>> print(*parts.graph.nodes)
    x submod_0 submod_1 output
    >>> parts(3)
    8
    """
    work = _Split(m, split_callback, partition_affix)
    work.assign()
    work.link()
    order = work.order(keep_original_order)
    work.copy_steps(keep_original_node_name, keep_original_input_name, qualname_map)
    return work.build(order, tuple_return, late=keep_original_order)


class _Split:
    """The state of one cut."""

    def __init__(self, m, callback, affix):
        self.m, self.callback, self.affix = m, callback, affix
        self.parts: dict[str, Partition] = {}
        self.home: dict[Node, str] = {}
        self.outer = Graph()
        self.values: dict[Node, Node] = {}
        self.attributes: dict[str, Any] = {}

    def assign(self):
        """Puts every step into its part."""
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            name = str(self.callback(node))
            part = self.parts.setdefault(name, Partition(name))
            if self.affix is not None:
                part.submod_name = f"submod_{self.affix}_{name}"
            part.node_names.append(node.name)
            self.home[node] = name

    def link(self):
        """Notes what each part takes and gives."""
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                continue
            for used in node.all_input_nodes:
                self._record(used, node if node.op != "output" else None)

    def _record(self, used, user):
        mine, theirs = self.home.get(used), self.home.get(user)
        if mine == theirs and mine is not None:
            return
        if mine is not None:
            self.parts[mine].outputs.setdefault(used.name)
        if user is None or theirs is None:
            return
        part = self.parts[theirs]
        part.inputs.setdefault(used.name)
        if mine is not None:
            part.dependencies.setdefault(mine)
            self.parts[mine].dependents.setdefault(theirs)

    def order(self, keep):
        """The parts, each after those it waits for."""
        waiting = {name: len(part.dependencies) for name, part in self.parts.items()}
        ready = [name for name, count in waiting.items() if not count]
        done: list[str] = []
        while ready:
            name = ready.pop()
            done.append(name)
            for other in self.parts[name].dependents:
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
        if len(done) != len(self.parts):
            raise RuntimeError("cycle exists between partitions!")
        if keep:
            done.sort(key=list(self.parts).index)
            seen: set[str] = set()
            for name in done:
                if not set(self.parts[name].dependencies) <= seen:
                    return self.order(False)
                seen.add(name)
        return done

    def copy_steps(self, keep_names, keep_inputs, qualname_map):
        """Fills the parts' graphs and collects what they refer to."""
        by_name = {node.name: node for node in self.m.graph.nodes}
        for part in self.parts.values():
            for number, name in enumerate(part.inputs):
                source = by_name[name]
                made = part.graph.placeholder(
                    name if keep_inputs else f"arg_{number}", type_expr=source.type
                )
                made.meta = source.meta.copy()
                part.environment[source] = made
        for node in self.m.graph.nodes:
            if node not in self.home:
                continue
            part = self.parts[self.home[node]]
            part.environment[node] = self._copy(part, node, keep_names, qualname_map)

    def _copy(self, part, node, keep_name, qualname_map):
        target = node.target
        if node.op in ("call_module", "get_attr"):
            held = _get_attr_from_qualname(self.m, target)
            target = target.replace(".", "_")
            part.targets[target] = held
            if qualname_map is not None:
                path = f"{part.submod_name}.{target}"
                qualname_map[path] = node.target
        made = part.graph.create_node(
            op=node.op,
            target=target,
            args=map_arg(node.args, part.environment.__getitem__),
            kwargs=map_arg(node.kwargs, part.environment.__getitem__),
            type_expr=node.type,
            name=node.name if keep_name else None,
        )
        made.meta = node.meta.copy()
        return made

    def build(self, order, tuple_return, late):
        """Makes the module that calls the parts; ``late`` reads paths when needed."""
        m = self.m
        by_name = {node.name: node for node in m.graph.nodes}
        for node in m.graph.nodes:
            if node.op == "placeholder":
                self._argument(node)
            elif node.op == "get_attr" and not late:
                self._attribute(node)
        for name in order:
            for used in self.parts[name].inputs:
                if by_name[used].op == "get_attr":
                    self._attribute(by_name[used])
            self._call(self.parts[name], by_name, tuple_return)
        for used in m.graph.output_node().all_input_nodes:
            if used.op == "get_attr":
                self._attribute(used)
        for node in m.graph.nodes:
            if node.op == "output":
                self.outer.output(
                    map_arg(node.args[0], self.values.__getitem__), type_expr=node.type
                )
        made = GraphModule(self.attributes, self.outer)
        if isinstance(getattr(m, "training", None), bool):
            made.training = m.training
        made.graph._codegen = m.graph._codegen
        made.recompile()
        return made

    def _argument(self, node):
        default = node.args[0] if node.args else inspect.Signature.empty
        given = () if default is inspect.Signature.empty else (default,)
        made = self.outer.create_node(
            "placeholder", node.target, given, type_expr=node.type
        )
        made.meta = node.meta.copy()
        self.values[node] = made

    def _attribute(self, node):
        if node in self.values:
            return
        self.attributes[node.target] = _get_attr_from_qualname(self.m, node.target)
        made = self.outer.get_attr(node.target)
        made.meta = node.meta.copy()
        self.values[node] = made

    def _call(self, part, by_name, tuple_return):
        outputs = [part.environment[by_name[name]] for name in part.outputs]
        single = len(outputs) == 1 and not tuple_return
        if outputs:
            part.graph.output(outputs[0] if single else tuple(outputs))
        targets = part.targets or Module()
        module = GraphModule(targets, part.graph)
        if isinstance(getattr(self.m, "training", None), bool):
            module.training = self.m.training
        self.attributes[part.submod_name] = module
        result = self.outer.call_module(
            part.submod_name, tuple(self.values[by_name[name]] for name in part.inputs)
        )
        if single:
            self.values[by_name[next(iter(part.outputs))]] = result
            return
        for place, name in enumerate(part.outputs):
            self.values[by_name[name]] = self.outer.call_function(
                operator.getitem, (result, place)
            )


def split_module_simple(m, node_to_partition, partition_affix=None):
    """As ``split_module``, from a dict of the steps' numbers.

    Args:
        m: the module.
        node_to_partition: the number of each step's part, by the step or its name.
        partition_affix: goes into the parts' names.
    """

    def part_of(node):
        return node_to_partition.get(node, node_to_partition.get(node.name, 0))

    return split_module(m, None, part_of, partition_affix=partition_affix)
