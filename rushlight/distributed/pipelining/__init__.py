"""Pipelines: a model in stages, each in a process, that microbatches go through."""

from rushlight.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)
from rushlight.distributed.pipelining.stage import PipelineStage, build_stage

__all__ = [
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
    "build_stage",
]
