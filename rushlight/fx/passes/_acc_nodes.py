"""The steps of a module that a backend gets, and why each of them."""

import os

from rushlight.fx.passes.tools_common import (
    CALLABLE_NODE_OPS,
    NodeList,
    NodeSet,
    is_node_output_tensor,
)

DUMP_PREFIX = os.environ.get("FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH", "_fx_net_tracker")
# 0: nothing is written; 1: all events; 2: those of some steps besides, with what they
# came from; 3: of all steps with several events.
TRACKER_MODE = os.environ.get("FX_NET_ACC_SPLITTER_TRACKER_MODE", "0")


class NodeEvent:
    """One thing that happened to a step.

    Args:
        source: the step.
        desc: what happened, and why, with a bar between.
        dep: the step that it came from; None for itself.
    """

    def __init__(self, source, desc, dep=None):
        self.source, self.desc, self.dep = source, desc, dep

    def to_str(self):
        """The event as a line."""
        cause = self.dep.name if self.dep else "#"
        return f"{self.source.name}: {self.desc} {cause}"


class NodeEventTracker:
    """Collects events.

    Args:
        tracker_mode: what ``dump`` writes, a number from 0 to 3.
        dump_prefix: what the names of its files begin with.

    >>> from rushlight import fx
    >>> node = next(iter(fx.symbolic_trace(lambda x: x + 1).graph.nodes))
    >>> tracker = NodeEventTracker(0, "")
    >>> tracker.add(node, "init_cpu|not_callable")
    >>> tracker.to_dict()
    {'x': ['x: init_cpu|not_callable #']}
    """

    def __init__(self, tracker_mode, dump_prefix):
        self.tracker_mode, self.dump_prefix = tracker_mode, dump_prefix
        self.events: list[NodeEvent] = []
        self.node_events: dict[str, list[int]] = {}
        self.writer = print

    def add(self, node, desc, dep=None):
        """Notes an event; see `NodeEvent`."""
        self.node_events.setdefault(node.name, []).append(len(self.events))
        self.events.append(NodeEvent(node, desc, dep))

    def print_node(self, node_name, recursive=False, tab="", writer=None):
        """Writes the events of a step.

        Args:
            node_name: the step's name.
            recursive: whether those of the steps that they came from follow.
            tab: what lines begin with.
            writer: is called with each line; ``print`` by default.
        """
        writer = writer or self.writer
        for number in self.node_events.get(node_name, []):
            event = self.events[number]
            writer(tab + event.to_str())
            if recursive and event.dep is not None:
                self.print_node(event.dep.name, True, "| " + tab, writer)

    def to_dict(self):
        """All events as lines, by the names of steps."""
        return {
            name: [self.events[number].to_str() for number in numbers]
            for name, numbers in self.node_events.items()
        }

    def print_all(self, writer=None):
        """Writes the events of all steps.

        Args:
            writer: is called with each line; ``print`` by default.
        """
        writer = writer or self.writer
        for name in self.node_events:
            writer(f"Node: {name}:")
            self.print_node(name, tab="  ", writer=writer)

    def dump(self):
        """Writes what the mode says into files."""
        if self.tracker_mode < 1:
            return
        with open(f"{self.dump_prefix}_all.txt", "w", encoding="utf-8") as file:
            self.print_all(lambda line: file.write(line + "\n"))
        if self.tracker_mode not in (2, 3):
            return
        wanted = os.environ.get("FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES", "")
        names = wanted.split(",")
        if self.tracker_mode == 3:
            names = [name for name, found in self.node_events.items() if found[1:]]
        with open(f"{self.dump_prefix}_nodes.txt", "w", encoding="utf-8") as file:
            for name in names:
                file.write(f"===== Tracking node {name} =====\n")
                self.print_node(name, True, "|-", lambda line: file.write(line + "\n"))
                file.write(f"===== End of tracking node {name} =====\n")


class FxNetAccNodesFinder:
    """Finds the steps that a backend gets: those that it runs, but for some.

    What is no tensor does not pass between the backend and the host, unless that is
    allowed: steps that would take it from the host or give it there stay there.

    Args:
        module: the module; its steps have the notes of `ShapeProp`.
        operator_support: says of a step whether the backend runs it.
        allow_non_tensor: whether anything may pass.
    """

    def __init__(self, module, operator_support, allow_non_tensor):
        self.module = module
        self.operator_support = operator_support
        self.allow_non_tensor = allow_non_tensor
        self.acc_nodes: NodeSet = set()
        self.tracker = NodeEventTracker(int(TRACKER_MODE), DUMP_PREFIX)

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist):
        """Takes from the backend what uses some steps of the host, and so on from there.

        Args:
            cpu_worklist: steps whose results are no tensors.
        """
        while cpu_worklist:
            node = cpu_worklist.pop(0)
            for user in node.users:
                if user not in self.acc_nodes:
                    continue
                self.acc_nodes.remove(user)
                self.tracker.add(user, "acc_del|user_of_new_cpu_node", node)
                if not is_node_output_tensor(user):
                    self.tracker.add(user, "new_cpu_node|non_tensor_output")
                    cpu_worklist.append(user)

    def reduce_acc_nodes_non_tensor_input(self):
        """Takes from the backend what would get from the host what is no tensor."""
        found: NodeList = []
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS or node in self.acc_nodes:
                continue
            if not is_node_output_tensor(node):
                self.tracker.add(node, "new_cpu_node|callable_non_tensor_input")
                found.append(node)
        self.reduce_acc_nodes_non_tensor_input_helper(found)

    def reduce_acc_nodes_non_tensor_output(self):
        """Takes from the backend what would give the host what is no tensor."""
        while True:
            found: NodeList = []
            for node in [n for n in self.module.graph.nodes if n in self.acc_nodes]:
                if is_node_output_tensor(node):
                    continue
                for user in node.users:
                    if user not in self.acc_nodes:
                        found.append(node)
                        why = "acc_del|non_tensor_output_with_cpu_user"
                        self.tracker.add(node, why, user)
                        break
            if not found:
                return
            self.acc_nodes.difference_update(found)
            self.reduce_acc_nodes_non_tensor_input_helper(found)

    def __call__(self):
        submodules = dict(self.module.named_modules())
        self.acc_nodes = set()
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                self.tracker.add(node, "init_cpu|not_callable")
            elif not self.operator_support.is_node_supported(submodules, node):
                self.tracker.add(node, "init_cpu|operator_support")
            else:
                self.tracker.add(node, "init_acc|callable_and_operator_supported")
                self.acc_nodes.add(node)
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        self.tracker.dump()
        return self.acc_nodes
