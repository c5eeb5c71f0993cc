"""Watches what a pass does to a graph, and notes in steps where they come from."""

import os

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.passes.graph_drawer import FxGraphDrawer
from rushlight.fx.traceback import NodeSource, NodeSourceAction

__all__ = ["GraphTransformObserver"]


class GraphTransformObserver:
    """A block in which a pass runs.

    Where it watches, steps that the pass makes have it among their ``from_node``, and the
    graph before and after is drawn into files of ``log_url``.

    Args:
        gm: the module that the pass changes.
        passname: the pass's name.
        subsystem: what the pass belongs to.
        log_url: a folder; by default `_inductor.config.trace.log_url_for_graph_xform`.

    >>> from rushlight import fx
    >>> module = fx.symbolic_trace(lambda x: x + 1)
    >>> observer = GraphTransformObserver(module, "cleaning")
    >>> observer.apply_graph_pass(lambda graph: graph.eliminate_dead_code())
    False
    """

    _count = 0

    def __init__(self, gm, passname, subsystem=None, log_url=None):
        from rushlight._inductor import config

        self.gm = gm
        self.passname = passname
        self.subsystem = subsystem
        self.log_url = log_url
        if log_url is None:
            self.log_url = config.trace.log_url_for_graph_xform
        tracks = config.trace.provenance_tracking_level == 1
        self.active = self.log_url is not None or tracks
        self.erased_nodes: set[str] = set()
        self.created_nodes: set[str] = set()
        self.name_to_node: dict[str, Node] = {}
        self.copied_gms: list[GraphModule] = []
        self._hooks = {
            "create_node": self.get_node_creation_hook(),
            "erase_node": self.get_node_erase_hook(),
            "replace_node": self.get_node_replace_hook(),
            "deepcopy": self.get_deepcopy_hook(),
        }
        if self.log_url is not None:
            GraphTransformObserver._count += 1
            self.input_dot_graph = self._drawn()

    @classmethod
    def get_current_pass_count(cls):
        """How many passes were watched into files."""
        return cls._count

    def apply_gm_pass(self, pass_fn):
        """Runs a pass over the module, and gives what it gives.

        Args:
            pass_fn: is given the module.
        """
        with self:
            return None if self._check_disable_pass() else pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn):
        """Runs a pass over the module's graph, and gives what it gives.

        Args:
            pass_fn: is given the graph.
        """
        with self:
            return None if self._check_disable_pass() else pass_fn(self.gm.graph)

    def _check_disable_pass(self):
        from rushlight._inductor import config

        return self.passname.upper() in config.disabled_passes.upper()

    def __enter__(self):
        if not self.active:
            return self
        for seen in (self.erased_nodes, self.created_nodes, self.copied_gms):
            seen.clear()
        self.name_to_node = {node.name: node for node in self.gm.graph.nodes}
        for kind, hook in self._hooks.items():
            self._registering(self.gm, kind, "register")(hook)
        return self

    @staticmethod
    def _registering(module, kind, verb):
        name = f"{kind}_hook"
        return getattr(module, f"_{verb}_{name}")

    def __exit__(self, kind, value, trace):
        if not self.active:
            return
        for module in (*self.copied_gms, self.gm):
            for each, hook in self._hooks.items():
                self._registering(module, each, "unregister")(hook)
        if self.log_url is None or not (self.created_nodes or self.erased_nodes):
            return
        name = f"pass_{self._count}_{self.passname}"
        for drawing, marked, when in (
            (self.input_dot_graph, self.erased_nodes, "input"),
            (self._drawn(), self.created_nodes, "output"),
        ):
            for step, box in drawing.boxes.items():
                box["fillcolor"] = "yellow" if step in marked else "grey"
            drawing.write(os.path.join(self.log_url, f"{name}_{when}_graph.dot"))

    def _drawn(self):
        drawer = FxGraphDrawer(
            self.gm,
            self.passname,
            ignore_getattr=True,
            ignore_parameters_and_buffers=True,
        )
        return drawer.get_dot_graph()

    # Functions rather than methods: modules keep them, and are copied.

    def get_node_creation_hook(self):
        """A function to be called with each new step."""

        def on_node_creation(node):
            self.created_nodes.add(node.name)
            self.name_to_node[node.name] = node
            source = NodeSource(None, self.passname, NodeSourceAction.CREATE)
            node.meta.setdefault("from_node", []).append(source)

        return on_node_creation

    def get_node_erase_hook(self):
        """A function to be called with each step that goes."""

        def on_node_erase(node):
            self.erased_nodes.add(node.name)
            self.name_to_node.pop(node.name, None)

        return on_node_erase

    def get_node_replace_hook(self):
        """A function to be called with a step, the name of what replaces it, and a user."""

        def on_node_replace(old, new, user):
            made = self.name_to_node.get(new)
            if made is None:
                return
            known = made.meta.get("from_node", [])
            if any(source.name == old.name for source in known):
                return
            action = [NodeSourceAction.REPLACE]
            if made.name in self.created_nodes:
                action.append(NodeSourceAction.CREATE)
            plain = self.passname, [NodeSourceAction.CREATE]
            kept = [one for one in known if (one.pass_name, one.action) != plain]
            kept.append(NodeSource(old, self.passname, action))
            made.meta["from_node"] = kept

        return on_node_replace

    def get_deepcopy_hook(self):
        """A function to be called with each copy of the module."""

        def on_deepcopy(module):
            self.copied_gms.append(module)

        return on_deepcopy
