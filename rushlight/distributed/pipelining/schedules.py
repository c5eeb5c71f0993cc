"""Schedules: in which order a process runs the microbatches of its stages."""

from rushlight.distributed.pipelining._interleaved import (
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
)
from rushlight.distributed.pipelining._schedule import (
    BACKWARD,
    FORWARD,
    Action,
    PipelineScheduleMulti,
    PipelineScheduleSingle,
)
from rushlight.distributed.pipelining._v_schedules import (
    ScheduleDualPipeV,
    ScheduleZBVZeroBubble,
)

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "get_schedule_class",
]


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


SCHEDULES = [
    Schedule1F1B,
    ScheduleInterleaved1F1B,
    ScheduleGPipe,
    ScheduleLoopedBFS,
    ScheduleInterleavedZeroBubble,
    PipelineScheduleSingle,
    PipelineScheduleMulti,
    ScheduleZBVZeroBubble,
    ScheduleDualPipeV,
]


def get_schedule_class(schedule_name):
    """A schedule by its name, in any case.

    Args:
        schedule_name: as ``1F1B``.

    Raises:
        ValueError: there is none.

    >>> get_schedule_class("zbvzerobubble").__name__
    'ScheduleZBVZeroBubble'
    """
    names = [each.__name__.removeprefix("Schedule") for each in SCHEDULES]
    for name, found in zip(names, SCHEDULES):
        if name.lower() == schedule_name.lower():
            return found
    raise ValueError(
        f"Unknown schedule name '{schedule_name}'. The valid options are {names}"
    )
