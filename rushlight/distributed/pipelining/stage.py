"""A part of a model that runs in one process of a pipeline."""

import json
import operator
from typing import NamedTuple

import rushlight as rl
from rushlight.distributed.fsdp import FSDPModule
from rushlight.distributed.pipelining._split_backward import SplitBackward
from rushlight.distributed.point_to_point import irecv, isend
from rushlight.distributed.world import get_global_rank, get_rank, get_world_size, world
from rushlight.fx.node import map_arg
from rushlight.utils._pytree import tree_leaves

__all__ = ["PipelineStage", "build_stage"]


def stage_to_rank(size, num_stages, style="loop"):
    """The process of each stage.

    Args:
        size: the number of processes.
        num_stages: the number of stages.
        style: ``loop`` goes round and round; ``v`` goes there and back.

    Raises:
        ValueError: there is no such style, or stages do not fill the last way.

    >>> stage_to_rank(2, 4), stage_to_rank(2, 4, "v")
    ({0: 0, 1: 1, 2: 0, 3: 1}, {0: 0, 1: 1, 2: 1, 3: 0})
    """
    if style == "loop":
        return {stage: stage % size for stage in range(num_stages)}
    if style != "v":
        raise ValueError(f"Style {style} is not supported.")
    if num_stages % size:
        raise ValueError(
            f"num_stages {num_stages} must be evenly divisible by pp_size {size} for V "
            "schedules"
        )
    found = {}
    for stage in range(num_stages):
        lap, place = divmod(stage, size)
        found[stage] = size - 1 - place if lap % 2 else place
    return found


KINDS = ("sizes", "facts", "value", "gradient")


class _Flight:
    """Tensors that go between stages, with the sends that are on their way.

    Args:
        group: the processes of the pipeline.
        num_stages: the number of stages.
    """

    def __init__(self, group, num_stages):
        self.group, self.num_stages = group, num_stages
        self.sent, self.local = [], {}
        group = group or world.default
        # schedules are made, and looked at, before there are processes
        self.device = None if group is None else group._coordination_device()

    def _tag(self, kind, stage, microbatch, number):
        """A number that no other message between two stages has at a time."""
        place = (microbatch * self.num_stages + stage) * 64 + number
        return place * len(KINDS) + KINDS.index(kind)

    def send(self, tensor, rank, kind, stage, microbatch, number=0):
        """Send a tensor; it may not change until ``finish``."""
        key = kind, stage, microbatch, number
        if rank == get_rank(self.group):
            self.local[key] = tensor
            return
        whole = tensor.detach().contiguous().to(self.device)
        where = get_global_rank(self.group, rank) if self.group else rank
        work = isend(whole, where, self.group, self._tag(*key))
        self.sent.append((work, whole))

    def receive(self, like, rank, kind, stage, microbatch, number=0):
        """Receive a tensor of the sizes and type of another."""
        key = kind, stage, microbatch, number
        if rank == get_rank(self.group):
            return self.local.pop(key)
        found = rl.empty(like.shape, dtype=like.dtype, device=self.device)
        where = get_global_rank(self.group, rank) if self.group else rank
        irecv(found, where, self.group, self._tag(*key)).wait()
        return found

    def finish(self):
        """Wait until all that was sent has arrived."""
        for work, _ in self.sent:
            work.wait()
        self.sent = []


def _as_tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class PipelineStage:
    """A part of a model, in its place of a pipeline.

    Args:
        submodule: the part.
        stage_index: its place, from 0 on.
        num_stages: the number of all.
        device: where it runs: the host.
        input_args: without effect: sizes come with the first microbatch.
        output_args: without effect.
        output_grads: without effect.
        input_grads: without effect.
        group: the processes of the pipeline; all without it.
        dw_builder: not supported.
        get_mesh: without effect.

    Raises:
        ValueError: there is no such place.
    """

    def __init__(
        self,
        submodule,
        stage_index,
        num_stages,
        device=None,
        input_args=None,
        output_args=None,
        output_grads=None,
        input_grads=None,
        group=None,
        dw_builder=None,
        get_mesh=None,
    ):
        if stage_index >= num_stages:
            raise ValueError(
                f"Stage index {stage_index} is out of range of {num_stages}"
            )
        self.submod, self.stage_index, self.num_stages = (
            submodule,
            stage_index,
            num_stages,
        )
        self.device, self.group = device, group
        self.group_size, self.group_rank = get_world_size(group), get_rank(group)
        if self.group_size > num_stages:
            raise RuntimeError(
                f"Pipeline group size {self.group_size} cannot be larger than number of "
                f"stages {num_stages}"
            )
        self.flight = None
        self.input_facts = None
        self.stage_index_to_group_rank = stage_to_rank(self.group_size, num_stages)
        self.kept: dict = {}
        self.outputs: dict = {}
        self.halves: dict = {}

    @property
    def is_first(self):
        """Whether it gets the batch."""
        return self.stage_index == 0

    @property
    def is_last(self):
        """Whether its outputs are the model's."""
        return self.stage_index == self.num_stages - 1

    def rank_of(self, stage_index):
        """The process that runs a stage.

        Args:
            stage_index: the stage.
        """
        return self.stage_index_to_group_rank[stage_index]

    def join(self, flight):
        """Take what stages of one process share.

        Args:
            flight: the tensors that go between stages.
        """
        self.flight = flight

    def begin(self):
        """Forget the microbatches of the batch before."""
        self.kept, self.outputs, self.halves = {}, {}, {}

    # -- forward ----------------------------------------------------------------------

    def _receive_facts(self):
        """Sizes and types of what comes in, with the first microbatch."""
        before, own = self.rank_of(self.stage_index - 1), self.stage_index
        size = self.flight.receive(rl.empty(1, dtype=rl.int64), before, "sizes", own, 0)
        text = self.flight.receive(
            rl.empty(int(size), dtype=rl.uint8), before, "facts", own, 0
        )
        facts = json.loads(bytes(text.tolist()))
        self.input_facts = [
            (rl.empty(shape, dtype=getattr(rl, dtype), device="meta"), wanted)
            for shape, dtype, wanted in facts
        ]

    def _send_facts(self, outputs):
        facts = [
            (list(each.shape), str(each.dtype).rpartition(".")[2], each.requires_grad)
            for each in outputs
        ]
        octets = bytearray(json.dumps(facts).encode())
        after, place = self.rank_of(self.stage_index + 1), self.stage_index + 1
        self.flight.send(rl.tensor([len(octets)]), after, "sizes", place, 0)
        text = rl.frombuffer(octets, dtype=rl.uint8)
        self.flight.send(text, after, "facts", place, 0)

    def _inputs(self, microbatch, args):
        if self.is_first:
            return args
        if microbatch == 0 or self.input_facts is None:
            self._receive_facts()
        before, found = self.rank_of(self.stage_index - 1), []
        for number, (like, wanted) in enumerate(self.input_facts):
            each = self._sized(like, microbatch, before, number)
            found.append(each.detach().requires_grad_(wanted and rl.is_grad_enabled()))
        return tuple(found)

    def _sized(self, like, microbatch, rank, number):
        return self.flight.receive(
            like, rank, "value", self.stage_index, microbatch, number
        )

    def _call(self, inputs, kwargs):
        return self.submod(*inputs, **kwargs)

    def forward(self, microbatch, args, kwargs):
        """Run a microbatch.

        Args:
            microbatch: its number.
            args: what the first stage gets.
            kwargs: what every stage gets by name.

        Returns:
            The outputs, as the module gives them.
        """
        inputs = self._inputs(microbatch, args)
        given = self._call(inputs, kwargs)
        outputs = _as_tuple(given)
        if self.is_last:
            self.outputs[microbatch] = given
        else:
            if microbatch == 0:
                self._send_facts(outputs)
            after, place = self.rank_of(self.stage_index + 1), self.stage_index + 1
            for number, each in enumerate(outputs):
                self.flight.send(each, after, "value", place, microbatch, number)
        self.kept[microbatch] = inputs, outputs
        return given

    # -- backward ---------------------------------------------------------------------

    def backward(self, microbatch, loss=None, is_last=False):
        """Run a microbatch back.

        Args:
            microbatch: its number.
            loss: on the last stage, what is differentiated.
            is_last: whether no other microbatch is to be run back: gradients that
                processes share go then.
        """
        inputs, outputs, grads = self._differentiated(microbatch, loss)
        self._share_gradients(is_last)
        if outputs:
            rl.autograd.backward(outputs, grads)
        self._send_gradients(microbatch, inputs)

    def backward_input(self, microbatch, loss=None):
        """Run a microbatch back as far as the stage before waits for it.

        Args:
            microbatch: its number.
            loss: on the last stage, what is differentiated.
        """
        inputs, outputs, grads = self._differentiated(microbatch, loss)
        wanted = [each for each in inputs if isinstance(each, rl.Tensor)]
        half = SplitBackward(outputs, grads, wanted, self.submod.parameters())
        self._share_gradients(False)
        half.run_inputs()
        self.halves[microbatch] = half
        self._send_gradients(microbatch, inputs)

    def backward_weight(self, microbatch, is_last=False):
        """Run the rest of a microbatch back: the gradients of the weights.

        Args:
            microbatch: its number.
            is_last: whether no other microbatch is to be run back.
        """
        self._share_gradients(is_last)
        self.halves.pop(microbatch).run_weights()

    def _differentiated(self, microbatch, loss):
        """Inputs of a microbatch, what of its outputs is differentiated, and by what."""
        inputs, outputs = self.kept.pop(microbatch)
        if self.is_last:
            wanted = [loss] if loss.requires_grad else []
            return inputs, wanted, [None] * len(wanted)
        after, own = self.rank_of(self.stage_index + 1), self.stage_index
        wanted = {i: each for i, each in enumerate(outputs) if each.requires_grad}
        grads = [
            self.flight.receive(each, after, "gradient", own, microbatch, number)
            for number, each in wanted.items()
        ]
        return inputs, list(wanted.values()), grads

    def _send_gradients(self, microbatch, inputs):
        if self.is_first:
            return
        before, place = self.rank_of(self.stage_index - 1), self.stage_index - 1
        for number, each in enumerate(inputs):
            if each.requires_grad:
                grad = rl.zeros_like(each) if each.grad is None else each.grad
                self.flight.send(grad, before, "gradient", place, microbatch, number)

    def _share_gradients(self, is_last):
        if isinstance(self.submod, FSDPModule):
            self.submod.set_requires_gradient_sync(is_last)
            self.submod.set_reshard_after_backward(is_last)

    def scale_grads(self, count):
        """Divide the gradients by the number of microbatches.

        Args:
            count: the number.
        """
        for each in self.submod.parameters():
            if each.grad is not None:
                each.grad.div_(count)


class PipeInfo(NamedTuple):
    """What a stage of a model that was cut must know of the others.

    Args:
        graph: of calls of the stages.
        num_stages: how many there are.
        has_loss_and_backward: False: schedules differentiate.
        names: of the keyword arguments that the model was recorded with.
    """

    graph: object
    num_stages: int
    has_loss_and_backward: bool = False
    names: tuple = ()


def values_between(graph):
    """What goes into each stage: all that was made before it and is still wanted.

    Args:
        graph: of calls of the stages.

    Returns:
        A list of nodes for each stage, and one of what the caller wants.
    """
    calls = [node for node in graph.nodes if node.op == "call_module"]
    place = {node: at for at, node in enumerate(calls)}
    place[graph.output_node()] = len(calls)
    made = {node: -1 for node in graph.nodes if node.op == "placeholder"}
    for node in graph.nodes:
        if node.target is operator.getitem:
            made[node] = place[node.args[0]]
        elif node in place and node.op == "call_module" and _is_whole(node):
            made[node] = place[node]
    wanted = {node: max(map(place.get, node.users), default=-1) for node in made}
    return [
        [node for node in made if made[node] < stage <= wanted[node]]
        for stage in range(len(calls) + 1)
    ]


def _is_whole(node):
    """Whether what a stage gives is used as it is, not by its parts."""
    return not all(user.target is operator.getitem for user in node.users)


class _PipelineStage(PipelineStage):
    """A stage of a model that was cut by `pipeline`.

    What a later stage wants of an earlier one goes through those between.

    Args:
        stage_module: the steps of the stage.
        stage_index: its place.
        pipe_info: a `PipeInfo`.
        device: where it runs: the host.
        group: the processes of the pipeline; all without it.
    """

    def __init__(self, stage_module, stage_index, pipe_info, device, group=None):
        count = pipe_info.num_stages
        super().__init__(stage_module, stage_index, count, device, group=group)
        self.pipe_info = pipe_info
        graph = pipe_info.graph
        self.node = [n for n in graph.nodes if n.op == "call_module"][stage_index]
        between = values_between(graph)
        self.takes, self.gives = between[stage_index : stage_index + 2]
        if self.is_first:
            self.takes = [node for node in graph.nodes if node.op == "placeholder"]
        self.results = graph.output_node().args[0]

    def _call(self, inputs, kwargs):
        if self.is_first:
            named = [kwargs[name] for name in self.pipe_info.names if name in kwargs]
            inputs = tree_leaves((list(inputs), named))
        values = dict(zip(self.takes, inputs, strict=True))
        made = self.submod(*[values[node] for node in self.node.args])
        if _is_whole(self.node):
            values[self.node] = made
        else:
            values |= {user: made[user.args[1]] for user in self.node.users}
        if not self.is_last:
            return tuple(values[node] for node in self.gives)
        found = map_arg(self.results, values.__getitem__)
        return found[0] if len(found) == 1 else tuple(found)


def build_stage(stage_module, stage_index, pipe_info, device, group=None):
    """A stage of a model that was cut by `pipeline`.

    Args:
        stage_module: its module, which may be changed before: spread, or moved.
        stage_index: its place.
        pipe_info: what the pipe's ``info()`` gives.
        device: where it runs.
        group: the processes of the pipeline.
    """
    return _PipelineStage(stage_module, stage_index, pipe_info, device, group)
