"""Finds the steps of a module that two ways of running it do not agree about."""

import logging
from dataclasses import dataclass
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, map_arg
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.fx.passes.split_utils import split_by_tags
from rushlight.fx.passes.tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    NodeSet,
)

__all__ = [
    "FxNetMinimizerBadModuleError",
    "FxNetMinimizerResultMismatchError",
    "FxNetMinimizerRunFuncError",
]

_LOGGER = logging.getLogger(__name__)


class FxNetMinimizerBadModuleError(Exception):
    """The steps cannot be cut out of the module."""


class FxNetMinimizerRunFuncError(Exception):
    """One of the two ways of running a part fails."""


class FxNetMinimizerResultMismatchError(Exception):
    """The results of a part differ."""


_FAULTS = FxNetMinimizerRunFuncError, FxNetMinimizerResultMismatchError


@dataclass
class _MinimizerSettingBase:
    """How to look.

    Args:
        accumulate_error: whether each way goes on from its own results, not from those
            of the first.
        traverse_method: ``"sequential"``, step by step; ``"binary"``, by halves;
            ``"accumulate"``, one step more each time; ``"block"``, the fewest steps in a
            row; ``"skip"``, all but some; ``"defined"``, all at once.
        find_all: whether to go on after the first.
        return_intermediate: whether ``run_nodes`` compares the results of all steps.
        all_outputs: whether everything that a part gives is compared.
    """

    accumulate_error: bool = False
    traverse_method: str = "sequential"
    find_all: bool = False
    return_intermediate: bool = False
    all_outputs: bool = False

    def __str__(self):
        rows = [f"\t{name}: {value}\n" for name, value in vars(self).items()]
        return "FX Minimizer Settings:\n" + "".join(rows)


class _MinimizerBase:
    """Cuts parts out of a module, runs each in two ways, and compares.

    A subclass says what the ways are: ``run_a`` and ``run_b``.

    Args:
        module: the module.
        sample_input: its arguments.
        compare_fn: is given the two results and the names of steps; gives a number and
            whether they agree.
        settings: how to look.
        module_exporter: is given the arguments, a part whose results differ, and a name.
        exclusion_fn: takes steps out of a list that is to be looked at; it is given their
            places, too.
    """

    def __init__(
        self,
        module,
        sample_input,
        compare_fn,
        settings,
        module_exporter=None,
        exclusion_fn=None,
    ):
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        self.module = module
        self.sample_input = sample_input
        self.compare_fn = compare_fn
        self.module_exporter = module_exporter
        self.settings = settings
        self.exclusion_fn = exclusion_fn
        self.a_outputs: dict[str, Any] = {}
        self.b_outputs: dict[str, Any] = {}
        self.results: dict[Any, Any] = {}
        self.reports: list[list[str]] = []
        self.iteration = 0
        called = {node for node in module.graph.nodes if node.op in CALLABLE_NODE_OPS}
        self.run_shape_prop()
        self.fusions = FxNetAccFusionsFinder(module, called)()
        given = [node.name for node in module.graph.nodes if node.op == "placeholder"]
        if len(given) != len(sample_input):
            raise AssertionError(
                f"Placeholder count ({len(given)}) does not match sample_input count "
                f"({len(sample_input)})"
            )
        self.a_outputs.update(zip(given, sample_input))
        self.b_outputs.update(zip(given, sample_input))

    def run_shape_prop(self):
        """Notes what each step gives; a subclass may do it in another way."""
        ShapeProp(self.module).propagate(*self.sample_input)

    def run_a(self, mod, inputs, report_idx=-1):
        """Runs a part in the first way; a subclass says it.

        Args:
            mod: the part.
            inputs: its arguments.
            report_idx: which of the reports it is of.
        """
        raise RuntimeError("run_a() is not implemented.")

    def run_b(self, mod, inputs, report_idx=-1):
        """Runs a part in the second way; see `run_a`."""
        raise RuntimeError("run_b() is not implemented.")

    # -- one part ----------------------------------------------------------------------

    def _store_outputs(self, a_result, b_result, submodule):
        """Keeps what a part gave, for the parts that take it."""
        given = submodule.graph.output_node().args[0]
        if isinstance(given, Node):
            self.a_outputs[given.name], self.b_outputs[given.name] = a_result, b_result
            return
        for node, one, other in zip(given, a_result, b_result):
            self.a_outputs[node.name], self.b_outputs[node.name] = one, other

    def _get_submod_inputs(self, main_module, submod_path):
        """What a part is given in the first way and in the second."""
        part = getattr(main_module, submod_path)
        names = [node.name for node in part.graph.nodes if node.op == "placeholder"]
        if self.a_outputs.keys() >= set(names):
            first = [self.a_outputs[name] for name in names]
            second = [self.b_outputs[name] for name in names]
        else:
            if self.settings.accumulate_error:
                print(f"Can't find previous stored outputs named {names}!")
            seen = []
            hook = part.register_forward_pre_hook(lambda _, given: seen.append(given))
            try:
                main_module(*self.sample_input)
            finally:
                hook.remove()
            first = second = seen[-1]
        return (first, second) if self.settings.accumulate_error else (first, first)

    def _tag_nodes(self, selected_nodes):
        """Marks steps: those that were chosen, those before them, those behind them."""
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            taken = [n.tag for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS]
            if node in selected_nodes:
                node.tag = "minimize"
            elif "minimize" in taken or "main_1" in taken:
                node.tag = "main_1"
            else:
                node.tag = "main_0"

    def _build_submodule(self, nodes):
        """The module with some steps as a part of their own, and the part's name.

        Raises:
            FxNetMinimizerBadModuleError: there is no such part.
        """
        self._tag_nodes(nodes)
        made = split_by_tags(self.module, ["main_0", "minimize", "main_1"])
        found = [name for name, _ in made.named_children() if "minimize" in name]
        if len(found) != 1:
            fault = "Expected only one minimize submodule" if found else (
                "Minimize submodule was not found"
            )  # fmt: skip
            raise FxNetMinimizerBadModuleError(f"{fault} with nodes {nodes}")
        return made, found[0]

    @staticmethod
    def _give(part, names):
        """Has a part give the results of the named steps."""
        wanted = [node for node in part.graph.nodes if node.name in names]
        part.graph.erase_node(part.graph.output_node())
        part.graph.output(wanted[0] if len(wanted) == 1 else tuple(wanted))
        part.graph.lint()
        part.recompile()

    def _run_and_compare(self, split_module, submod_name, output_names, report_idx=-1):
        """Runs a part in both ways and compares.

        Raises:
            FxNetMinimizerRunFuncError: one of them fails.
            FxNetMinimizerResultMismatchError: they differ.
        """
        part = getattr(split_module, submod_name)
        a_input, b_input = self._get_submod_inputs(split_module, submod_name)
        if not self.reports:
            self.reports.append([])
            self.iteration = 1
        report = self.reports[report_idx if report_idx >= 0 else self.iteration - 1]
        report.append("Run and compare ...")
        if output_names and not self.settings.all_outputs:
            self._give(part, output_names)
        key = map_arg(part.graph.output_node().args, lambda node: node.name)
        try:
            a_result = self.run_a(part, a_input, report_idx)
            b_result = self.run_b(part, b_input, report_idx)
            self._store_outputs(a_result, b_result, part)
        except Exception as error:
            text = f"Exception raised when running {submod_name}: {error}"
            report.append(text)
            raise FxNetMinimizerRunFuncError(text) from error
        names = [str(one) for one in key] if output_names is None else output_names
        number, agree = self.compare_fn(a_result, b_result, names)
        self.results[key] = number
        report.append(f"Numerical accuracy = {number}")
        if agree:
            return
        report.append(f"Result mismatch for {key}")
        if self.module_exporter:
            name = key[-1] if isinstance(key, tuple) else key
            name = str(name[0]) if isinstance(name, tuple) else name
            self.module_exporter(a_input, part, f"{name}_cpu")
            self.module_exporter(b_input, part, f"{name}_acc")
        raise FxNetMinimizerResultMismatchError(f"Result mismatch for {key}")

    def _fault_of(self, nodes, output_names, report_idx=-1):
        """The fault of a part of some steps; None where there is none."""
        try:
            made, name = self._build_submodule(nodes)
            self._run_and_compare(made, name, output_names, report_idx)
        except _FAULTS as fault:
            return fault
        return None

    def _begin(self, *lines):
        """A new report."""
        self.iteration += 1
        report = [line.format(self.iteration) for line in lines]
        self.reports.append(report)
        return report

    def _end(self, report, *lines):
        report.extend(lines)
        self.print_report(report)

    # -- ways through the module -------------------------------------------------------

    def _binary_search_impl(self, all_nodes, start_idx, end_idx):
        nodes = all_nodes[start_idx:end_idx]
        if self.exclusion_fn is not None:
            self.exclusion_fn(nodes, start_idx, end_idx)
            if not nodes:
                self.reports.append(["All nodes are excluded by user"])
                return set()
        report = self._begin(
            "Binary search iteration {}",
            f"From node index {start_idx}:{nodes[0].name} to {end_idx - 1}:"
            f"{nodes[-1].name}. Size of the interested node list is {len(nodes)}",
        )
        if self._fault_of(set(nodes), [nodes[-1].name]) is None:
            self._end(report, "No discrepancy found.")
            return set()
        if len(nodes) == 1:
            self._end(report, f"The search ends here: culprit = {set(nodes)}.")
            return set(nodes)
        self._end(report, "Proceed to each half of the current sub-module.")
        middle = start_idx + len(nodes) // 2
        culprits = self._binary_search_impl(all_nodes, start_idx, middle)
        if culprits and not self.settings.find_all:
            return culprits
        culprits = self._binary_search_impl(all_nodes, middle, end_idx)
        if not culprits:
            self._end(report, f"Both halves agree alone; together they differ: {nodes}")
        return culprits

    def _binary_traverse(self, nodes):
        return self._binary_search_impl(nodes, 0, len(nodes))

    def _sequential_traverse(self, nodes):
        culprits: NodeSet = set()
        for node in nodes:
            report = self._begin(
                "Sequential traverse iteration {}.", f"Visit node: {node.name}"
            )
            _LOGGER.info("Visit node: %s", node.name)
            listed = [node]
            if self.exclusion_fn is not None:
                self.exclusion_fn(listed, -1, -1)
            if not listed:
                self._end(report, f"User exclusion : {node.name}")
                if self.settings.find_all:
                    continue
                return culprits
            chosen = self.fusions.get(node, {node})
            fault = self._fault_of(chosen, [node.name])
            if isinstance(fault, FxNetMinimizerResultMismatchError):
                culprits.add(node)
                self._end(report, f"Found culprit from numeric error: {node}")
            elif fault is not None:
                culprits.update(chosen)
                self._end(report, f"Found culprit from run error: {node}")
            else:
                self._end(report)
            if fault is not None and not self.settings.find_all:
                return culprits
        return culprits

    def _accumulate_traverse(self, nodes):
        if self.settings.find_all:
            print("'Find All' mode is not supported in accumulate traversal.")
            return set()
        chosen: NodeSet = set()
        for node in nodes:
            chosen.add(node)
            report = self._begin(
                "Accumulate traverse iteration {}.", f"Add node: {node.name}"
            )
            if self._fault_of(chosen, [node.name]) is not None:
                self._end(report, f"Found culprit {node}")
                return {node}
            self._end(report)
        return set()

    def _defined_traverse(self, nodes):
        if self.exclusion_fn is not None:
            self.exclusion_fn(nodes, -1, -1)
        if not nodes:
            self.reports.append(["All nodes are excluded by user"])
            return set()
        report = [f"Defined graph from {nodes[0].name} to {nodes[-1].name}"]
        found = self._fault_of(set(nodes), [nodes[-1].name])
        self._end(report, *([f"Found culprit {set(nodes)}"] if found else []))
        return set()

    def _skip_traverse_impl(self, all_nodes, start_idx, end_idx):
        nodes = all_nodes[start_idx:end_idx]
        if self.exclusion_fn is not None:
            self.exclusion_fn(nodes, start_idx, end_idx)
            chosen = set(nodes)
        else:
            chosen = set(nodes).union(*(self.fusions.get(n, ()) for n in nodes))
        report = self._begin(
            " Nodes block {}.",
            f"From node index {start_idx} to {end_idx - 1}. Size of the interested node "
            f"list is {len(nodes)}",
        )
        fault = self._fault_of(chosen, [])
        if fault is None:
            self._end(report, "No discrepancy found.")
            return set()
        numeric = isinstance(fault, FxNetMinimizerResultMismatchError)
        kind = "numeric" if numeric else "run"
        self._end(report, f"Found culprit from {kind} error: {chosen}")
        return chosen

    def _skip_traverse(self, all_nodes, skip_nodes):
        culprits: NodeSet = set()
        start = 0
        for place, node in enumerate(all_nodes):
            if node.name in skip_nodes:
                if place > start:
                    culprits = self._skip_traverse_impl(all_nodes, start, place)
                start = place + 1
            elif place == len(all_nodes) - 1:
                culprits = self._skip_traverse_impl(all_nodes, start, place + 1)
        return culprits

    def _block_traverse_impl(self, nodes, start_idx, end_idx, find_last_node):
        """The place where a row of steps begins to differ, or stops; None for nowhere."""
        middle = (start_idx + end_idx) // 2
        listed = nodes[: middle + 1] if find_last_node else nodes[middle:]
        if self.exclusion_fn:
            self.exclusion_fn(listed, -1, -1)
        side = "last" if find_last_node else "first"
        report = self._begin(
            "Block search iteration {}",
            f"Search for {side} node in culprits, from node index {start_idx}:"
            f"{nodes[start_idx].name} to {end_idx}:{nodes[end_idx].name}",
            f"Subgraph constructed by {listed[0].name} to {listed[-1].name}",
        )
        number = len(self.reports) - 1
        fault = self._fault_of(set(listed), [listed[-1].name], number)
        alone = start_idx == middle == end_idx
        if alone and fault is not None:
            self._end(
                report, f"The search ends at {start_idx}: {nodes[start_idx].name}"
            )
            return start_idx
        if alone:
            edge = len(nodes) - 1 if find_last_node else 0
            if start_idx == edge:
                self._end(report, f"At {side} node, no culprits found.")
                return None
            return start_idx + (1 if find_last_node else -1)
        found = "found" if fault is not None else "not found"
        self._end(report, f"Culprits {found}; proceed to a half of the sub-module.")
        if (fault is not None) == bool(find_last_node):
            return self._block_traverse_impl(nodes, start_idx, middle, find_last_node)
        return self._block_traverse_impl(nodes, middle + 1, end_idx, find_last_node)

    def _block_traverse(self, nodes, find_last_node):
        """The fewest steps in a row that differ: first their end is found, then the start."""
        report = [f"Block search from {nodes[0].name} to {nodes[-1].name}"]
        self.reports.append(report)
        start, end = 0, len(nodes) - 1
        if find_last_node is None or find_last_node:
            last = self._block_traverse_impl(nodes, start, end, True)
            if last is None:
                self._end(report, "No culprits found")
                return set()
            self._end(report, f"Finish Pass 1: end_idx = {last}:{nodes[last].name}")
        else:
            last = end
        first = start
        if not find_last_node:
            first = self._block_traverse_impl(nodes, start, last or end, False)
            if first is None:
                self._end(report, "No culprits found")
                return set()
            self._end(report, f"Finish Pass 2: start_idx = {first}:{nodes[first].name}")
        self._end(report, f"Minimum block ({nodes[first]},{nodes[last]})")
        return set(nodes[first : last + 1])

    # -- what users call ---------------------------------------------------------------

    def _collect_nodes(self, start, end):
        """The steps from one to another, both among them."""
        nodes = []
        taken = start is None
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            taken = taken or node.name == start
            if taken:
                nodes.append(node)
            if node.name == end:
                break
        return nodes

    def run_nodes(self, start=None, end=None):
        """Runs a part of the module in both ways, and prints what is wrong.

        Args:
            start: the name of the first step; None for the module's.
            end: the name of the last one, likewise.
        """
        nodes = self._collect_nodes(start, end)
        chosen = set(nodes).union(*(self.fusions.get(node, ()) for node in nodes))
        names = [n.name for n in nodes] if self.settings.return_intermediate else []
        fault = self._fault_of(chosen, names)
        if fault is not None:
            print(fault)

    def print_report(self, report):
        """Prints the lines of a report."""
        for number, line in enumerate(report):
            print(f" . {line}" if number else line)

    def print_reports(self):
        """Prints all reports."""
        for report in self.reports:
            self.print_report(report)

    def minimize(self, start=None, end=None, skip_nodes=None, find_last_node=None):
        """Finds the steps that fail or differ.

        Args:
            start: the name of the first step to look at; None for the module's.
            end: the name of the last one, likewise.
            skip_nodes: names of steps to leave out, for ``"skip"``.
            find_last_node: for ``"block"``, whether to look for the last step alone or
                for the first one alone; None for both.

        Returns:
            the steps, a set.

        Raises:
            RuntimeError: there is no such way of looking.
        """
        print(self.settings)
        print(self.module.graph)
        nodes = self._collect_nodes(start, end)
        method = self.settings.traverse_method
        if method == "skip":
            if skip_nodes is None:
                raise RuntimeError(
                    "'skip_nodes' can't be None when 'traverse_method' is 'skip'."
                )
            return self._skip_traverse(nodes, skip_nodes)
        if method == "block":
            return self._block_traverse(nodes, find_last_node)
        ways = {
            "sequential": self._sequential_traverse,
            "binary": self._binary_traverse,
            "accumulate": self._accumulate_traverse,
            "defined": self._defined_traverse,
        }
        if method not in ways:
            raise RuntimeError(f"Unknown traverse method {method}!")
        return ways[method](nodes)
