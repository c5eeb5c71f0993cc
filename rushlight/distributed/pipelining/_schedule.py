"""What schedules are made of: actions on microbatches, and what runs them in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import rushlight as rl
from rushlight.distributed.pipelining.microbatch import (
    merge_chunks,
    split_args_kwargs_into_chunks,
)
from rushlight.distributed.pipelining.stage import _Flight

FORWARD, BACKWARD = "F", "B"
INPUT, WEIGHT = "I", "W"  # the halves of a backward


class Action(NamedTuple):
    """One microbatch of one stage: there, back, or one of the halves of back."""

    stage_index: int
    kind: str
    microbatch: int

    def __repr__(self):
        return f"{self.stage_index}{self.kind}{self.microbatch}"


class Overlap(NamedTuple):
    """A forward and a backward that may run at once; here one after the other."""

    sub_actions: tuple

    def __repr__(self):
        return f"({';'.join(map(repr, self.sub_actions))})OVERLAP_F_B"


def single_actions(actions):
    """The actions of an order, those that may overlap one by one.

    Args:
        actions: the order.
    """
    for each in actions:
        yield from each.sub_actions if isinstance(each, Overlap) else [each]


class _PipelineSchedule(ABC):
    """An order of actions for each process, and what runs them."""

    def __init__(
        self,
        stages,
        n_microbatches,
        loss_fn=None,
        args_chunk_spec=None,
        kwargs_chunk_spec=None,
        output_merge_spec=None,
        scale_grads=True,
    ):
        self._stages = {each.stage_index: each for each in stages}
        first = stages[0]
        self._num_stages, self._n_microbatches = first.num_stages, n_microbatches
        self._loss_fn, self.scale_grads = loss_fn, scale_grads
        self._args_chunk_spec = args_chunk_spec
        self._kwargs_chunk_spec = kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        self._flight = _Flight(first.group, first.num_stages)
        for each in stages:
            each.join(self._flight)
        self.rank, self.pp_group_size = first.group_rank, first.group_size

    @abstractmethod
    def actions_of(self, rank):
        """The actions of a process, in their order.

        Args:
            rank: the process, in the pipeline's group.
        """

    @property
    def pipeline_order(self):
        """The actions of every process."""
        return {rank: self.actions_of(rank) for rank in range(self.pp_group_size)}

    @property
    def _has_backward(self):
        return self._loss_fn is not None and rl.is_grad_enabled()

    def step(
        self,
        *args,
        target=None,
        losses=None,
        return_outputs=True,
        loss_kwargs=None,
        **kwargs,
    ):
        """Run a batch: there, and back where there is a loss.

        Args:
            args: on the first stage, the batch.
            target: on the last stage, what the loss compares with.
            losses: a list that gets the loss of each microbatch, on the last stage.
            return_outputs: whether the outputs are put together.
            loss_kwargs: further arguments of the loss.
            kwargs: what every stage gets by name.

        Returns:
            On the last stage, the outputs of the batch; else None.
        """
        count = self._n_microbatches
        arguments, named = self._split(args, kwargs)
        targets = [None] * count
        if target is not None:
            targets = list(rl.tensor_split(target, count))
        for stage in self._stages.values():
            stage.begin()
        found: dict = {}
        actions = list(single_actions(self.actions_of(self.rank)))
        if not self._has_backward:
            actions = [each for each in actions if each.kind == FORWARD]
        last = {e.stage_index: e for e in actions if e.kind in (BACKWARD, WEIGHT)}
        for action in actions:
            number, is_last = action.microbatch, last.get(action.stage_index) is action
            output = self._perform(
                action, arguments[number], named[number], found.get(number), is_last
            )
            if output is not None and self._loss_fn is not None:
                found[number] = self._loss_fn(
                    output, targets[number], **(loss_kwargs or {})
                )
        self._flight.finish()
        self._end(found, losses)
        return self._outputs() if return_outputs else None

    def _perform(self, action, args, kwargs, loss, is_last):
        """Run an action; the model's output where it is the last stage's forward."""
        stage, number = self._stages[action.stage_index], action.microbatch
        if action.kind == FORWARD:
            output = stage.forward(number, args, kwargs)
            return output if stage.is_last else None
        if action.kind == BACKWARD:
            stage.backward(number, loss, is_last)
        elif action.kind == INPUT:
            stage.backward_input(number, loss)
        else:
            stage.backward_weight(number, is_last)
        return None

    def _split(self, args, kwargs):
        count = self._n_microbatches
        if not args and not kwargs:
            return [()] * count, [{}] * count
        return split_args_kwargs_into_chunks(
            args, kwargs, count, self._args_chunk_spec, self._kwargs_chunk_spec
        )

    def _end(self, found, losses):
        if self._has_backward and self.scale_grads:
            for stage in self._stages.values():
                stage.scale_grads(self._n_microbatches)
        if losses is not None and found:
            losses.clear()
            losses.extend(found[number] for number in sorted(found))

    def _outputs(self):
        for stage in self._stages.values():
            if stage.is_last:
                values = [stage.outputs[i] for i in range(self._n_microbatches)]
                return merge_chunks(values, self._output_merge_spec)
        return None

    def eval(self, *args, target=None, losses=None, **kwargs):
        """Run a batch without gradients; the arguments are those of ``step``.

        Args:
            args: on the first stage, the batch.
            target: on the last stage, what the loss compares with.
            losses: a list that gets the loss of each microbatch.
            kwargs: what every stage gets by name.
        """
        with rl.no_grad():
            return self.step(*args, target=target, losses=losses, **kwargs)


class PipelineScheduleSingle(_PipelineSchedule):
    """A schedule in which every process has one stage.

    Args:
        stage: this process's.
        n_microbatches: into how many parts a batch is cut.
        loss_fn: makes a number of output and target.
        args_chunk_spec: how the batch is cut; along the first dimension without it.
        kwargs_chunk_spec: the same of arguments by name.
        output_merge_spec: how outputs are put together.
        scale_grads: whether gradients are divided by the number of microbatches.
    """

    def __init__(self, stage, n_microbatches, loss_fn=None, **options):
        super().__init__([stage], n_microbatches, loss_fn, **options)
        self._stage = stage
        if self._num_stages != self.pp_group_size:
            raise ValueError(
                f"a schedule of one stage for each process needs as many stages "
                f"({self._num_stages}) as processes ({self.pp_group_size})"
            )


class PipelineScheduleMulti(_PipelineSchedule):
    """A schedule in which processes have several stages, each every so many.

    Args:
        stages: this process's.
        n_microbatches: into how many parts a batch is cut.
        loss_fn: makes a number of output and target.
        args_chunk_spec: how the batch is cut.
        kwargs_chunk_spec: the same of arguments by name.
        output_merge_spec: how outputs are put together.
        scale_grads: whether gradients are divided by the number of microbatches.
    """

    def __init__(self, stages, n_microbatches, loss_fn=None, **options):
        options.pop("backward_requires_autograd", None)
        super().__init__(stages, n_microbatches, loss_fn, **options)
        self.n_local_stages = len(stages)
