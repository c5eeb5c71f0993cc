"""Schedules: in which order a process runs the microbatches of its stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import rushlight as rl
from rushlight.distributed.pipelining.microbatch import (
    merge_chunks,
    split_args_kwargs_into_chunks,
)
from rushlight.distributed.pipelining.stage import _Flight

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
    "get_schedule_class",
]

FORWARD, BACKWARD = "F", "B"


class Action(NamedTuple):
    """One microbatch of one stage, there or back."""

    stage_index: int
    kind: str
    microbatch: int

    def __repr__(self):
        return f"{self.stage_index}{self.kind}{self.microbatch}"


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
        actions = self.actions_of(self.rank)
        if not self._has_backward:
            actions = [each for each in actions if each.kind == FORWARD]
        last = {each.stage_index: each for each in actions if each.kind == BACKWARD}
        for action in actions:
            stage = self._stages[action.stage_index]
            number = action.microbatch
            if action.kind == FORWARD:
                output = stage.forward(number, arguments[number], named[number])
                if stage.is_last and self._loss_fn is not None:
                    found[number] = self._loss_fn(
                        output, targets[number], **(loss_kwargs or {})
                    )
            else:
                is_last = last[action.stage_index] is action
                stage.backward(number, found.get(number), is_last)
        self._flight.finish()
        self._end(found, losses)
        return self._outputs() if return_outputs else None

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


class ScheduleGPipe(PipelineScheduleSingle):
    """All microbatches there, then all back."""

    def actions_of(self, rank):
        """The actions of a process."""
        numbers = range(self._n_microbatches)
        forwards = [Action(rank, FORWARD, number) for number in numbers]
        return forwards + [Action(rank, BACKWARD, number) for number in numbers]


class Schedule1F1B(PipelineScheduleSingle):
    """One there, one back, once the pipeline is full: few microbatches are kept."""

    def __init__(self, stage, n_microbatches, loss_fn=None, **options):
        super().__init__(stage, n_microbatches, loss_fn, **options)
        if n_microbatches < self._num_stages:
            raise ValueError(
                f"Number of microbatches ({n_microbatches}) must be greater than or "
                f"equal to the number of stages ({self._num_stages})."
            )

    def actions_of(self, rank):
        """The actions of a process."""
        count = self._n_microbatches
        ahead = min(count, self._num_stages - rank)
        actions = [Action(rank, FORWARD, number) for number in range(ahead)]
        for number in range(count):
            actions.append(Action(rank, BACKWARD, number))
            if number + ahead < count:
                actions.append(Action(rank, FORWARD, number + ahead))
        return actions


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


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches through one stage after another, and back."""

    def actions_of(self, rank):
        """The actions of a process."""
        own = range(rank, self._num_stages, self.pp_group_size)
        numbers = range(self._n_microbatches)
        forwards = [
            Action(stage, FORWARD, number) for stage in own for number in numbers
        ]
        back = [
            Action(stage, BACKWARD, number)
            for stage in reversed(own)
            for number in reversed(numbers)
        ]
        return forwards + back


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """One there, one back, over several stages of each process: the pipeline fills sooner.

    Raises:
        ValueError: rounds of microbatches are not alike.
    """

    def __init__(self, stages, n_microbatches, loss_fn=None, **options):
        super().__init__(stages, n_microbatches, loss_fn, **options)
        self.number_of_rounds = max(1, n_microbatches // self.pp_group_size)
        self.microbatches_per_round = n_microbatches // self.number_of_rounds
        if n_microbatches % self.number_of_rounds:
            raise ValueError(
                "Interleaved 1F1B requires the number of microbatches to be a multiple "
                f"of the number of rounds ({self.number_of_rounds}), but got "
                f"{n_microbatches}."
            )

    def _place(self, step, is_back):
        """The stage, among a process's own, and the microbatch of a step."""
        round_size, own = self.microbatches_per_round, self.n_local_stages
        lap = step // round_size % own
        place = own - 1 - lap if is_back else lap
        number = step // (round_size * own) * round_size + step % round_size
        return place, number

    def actions_of(self, rank):
        """The actions of a process."""
        size, total = self.pp_group_size, self._n_microbatches * self.n_local_stages
        ahead = (self.n_local_stages - 1) * self.microbatches_per_round
        ahead = min(total, ahead + 2 * (size - 1 - rank))

        def action(step, kind):
            place, number = self._place(step, kind == BACKWARD)
            return Action(place * size + rank, kind, number)

        actions = [action(step, FORWARD) for step in range(ahead)]
        for step in range(total - ahead):
            actions += [action(ahead + step, FORWARD), action(step, BACKWARD)]
        return actions + [
            action(step, BACKWARD) for step in range(total - ahead, total)
        ]


def get_schedule_class(schedule_name):
    """A schedule by its name, in any case.

    Args:
        schedule_name: as ``1F1B``.

    Raises:
        ValueError: there is none.
    """
    names = {
        "1f1b": Schedule1F1B,
        "gpipe": ScheduleGPipe,
        "interleaved1f1b": ScheduleInterleaved1F1B,
        "loopedbfs": ScheduleLoopedBFS,
    }
    found = names.get(schedule_name.lower())
    if found is None:
        raise ValueError(
            f"Unknown schedule name {schedule_name}. The valid options are "
            f"{[each.__name__.removeprefix('Schedule') for each in names.values()]}"
        )
    return found
