"""What ran, and how long: spans of a program's operators and of blocks with names."""

import functools
import time
import uuid

from rushlight._profiling.collect import MEMORY, Collector
from rushlight._profiling.kernels import kernels_of
from rushlight.autograd import span_operators
from rushlight.autograd.profiler_util import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    MemRecordsAcc,
)
from rushlight.core import spans
from rushlight.core.warning import warn
from rushlight.dispatch import profiling
from rushlight.dispatch.python_key import listening

__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "emit_itt",
    "emit_nvtx",
    "profile",
    "record_function",
]


def _is_profiler_enabled():
    return spans.is_recording()


class record_function:
    """Names a span of the program, which profilers show.

    A context manager and a decorator.

    Args:
        name: what the span is called.
        args: more about it, behind the name.

    Raises:
        TypeError: the name is no string.

    >>> with record_function("step"):
    ...     1 + 1
    2
    """

    def __init__(self, name, args=None):
        if not isinstance(name, str):
            raise TypeError(
                f"record_function: name must be str, not {type(name).__name__}"
            )
        self.name = name
        self.args = args
        self._tokens = []

    def __enter__(self):
        if listening():
            self._tokens.append(span_operators.enter(self.name, self.args))
        else:
            self._tokens.append(spans.begin(self.name))
        return self

    def __exit__(self, *raised):
        token = self._tokens.pop()
        if isinstance(token, int):
            spans.end(token)
        else:
            span_operators.leave(token)
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return wrapped

    def _call_end_callbacks_on_future(self, future):
        """The future, which is done: nothing here ends later than its block."""
        return future


class EnforceUnique:
    """Remembers pairs, and refuses one that comes again."""

    def __init__(self):
        self.seen = set()

    def see(self, *key):
        """Takes a key.

        Raises:
            RuntimeError: it was there before.
        """
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """The largest number of steps that any profiler has counted."""

    _current_step = 0
    _step_dict: dict = {}

    @classmethod
    def init_step_count(cls, requester):
        """Starts counting for a profiler, from the number so far."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester):
        """Forgets a profiler; returns whether it was known."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester):
        """Counts a step for a profiler; returns the largest number."""
        cls._step_dict.setdefault(requester, cls._current_step)
        cls._step_dict[requester] += 1
        cls._current_step = max(cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls):
        """That number."""
        return cls._current_step


class profile:
    """Records the operators that a block runs, and how long they take.

    Args:
        enabled: False records nothing.
        record_shapes: whether events know the sizes of their arguments.
        with_flops: whether floating-point operations are counted.
        profile_memory: whether memory that is taken and given back is counted.
        with_stack: whether events know the lines of Python that led to them.
        with_modules: kept for traces; `rushlight.profiler` makes events of modules.
        experimental_config: ``profile_all_threads=True`` there records all threads.

    The other arguments are PyTorch's, and choose nothing here.

    Raises:
        RuntimeError: a profiler is entered twice, or another one runs in this thread.

    >>> import rushlight as rl
    >>> with profile() as prof:
    ...     _ = rl.ones(2) + 1
    >>> [event.name for event in prof.function_events]
    ['aten::ones', 'aten::add']
    """

    def __init__(
        self,
        enabled=True,
        *,
        use_cuda=False,
        use_device=None,
        record_shapes=False,
        with_flops=False,
        profile_memory=False,
        with_stack=False,
        with_modules=False,
        use_kineto=False,
        use_cpu=True,
        experimental_config=None,
        acc_events=False,
        custom_trace_id_callback=None,
        post_processing_timeout_s=None,
        activity_filters=None,
    ):
        self.enabled = enabled
        if use_cuda:
            warn(
                "The attribute `use_cuda` will be deprecated soon, please use "
                "``use_device = 'cuda'`` instead.",
                FutureWarning,
            )
            use_device = "cuda"
        if use_device == "cuda":
            warn("CUDA is not available, disabling CUDA profiling")
            use_device = None
        self.use_cuda, self.use_device = use_cuda, use_device
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory = with_flops, profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.use_cpu, self.experimental_config = use_cpu, experimental_config
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.trace_id = ""
        self.entered = False
        self.metadata: dict = {}
        self._events = None
        self._kept: list = []
        self._observer = None

    def __enter__(self):
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._prepare_trace()
        self._start_trace()
        return self

    def __exit__(self, *raised):
        if self.enabled:
            self._stop_trace()
        return False

    def _prepare_trace(self):
        self.entered = True
        if spans.is_recording():
            self.entered = False
            raise RuntimeError(
                "Can't disable Kineto profiler when it's not running: another profiler "
                "records this thread\n  remedy: leave its block first"
            )

    def _start_trace(self):
        self.entered = True
        observed = self._observer is not None and self._observer.is_registered
        shapes = self.record_shapes or observed
        profiling.configure(shapes, self.with_stack, observed)
        callback = self.custom_trace_id_callback
        self.trace_id = callback() if callback else uuid.uuid4().hex.upper()
        self._epoch = spans.epoch_offset()
        if observed:
            self._observer._begin()
        every = getattr(self.experimental_config, "profile_all_threads", False)
        spans.start(self.profile_memory, True, self.with_stack, every)
        self._began = time.monotonic_ns()

    def _stop_trace(self):
        rows = spans.stop()
        self._kernel_rows, self._kernels_left_out = spans.kernels()
        self._threads = spans.native_threads()
        self._memory_rows = [row for row in rows if row[0] == MEMORY]
        self._rows = rows
        if self._observer is not None and self._observer.is_running():
            self._observer._take(rows)
        if self._events is not None and self.acc_events:
            self._kept += self._events
        self._events = None
        self.entered = False

    def toggle_collection_dynamic(self, enabled, activities=None):
        """Stops recording for a while, or goes on.

        Args:
            enabled: whether to record from now on.
            activities: whose work; the host's is all that there is.
        """
        spans.resume() if enabled else spans.pause()

    @property
    def function_events(self):
        """The events, once the block is over; None before, or where it is disabled."""
        if not self.enabled or self.entered or not hasattr(self, "_rows"):
            return None
        if self._events is None:
            collector = Collector(
                self._began, self.record_shapes, self.with_flops, self.profile_memory
            )
            self._events = collector.events(self._rows)
            self._kernels = kernels_of(self._kernel_rows, self._events)
            self._events[:0] = self._kept
            self._events._trace = self._settings(collector.threads)
            self._kernel_rows = []
            self._rows = []
        return self._events

    def _settings(self, numbers):
        flags = ("with_stack", "profile_memory", "record_shapes", "with_modules")
        return {
            "epoch": self._epoch,
            "threads": self._threads,
            "numbers": numbers,
            "memory": self._memory_rows,
            "kernels": self._kernels,
            "metadata": self.metadata,
            "flags": {
                "trace_id": self.trace_id,
                **{name: int(getattr(self, name)) for name in flags},
                "with_flops": int(self.with_flops),
            },
        }

    def _finished(self):
        events = self.function_events
        if events is None:
            raise RuntimeError("Profiler didn't finish running")
        return events

    def __repr__(self):
        events = self.function_events
        return "<unfinished torch.autograd.profile>" if events is None else repr(events)

    def __str__(self):
        events = self.function_events
        return "<unfinished torch.autograd.profile>" if events is None else str(events)

    def table(
        self,
        sort_by=None,
        row_limit=100,
        max_src_column_width=75,
        max_name_column_width=55,
        max_shapes_column_width=80,
        header=None,
        top_level_events_only=False,
    ):
        """The events as a table: `EventList.table` has the arguments.

        Args:
            sort_by: the figure that rows are sorted by.
            row_limit: rows at most.
            max_src_column_width: characters of a source line at most;
                ``max_name_column_width``: of a name; ``max_shapes_column_width``: of
                shapes.
            header: a line above.
            top_level_events_only: leaves out spans inside of others.

        Raises:
            RuntimeError: the block is not over.
        """
        return self._finished().table(
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            top_level_events_only=top_level_events_only,
        )

    def export_chrome_trace(self, path, metadata=None, use_python_export=False):
        """Writes the events as a trace that Perfetto and Chrome show.

        Args:
            path: the file; one that ends in ``.gz`` is compressed.
            metadata: names and texts for the trace's head.
            use_python_export: chooses nothing here.
        """
        events = self._finished()
        self.metadata.update(metadata or {})
        events.export_chrome_trace(path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Writes the lines of Python behind each event, for pictures of flames.

        Raises:
            AssertionError: lines were not recorded.
        """
        events = self._finished()
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        return events.export_stacks(path, metric)

    def key_averages(
        self,
        group_by_input_shape=False,
        group_by_stack_n=0,
        group_by_overload_name=False,
    ):
        """The events summed by name: `EventList.key_averages` has the arguments.

        Args:
            group_by_input_shape: sums calls of the same shapes only.
            group_by_stack_n: sums calls with the same innermost lines only.
            group_by_overload_name: sums calls of the same overload only.
        """
        return self._finished().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def total_average(self):
        """One sum over all events."""
        return self._finished().total_average()

    @property
    def self_cpu_time_total(self):
        """Microseconds of all events, none counted twice."""
        return self._finished().self_cpu_time_total


class _Marks:
    """Would mark operators for another profiler: nothing listens on this machine.

    Args:
        enabled: False marks nothing.
        record_shapes: whether marks have the sizes of arguments.
    """

    def __init__(self, enabled=True, record_shapes=False):
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes

    def __enter__(self):
        if self.enabled and self.entered:
            name = type(self).__name__.removeprefix("emit_").upper()
            raise RuntimeError(f"{name} annotation context manager is not reentrant")
        self.entered = self.enabled
        return self

    def __exit__(self, *raised):
        self.entered = False
        return False


class emit_nvtx(_Marks):
    """Marks operators for NVIDIA's profiler, where one listens: none does here."""


class emit_itt(_Marks):
    """Marks operators for Intel's profiler, where one listens: none does here."""
