"""A model cut into stages where it says so: exported, and divided between its steps."""

import contextlib
import copy
import operator
from enum import Enum
from types import MethodType
from typing import NamedTuple

from rushlight import export, ops
from rushlight.dispatch.library import Library
from rushlight.distributed.pipelining.stage import PipeInfo, _PipelineStage
from rushlight.fx import Graph, GraphModule, Interpreter
from rushlight.fx.node import map_arg
from rushlight.nn import Module
from rushlight.utils._pytree import tree_leaves

__all__ = ["Pipe", "SplitPoint", "annotate_split_points", "pipe_split", "pipeline"]

PREFIX = "submod_pp"
_LIBRARY = Library("pippy", "DEF")
_LIBRARY.define("_pipe_split() -> ()")
_LIBRARY.impl("_pipe_split", lambda: None, "CompositeExplicitAutograd")
_OPERATOR = ops.pippy._pipe_split.default


def pipe_split():
    """Where one stage of a model ends and the next begins; does nothing when it runs.

    >>> pipe_split()
    """
    return _OPERATOR()


class SplitPoint(Enum):
    """On which side of a module a stage ends."""

    BEGINNING = 1
    END = 2


def _split_before(self, *args, **kwargs):
    pipe_split()
    return self._orig_forward(*args, **kwargs)


def _split_after(self, *args, **kwargs):
    try:
        return self._orig_forward(*args, **kwargs)
    finally:
        pipe_split()


def _named_module(root, path):
    found = root
    names = path.split(".")
    for place, name in enumerate(names):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise AttributeError(
                f"Specified target {path} referenced nonexistent module "
                f"{'.'.join(names[: place + 1])}"
            ) from error
    return found


def annotate_split_points(mod, spec):
    """Has modules say, when they run, that a stage ends before or after them.

    Args:
        mod: the model.
        spec: a `SplitPoint` for each path of a module in it.

    Raises:
        AttributeError: there is no such module.
        ValueError: what is said is no `SplitPoint`.
    """
    for path, point in spec.items():
        found = _named_module(mod, path)
        if point not in (SplitPoint.BEGINNING, SplitPoint.END):
            raise ValueError("Unknown split point type.")
        around = _split_before if point is SplitPoint.BEGINNING else _split_after
        found._orig_forward = found.forward
        found.forward = MethodType(around, found)


@contextlib.contextmanager
def _annotated(mod, spec):
    """The same while a model is recorded: afterwards it is as it was."""
    try:
        annotate_split_points(mod, spec)
        yield
    finally:
        for path in spec:
            found = _named_module(mod, path)
            vars(found).pop("forward", None)
            vars(found).pop("_orig_forward", None)


class _Part(NamedTuple):
    """The steps of one stage."""

    steps: list
    takes: list  # values that earlier stages made, or the batch
    gives: list  # values that later stages want, or the caller


def _is_split(node):
    return node.op == "call_function" and node.target in (_OPERATOR, pipe_split)


def _is_step(node):
    return node.op in ("call_function", "call_module", "call_method")


def _inputs(node):
    """What a step reads of other steps and of the batch, in its order."""
    return [one for one in node.all_input_nodes if one.op != "get_attr"]


def _divided(graph):
    """The steps of a graph by stages; a stage without steps is none."""
    groups: list = [[]]
    for node in graph.nodes:
        if _is_split(node):
            groups += [[]] if groups[-1] else []
        elif _is_step(node) and node.target != "_guards_fn":
            groups[-1].append(node)
    groups = [steps for steps in groups if steps] or [[]]
    home = {node: at for at, steps in enumerate(groups) for node in steps}
    output = graph.output_node()
    parts = []
    for at, steps in enumerate(groups):
        takes = [one for node in steps for one in _inputs(node) if home.get(one) != at]
        gives = [
            node
            for node in steps
            if any(user is output or home.get(user, at) != at for user in node.users)
        ]
        parts.append(_Part(steps, list(dict.fromkeys(takes)), gives))
    return parts


def _part_module(traced, part, name):
    """A stage's steps as a module, with the parameters that they read under their names."""
    graph, env = Graph(), {}
    for value in part.takes:
        env[value] = graph.placeholder(value.name)
        env[value].meta = dict(value.meta)
    steps = set(part.steps)
    for node in traced.graph.nodes:  # in the order in which the model has them
        if node.op == "get_attr" and not steps.isdisjoint(node.users):
            env[node] = graph.node_copy(node)
    for node in part.steps:
        env[node] = graph.node_copy(node, env.__getitem__)
    given = tuple(env[value] for value in part.gives)
    graph.output(given[0] if len(given) == 1 else given)
    return GraphModule(traced, graph, name)


def _split_graph(traced, parts):
    """A graph that calls each stage once, and the stages as a module."""
    root, graph, env = Module(), Graph(), {}
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            env[node] = graph.placeholder(node.name)
    for at, part in enumerate(parts):
        name = f"{PREFIX}_{at}"
        root.add_module(name, _part_module(traced, part, name))
        made = graph.call_module(name, tuple(env[value] for value in part.takes))
        made.meta["stage_idx"] = at
        if len(part.gives) == 1:
            env[part.gives[0]] = made
        else:
            for place, value in enumerate(part.gives):
                env[value] = graph.call_function(operator.getitem, (made, place))
    graph.output(map_arg(traced.graph.output_node().args[0], env.__getitem__))
    return GraphModule(root, graph)


class Pipe(Module):
    """A model as stages that run one after the other.

    Args:
        split_gm: a graph of calls of the stages, which are its modules.
        num_stages: how many there are.
        has_loss_and_backward: False: schedules differentiate.
        loss_spec: None.
        names: of the keyword arguments that the model was recorded with.

    >>> import rushlight as rl
    >>> model = rl.nn.Sequential(rl.nn.Linear(4, 3), rl.nn.ReLU(), rl.nn.Linear(3, 2))
    >>> spec = {"1": SplitPoint.END}
    >>> pipe = pipeline(model, (rl.ones(2, 4),), split_spec=spec)
    >>> [list(pipe.get_stage_module(i).state_dict()) for i in range(pipe.num_stages)]
    [['0.weight', '0.bias'], ['2.weight', '2.bias']]
    """

    def __init__(
        self, split_gm, num_stages, has_loss_and_backward, loss_spec, names=()
    ):
        super().__init__()
        self.split_gm, self.num_stages = split_gm, num_stages
        self.has_loss_and_backward, self.loss_spec = has_loss_and_backward, loss_spec
        self._names = tuple(names)
        self.replicated_params = self._replicated()

    def _replicated(self):
        """Parameters of several stages: each gets its own, and is told here."""
        found: dict = {}
        for stage, module in self.split_gm.named_children():
            for path, parameter in module.named_parameters():
                found.setdefault(parameter, {})[stage] = path
        several = [users for users in found.values() if len(users) > 1]
        for users in several:
            for stage, path in users.items():
                home, _, name = f"{stage}.{path}".rpartition(".")
                home = self.split_gm.get_submodule(home)
                setattr(home, name, copy.deepcopy(getattr(home, name)))
        return several

    def forward(self, *args, **kwargs):
        """Runs all stages here: a tuple of the model's results, without their containers."""
        leaves = tree_leaves((args, [kwargs[name] for name in self._names]))
        return Interpreter(self.split_gm).run(*leaves)

    def get_stage_module(self, stage_idx):
        """The module of a stage.

        Args:
            stage_idx: its place, from 0 on.

        Raises:
            ValueError: there is no such stage.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self.split_gm, f"{PREFIX}_{stage_idx}")

    def info(self):
        """What a stage must know of the others."""
        return PipeInfo(
            self.split_gm.graph,
            self.num_stages,
            self.has_loss_and_backward,
            self._names,
        )

    def build_stage(self, stage_index, device, group=None):
        """A stage that schedules run.

        Args:
            stage_index: its place.
            device: where it runs: the host.
            group: the processes of the pipeline; all without it.
        """
        module = self.get_stage_module(stage_index)
        return _PipelineStage(module, stage_index, self.info(), device, group)

    def print_readable(self):
        """Prints the stages as code."""
        self.split_gm.print_readable()

    def __repr__(self):
        return repr(self.split_gm)

    __str__ = __repr__

    @staticmethod
    def from_tracing(mod, example_args, example_kwargs=None, split_policy=None):
        """A model that says itself where its stages end, as a pipe.

        Args:
            mod: the model, which calls `pipe_split`.
            example_args: arguments of one microbatch; ``example_kwargs`` by name.
            split_policy: called with the recorded program; may put `pipe_split` into it.

        Raises:
            RuntimeError: the model cannot be exported.
        """
        try:
            program = export.export(mod, example_args, example_kwargs)
        except Exception as error:
            raise RuntimeError(
                "It seems that we cannot capture your model as a full graph. Typical "
                "reasons include graph breaks, data/shape-dependent control flow, or "
                "missing meta kernels for custom operators. You can use our manual "
                "pipeline interfaces, or try to fix the graph breaks, see "
                "https://pytorch.org/docs/stable/export.html"
            ) from error
        traced = program.module(check_guards=False)
        if split_policy is not None:
            traced = split_policy(traced)
        parts = _divided(traced.graph)
        split = _split_graph(traced, parts)
        return Pipe(split, len(parts), False, None, tuple(example_kwargs or {}))


def pipeline(module, mb_args, mb_kwargs=None, split_spec=None, split_policy=None):
    """Cuts a model into stages.

    Args:
        module: the model; `pipe_split` in its forward ends a stage.
        mb_args: arguments of one microbatch; ``mb_kwargs`` by name.
        split_spec: a `SplitPoint` for each path of a module at which a stage ends.
        split_policy: called with the recorded program, to put `pipe_split` into it.

    Returns:
        A `Pipe`; its ``build_stage`` makes what a schedule runs.

    Raises:
        RuntimeError: the model cannot be exported.
        ValueError: there are a spec and a policy.
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError(
            "Cannot specify both `split_spec` and `split_policy`. Please use only one of "
            "them."
        )
    with _annotated(module, split_spec or {}):
        return Pipe.from_tracing(module, mb_args, mb_kwargs, split_policy)
