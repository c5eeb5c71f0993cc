"""Where a program's time and memory go: operators, blocks and modules, step by step."""

from rushlight.autograd.profiler import record_function
from rushlight.core.device_types import DeviceType
from rushlight.profiler import itt
from rushlight.profiler.execution_trace import ExecutionTraceObserver
from rushlight.profiler.profiler import (
    ProfilerAction,
    ProfilerActivity,
    _ExperimentalConfig,
    _KinetoProfile,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def kineto_available():
    """Whether programs can be recorded: yes."""
    return True
