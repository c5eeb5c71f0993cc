"""A module cut into parts that a backend runs and parts that it does not."""

from __future__ import annotations

import argparse
import copy
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

from rushlight.autograd.grad_mode import no_grad
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.passes._acc_nodes import (
    FxNetAccNodesFinder,
    NodeEvent,
    NodeEventTracker,
)
from rushlight.fx.passes.graph_drawer import FxGraphDrawer
from rushlight.fx.passes.graph_manipulation import get_size_of_node
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.fx.passes.split_utils import (
    move_non_tensor_nodes_on_boundary,
    split_by_tags,
)
from rushlight.fx.passes.tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    NodeList,
    NodeSet,
    get_node_target,
    is_node_output_tensor,
)

__all__ = [
    "FxNetAccNodesFinder",
    "FxNetSplitterInternalError",
    "NodeEvent",
    "NodeEventTracker",
    "SplitResult",
    "Subgraph",
    "generate_inputs_for_submodules",
]

DEFAULT_MIN_ACC_MODULE_SIZE = 1
DEFAULT_SKIP_FUSION = False
DEFAULT_ALLOW_NON_TENSOR = False


class _SplitterSettingBase:
    """How a module is cut; flags of the command line with these names say it, too.

    Args:
        min_acc_module_size: parts of fewer steps are not given to the backend.
        skip_fusion: whether steps that hand on no tensors may be cut apart.
        allow_non_tensor: whether what is no tensor may pass between parts.
        max_acc_splits: how many parts at most; -1 for any number.
        move_non_tensor_nodes_on_boundary: whether steps that give no tensor go to the
            part that uses them.
    """

    def __init__(
        self,
        min_acc_module_size=DEFAULT_MIN_ACC_MODULE_SIZE,
        skip_fusion=DEFAULT_SKIP_FUSION,
        allow_non_tensor=DEFAULT_ALLOW_NON_TENSOR,
        max_acc_splits=-1,
        move_non_tensor_nodes_on_boundary=False,
    ):
        flags = argparse.ArgumentParser(add_help=False)
        for name in ("min-acc-module-size", "max-acc-splits"):
            flags.add_argument(f"--{name}", f"--{name.replace('-', '_')}", type=int)
        switches = (
            "skip-fusion",
            "allow-non-tensor",
            "move-non-tensor-nodes-on-boundary",
        )
        for name in switches:
            both = f"--{name}", f"--{name.replace('-', '_')}"
            flags.add_argument(*both, action="store_true")
        said, _ = flags.parse_known_args()
        self.min_acc_module_size = said.min_acc_module_size or min_acc_module_size
        self.skip_fusion = said.skip_fusion or skip_fusion
        self.allow_non_tensor = said.allow_non_tensor or allow_non_tensor
        self.max_acc_splits = max_acc_splits
        self.move_non_tensor_nodes_on_boundary = (
            said.move_non_tensor_nodes_on_boundary or move_non_tensor_nodes_on_boundary
        )


class FxNetSplitterInternalError(Exception):
    """A module cannot be cut."""


@dataclass
class Subgraph:
    """Steps of one part.

    Args:
        is_acc: whether the backend runs it.
        nodes: the steps.
        device_ordinal: which of several devices.
    """

    is_acc: bool
    nodes: NodeList
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """What a splitter gives.

    Attributes:
        split_module: the module that calls the parts.
        submodule_inputs: what each part is given, by its name.
        non_acc_submodule_prefix: what the names of the host's parts begin with; those of
            the backend's begin with ``_run_on_acc_``.
    """

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


def generate_inputs_for_submodules(model, inputs, target_submodules, deepcopy=False):
    """What modules inside of a model are given in a call of it.

    Args:
        model: the model.
        inputs: its arguments.
        target_submodules: paths of the modules.
        deepcopy: whether to give copies.

    Returns:
        the arguments by path.
    """
    results: dict[str, Any] = {}
    names = {module: name for name, module in model.named_modules()}

    def note(module, given):
        results[names[module]] = copy.deepcopy(given) if deepcopy else given

    hooks = [
        module.register_forward_pre_hook(note)
        for name, module in model.named_modules()
        if name in target_submodules
    ]
    try:
        with no_grad():
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return results


class _SplitterBase:
    """Cuts a module into parts, alternately for a backend and for the host.

    A subclass says what becomes of a backend's part (``_lower_model_to_backend``).

    Args:
        module: the module.
        sample_input: arguments to run it with.
        operator_support: says of a step whether the backend runs it.
        settings: how it is cut.
        non_acc_submodule_name: what the names of the host's parts begin with.
        return_tuple: whether parts give a tuple even of one result.
        nodes_finder: gives the backend's steps; by default an `FxNetAccNodesFinder`.
    """

    PCIe_BW = 100 * 2**30  # bytes a second

    def __init__(
        self,
        module,
        sample_input,
        operator_support,
        settings,
        non_acc_submodule_name="_run_on_cpu_",
        return_tuple=False,
        nodes_finder=None,
    ):
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        self.module = module
        ShapeProp(module).propagate(*sample_input)
        self.settings = settings
        self.operator_support = operator_support
        self.sample_input = sample_input
        if nodes_finder is None:
            nodes_finder = FxNetAccNodesFinder(
                module, operator_support, settings.allow_non_tensor
            )
        self.acc_nodes = nodes_finder()
        self.fusions: dict[Node, NodeSet] = {}
        if not settings.skip_fusion:
            self.fusions = FxNetAccFusionsFinder(module, self.acc_nodes)()
        self.deps = self.find_deps()
        self.update_deps_for_fusions()
        self.non_acc_submodule_name = non_acc_submodule_name
        self._node_submodule_map: dict[str, str] = {}
        self._return_tuple = return_tuple
        self.tags: list[str] = []

    def get_node_submodule_map(self):
        """The part of each step, both by name."""
        return self._node_submodule_map

    # -- what waits for what -----------------------------------------------------------

    def _calls(self):
        return [n for n in self.module.graph.nodes if n.op in CALLABLE_NODE_OPS]

    def find_deps(self):
        """The steps whose results each step takes."""
        deps: dict[Node, NodeSet] = defaultdict(set)
        for node in self._calls():
            for user in node.users:
                if user.op != "output":
                    deps[user].add(node)
        return deps

    def update_deps_for_fusions(self):
        """Has steps that stay together wait for the same ones, and others for all of them."""
        for node, fusion in self.fusions.items():
            for member in fusion:
                self.deps[node].update(self.deps[member] - fusion)
                for user in member.users:
                    if user not in fusion:
                        self.deps[user].add(node)

    def find_reverse_deps(self, tag_id=None):
        """The steps that take each step's result.

        Args:
            tag_id: of parts of a lower number only.
        """
        result: dict[Node, NodeSet] = defaultdict(set)
        for node in self._calls():
            for user in node.users:
                if user.op not in CALLABLE_NODE_OPS:
                    continue
                if tag_id is None or int(user.tag.split("_")[-1]) < tag_id:
                    result[node].add(user)
        return result

    def update_reverse_deps_for_fusions(self, deps):
        """Has steps that stay together be waited for by the same ones.

        Args:
            deps: what `find_reverse_deps` gives; changed.
        """
        done = set()
        for node, fusion in self.fusions.items():
            if node in done:
                continue
            outside = set().union(*(deps[member] for member in fusion)) - fusion
            for member in fusion:
                deps[member] = outside
                for arg in member.all_input_nodes:
                    if arg not in fusion:
                        deps[arg].update(fusion)
                done.add(member)

    def find_parent_nodes_of_subgraph(self, tag):
        """The steps of other parts whose results a part takes.

        Args:
            tag: the part.
        """
        return {
            arg
            for node in self._calls()
            if node.tag == tag
            for arg in node.all_input_nodes
            if arg.op in CALLABLE_NODE_OPS and arg.tag != tag
        }

    def extend_acc_subgraph(self, tag):
        """Takes into a part of the backend what runs before it and nobody else needs.

        Args:
            tag: the part.
        """
        deps = self.find_reverse_deps(tag_id=int(tag.rsplit("_", maxsplit=1)[-1]))
        self.update_reverse_deps_for_fusions(deps)
        waiting = self.find_parent_nodes_of_subgraph(tag)
        visited: NodeSet = set()
        while waiting:
            ready = [n for n in waiting if deps[n] <= visited and n in self.acc_nodes]
            if not ready:
                return
            node = ready[0]
            node.tag = tag
            waiting.remove(node)
            visited.add(node)
            waiting.update(self.fusions.get(node, set()) - visited)
            waiting.update(
                arg
                for arg in node.all_input_nodes
                if arg.op in CALLABLE_NODE_OPS and arg not in visited
            )

    # -- cutting -----------------------------------------------------------------------

    def starter_nodes(self):
        """The steps that use arguments, or nothing: the host's and the backend's."""
        starters: tuple[NodeSet, NodeSet] = (set(), set())
        for node in self.module.graph.nodes:
            first = list(node.users) if node.op in ("placeholder", "get_attr") else []
            if node.op == "call_function" and not node.all_input_nodes:
                first.append(node)
            for each in first:
                starters[each in self.acc_nodes].add(each)
        return starters

    def put_nodes_into_subgraphs(self):
        """The parts, as lists of steps, in the order in which they run.

        Raises:
            FxNetSplitterInternalError: steps wait for each other.
        """
        waiting = [*self.starter_nodes()]
        order = {node: place for place, node in enumerate(self.module.graph.nodes)}
        visited: NodeSet = set()
        is_acc = not any(not self.deps[node] for node in waiting[False])
        nodes: NodeList = []
        subgraphs: list[Subgraph] = []
        while any(waiting):
            ready = [n for n in waiting[is_acc] if self.deps[n] <= visited]
            if not ready:
                if not nodes:
                    raise FxNetSplitterInternalError("Subgraph can't be empty")
                subgraphs.append(Subgraph(is_acc, nodes))
                is_acc, nodes = not is_acc, []
                continue
            node = min(ready, key=order.__getitem__)
            waiting[is_acc].remove(node)
            visited.add(node)
            nodes.append(node)
            home = waiting[node in self.acc_nodes]
            home.update(self.fusions.get(node, set()) - visited)
            for user in node.users:
                if user.op in CALLABLE_NODE_OPS:
                    waiting[user in self.acc_nodes].add(user)
        if nodes:
            subgraphs.append(Subgraph(is_acc, nodes))
        if not subgraphs:
            raise FxNetSplitterInternalError("Couldn't create subgraphs")
        return subgraphs

    def remove_small_acc_subgraphs(self, subgraphs):
        """Gives the host the parts that have too few steps.

        Args:
            subgraphs: the parts.
        """
        result: list[Subgraph] = []
        for part in subgraphs:
            few = part.is_acc and len(part.nodes) < self.settings.min_acc_module_size
            if few:
                print(
                    f"Eliminating acc subgraph because it's smaller than the threshold: "
                    f"{len(part.nodes)} < {self.settings.min_acc_module_size}"
                )
            if few and result:
                result[-1].nodes.extend(part.nodes)
            elif few:
                part.is_acc = False
                result.append(part)
            elif not part.is_acc and result and not result[-1].is_acc:
                result[-1].nodes.extend(part.nodes)
            else:
                result.append(part)
        return result

    def tag(self, subgraphs):
        """Writes into each step which part it belongs to.

        Args:
            subgraphs: the parts.

        Raises:
            FxNetSplitterInternalError: a step has a tag.
        """
        self.tags = []
        for part in subgraphs:
            prefix = "_run_on_acc_" if part.is_acc else self.non_acc_submodule_name
            tag = f"{prefix}{len(self.tags)}"
            self.tags.append(tag)
            for node in part.nodes:
                if hasattr(node, "tag"):
                    raise FxNetSplitterInternalError(f"Node {node} was already tagged")
                node.tag = tag
                self._node_submodule_map[node.name] = tag

    def split(self, remove_tag=False):
        """The module that calls the parts.

        Args:
            remove_tag: whether tags are taken off the steps.
        """
        made = split_by_tags(self.module, self.tags, return_tuple=self._return_tuple)
        if remove_tag:
            for node in self.module.graph.nodes:
                if hasattr(node, "tag"):
                    del node.tag
        return made

    def __call__(self):
        subgraphs = self.put_nodes_into_subgraphs()
        if self.settings.move_non_tensor_nodes_on_boundary:
            move_non_tensor_nodes_on_boundary(subgraphs)
        subgraphs = self.remove_small_acc_subgraphs(subgraphs)
        count = sum(part.is_acc for part in subgraphs)
        print(
            f"Got {count} acc subgraphs and {len(subgraphs) - count} non-acc subgraphs"
        )
        self.tag(subgraphs)
        return self.split()

    def generate_split_results(self):
        """The module that calls the parts, and what each of them is given.

        Raises:
            ValueError: there are more parts than the settings allow.
        """
        made = self()
        names = [name for name, _ in made.named_children()]
        if 0 < self.settings.max_acc_splits < len(names):
            raise ValueError(
                "Cannot fulfill max_acc_splits limit: the module has "
                f"{len(names)} parts, {self.settings.max_acc_splits} are allowed"
            )
        inputs = generate_inputs_for_submodules(made, self.sample_input, names)
        return SplitResult(made, inputs, self.non_acc_submodule_name)

    # -- looking at it before ----------------------------------------------------------

    def _lower_model_to_backend(self, mod, inputs):
        """What the backend makes of a part; a subclass says it."""
        return mod

    def _find_culprit(self, mod, inputs):
        """Which steps of a part fail, as text; a subclass says it."""
        return "Unable to find a culprit: _find_culprit() is not implemented."

    def _draw_graph_based_on_node_support(self, mod, supported_nodes):
        class Drawer(FxGraphDrawer):
            def _get_node_style(self, node):
                style = super()._get_node_style(node)
                called = "crimson" if node.op in CALLABLE_NODE_OPS else "AliceBlue"
                supported = node in supported_nodes
                style["fillcolor"] = "chartreuse1" if supported else called
                return style

        drawing = Drawer(mod, "node_support", ignore_getattr=True)
        drawing.get_main_dot_graph().write_raw("node_support.dot")

    def node_support_preview(self, dump_graph=False):
        """Prints what is called, with the types of its arguments, by whether it is supported.

        Args:
            dump_graph: whether to draw it into ``node_support.dot``.

        Returns:
            the text.
        """
        submodules = dict(self.module.named_modules())
        kinds: tuple[dict, dict] = ({}, {})
        supported: NodeList = []
        for node in self._calls():
            found = self.operator_support.is_node_supported(submodules, node)
            if found:
                supported.append(node)
            rows = kinds[bool(found)].setdefault(get_node_target(submodules, node), {})
            rows[_types_of(node)] = None
        if dump_graph:
            self._draw_graph_based_on_node_support(self.module, supported)
        text = ""
        for title, found in (("Supported", kinds[True]), ("Unsupported", kinds[False])):
            text += f"\n{title} node types in the model:\n"
            for target, rows in found.items():
                for args, kwargs in rows:
                    text += f"{target}: ({args}, {dict(kwargs)})\n"
        print(text)
        return text

    def split_preview(self, dump_graph=False):
        """Prints what parts there would be, and whether the backend can run its own.

        Args:
            dump_graph: whether to draw the parts into files.

        Returns:
            the text.
        """
        subgraphs = self.put_nodes_into_subgraphs()
        text = _counted("Before", subgraphs)
        subgraphs = self.remove_small_acc_subgraphs(subgraphs)
        text += _counted("After", subgraphs)
        for number, part in enumerate(subgraphs):
            prefix = "_run_on_acc_" if part.is_acc else self.non_acc_submodule_name
            text += f"{prefix}{number}: {len(part.nodes)} node(s)\n"
        self.tag(subgraphs)
        made = self.split(remove_tag=True)
        made.eval()
        if dump_graph:
            drawing = FxGraphDrawer(made, "preview", ignore_getattr=True)
            for name, dot in drawing.get_all_dot_graphs().items():
                dot.write_raw(f"{name}.dot")
        most, slowest = self.PCIe_BW, ""
        names = [
            node.target
            for node in made.graph.nodes
            if node.op == "call_module" and "acc" in node.target
        ]
        inputs = generate_inputs_for_submodules(made, self.sample_input, names)
        for name in names:
            report, rate = self._tried(name, getattr(made, name), inputs[name])
            text += report
            if rate < most:
                most, slowest = rate, name
        text += (
            f"\nTheoretical max qps (bounds by PCIe bandwidth) for this model is {most},"
            f" bottleneck is submodule {slowest}."
        )
        print(text)
        return text

    def _tried(self, name, part, inputs):
        """What is said of a part of the backend, and how often a second it could run."""
        ShapeProp(part).propagate(*inputs)
        given = [n for n in part.graph.nodes if n.op == "placeholder"]
        text = f"\nProcessing acc submodule {name}\n"
        sizes = []
        for what, nodes in (
            ("Input", given),
            ("Output", part.graph.output_node().all_input_nodes),
        ):
            text += f"Checking {what.lower()}s...\n"
            sizes.append(0)
            for node in nodes:
                if is_node_output_tensor(node):
                    sizes[-1] += get_size_of_node(part, node)[0]
                else:
                    text += (
                        f"{what} {node.name} is not a tensor, which a backend may not "
                        "take!\n"
                    )
        rate = self.PCIe_BW / max(*sizes, 1)
        text += (
            f"Total input size in bytes is {sizes[0]}, total output size in bytes is "
            f"{sizes[1]}, theoretical max qps (bounds by PCIe bandwidth) for this "
            f"submodule is {rate}.\n"
        )
        try:
            lowered = self._lower_model_to_backend(part, inputs)
        except RuntimeError:
            return f"{text}Run into an error during lowering!\n" + self._find_culprit(
                part, inputs
            ), rate
        try:
            lowered(*inputs)
        except RuntimeError:
            return f"{text}Run into an error during inference!\n" + self._find_culprit(
                part, inputs
            ), rate
        return f"{text}Lowering and running succeed!\n", rate


def _counted(when, subgraphs):
    count = sum(part.is_acc for part in subgraphs)
    return (
        f"{when} removing small acc subgraphs, total {len(subgraphs)} subgraphs are "
        f"created: {count} acc subgraphs and {len(subgraphs) - count} cpu subgraphs.\n"
    )


def _types_of(node):
    """The types of a step's arguments, to the last that has one, and of those by name."""

    def kind(arg):
        noted = getattr(arg, "meta", {}).get("tensor_meta")
        return getattr(noted, "dtype", None)

    args = [kind(arg) if isinstance(arg, Node) else None for arg in node.args]
    while args and args[-1] is None:
        args.pop()
    named = [(k, kind(a)) for k, a in node.kwargs.items() if isinstance(a, Node)]
    return tuple(args), tuple(named)
