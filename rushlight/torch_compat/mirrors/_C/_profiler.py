"""What PyTorch's core tells of profilers, by its names."""

import enum

from rushlight.autograd.profiler import record_function
from rushlight.profiler.profiler import ProfilerActivity, _ExperimentalConfig

__all__ = ["ProfilerActivity", "RecordScope", "_ExperimentalConfig"]


class RecordScope(enum.IntEnum):
    """What kinds of spans PyTorch tells apart."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9


class _RecordFunctionFast(record_function):
    """A named block whose values are not kept.

    Args:
        name: what it is called.
        input_values: left out.
        keyword_values: left out.
    """

    def __init__(self, name, input_values=None, keyword_values=None):
        super().__init__(name)
