"""Names for spans of a program, and when to record it."""

from __future__ import annotations

import enum

from rushlight.autograd.profiler import record_function

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


class DeviceType(enum.Enum):
    """Kinds of devices by their numbers."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


class ExecutionTraceObserver:
    """Would write what a program calls to a file: not available yet."""

    is_registered = False

    def register_callback(self, output_file_path):
        """Chooses the file.

        Raises:
            NotImplementedError: always: programs are not recorded yet.
        """
        raise NotImplementedError(
            "ExecutionTraceObserver: Rushlight does not record programs yet\n"
            "  remedy: measure with Python's cProfile"
        )

    def start(self):
        """Nothing: there is no file."""

    def stop(self):
        """Nothing: there is no file."""

    unregister_callback = cleanup = stop


class ProfilerActivity(enum.Enum):
    """Whose work is recorded."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profiler does in one step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities():
    """Whose work can be recorded: the CPU's."""
    return {ProfilerActivity.CPU}


def kineto_available():
    """Whether PyTorch's recorder is there: no."""
    return False


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A plan of steps: what to do in each, by its number.

    Args:
        wait: steps that are not recorded.
        warmup: steps that are recorded and thrown away.
        active: steps that are kept.
        repeat: how often all this is done; 0 means without end.
        skip_first: steps before all this.
        skip_first_wait: whether the first round leaves ``wait`` out.

    >>> plan = schedule(wait=1, warmup=0, active=2)
    >>> [plan(step).name for step in range(4)]
    ['NONE', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step):
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == length - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def _refuse(name):
    raise NotImplementedError(
        f"torch.profiler.{name}: Rushlight does not record programs yet\n"
        "  remedy: measure with Python's cProfile or time.perf_counter"
    )


class profile:
    """Would record a program: not possible yet.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, *args, **kwargs):
        _refuse("profile")


def tensorboard_trace_handler(
    dir_name, worker_name=None, use_gzip=False, use_python_export=False
):
    """What ``on_trace_ready`` may be given; nothing is ever recorded for it."""

    def handler(prof):
        _refuse("tensorboard_trace_handler")

    return handler
