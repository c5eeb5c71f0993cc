"""Recording a program step by step, on a schedule, and what becomes of each recording."""

import enum
import json
import os
import socket
import sys
import time
import warnings
from functools import partial

from rushlight.autograd import profiler as _autograd_profiler
from rushlight.autograd.profiler import KinetoStepTracker, record_function
from rushlight.profiler._modules import ModuleSpans
from rushlight.profiler.execution_trace import ExecutionTraceObserver

__all__ = [
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
PROFILER_STEP_NAME = "ProfilerStep"


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


class _ExperimentalConfig:
    """PyTorch's further settings of a profiler.

    ``profile_all_threads=True`` records all threads, those that start later too. The others
    are kept, and choose nothing here.

    Args:
        given: values in the order of ``_DEFAULTS``.
        options: values by name; ``verbose=True`` is for stacks, which are always told here.

    Raises:
        TypeError: there is no such setting, or it is of another type.
    """

    _DEFAULTS = {
        "profiler_metrics": [],
        "profiler_measure_per_kernel": False,
        "verbose": False,
        "performance_events": [],
        "enable_cuda_sync_events": False,
        "adjust_profiler_step": False,
        "disable_external_correlation": False,
        "profile_all_threads": False,
        "capture_overload_names": False,
        "record_python_gc_info": False,
        "expose_kineto_event_metadata": False,
        "custom_profiler_config": "",
        "adjust_timestamps": False,
        "trace_only": False,
    }

    def __init__(self, *given, **options):
        named = dict(zip(self._DEFAULTS, given, strict=False))
        wrong = [name for name in options if name not in self._DEFAULTS]
        values = {**self._DEFAULTS, **named, **options}
        wrong += [
            name
            for name, default in self._DEFAULTS.items()
            if not isinstance(values[name], type(default))
        ]
        if wrong or len(given) > len(self._DEFAULTS):
            raise TypeError(
                "__init__(): incompatible constructor arguments: "
                f"{', '.join(wrong) or 'too many'}\n  remedy: there are "
                f"{', '.join(self._DEFAULTS)}"
            )
        self.profile_all_threads = values["profile_all_threads"]
        self.custom_profiler_config = values["custom_profiler_config"]
        self.trace_only = values["trace_only"]


def supported_activities():
    """Whose work can be recorded: the CPU's."""
    return {ProfilerActivity.CPU}


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A plan of steps: what to do in each, by its number.

    Args:
        wait: steps that are not recorded.
        warmup: steps in which the recorder is there but keeps nothing.
        active: steps that are kept.
        repeat: how often all this is done; 0 means without end.
        skip_first: steps before all this.
        skip_first_wait: whether the first round leaves ``wait`` out.

    Raises:
        AssertionError: a number is negative, or nothing is kept.

    >>> plan = schedule(wait=1, warmup=1, active=2)
    >>> [plan(step).name for step in range(4)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE']
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError("Invalid profiler schedule arguments")
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results",
            stacklevel=2,
        )

    def action(step):
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
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


def _default_schedule_fn(_):
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name, worker_name=None, use_gzip=False, use_python_export=False
):
    """What ``on_trace_ready`` may be given: writes each trace where TensorBoard looks.

    Args:
        dir_name: the folder, which is made where it is absent.
        worker_name: what the files' names begin with; None: host and process.
        use_gzip: whether files are compressed.
        use_python_export: chooses nothing here.

    Returns:
        A function of a profiler.

    Raises:
        RuntimeError: the folder cannot be made.
    """
    os_worker = worker_name

    def handler(prof):
        if not os.path.isdir(dir_name):
            try:
                os.makedirs(dir_name, exist_ok=True)
            except Exception as error:
                raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = os_worker or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, name + ".gz" * bool(use_gzip)))

    return handler


def _known(activities):
    """The activities as a set, without those that this machine does not have."""
    found = set()
    for one in activities:
        for activity in one if isinstance(one, dict) else [one]:
            if not isinstance(activity, ProfilerActivity):
                raise AssertionError(
                    "activities must be ProfilerActivity values, not "
                    f"{type(activity).__name__}"
                )
            found.add(activity)
    if ProfilerActivity.CUDA in found:
        warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=4)
    if not found:
        raise AssertionError("No valid profiler activities found")
    return found


class _KinetoProfile:
    """One recording, begun and ended by hand; `profile` does so on a schedule."""

    def __init__(
        self,
        *,
        activities=None,
        record_shapes=False,
        profile_memory=False,
        with_stack=False,
        with_flops=False,
        with_modules=False,
        experimental_config=None,
        execution_trace_observer=None,
        acc_events=False,
        custom_trace_id_callback=None,
        post_processing_timeout_s=None,
    ):
        chosen = supported_activities() if activities is None else activities
        self.activities = _known(chosen)
        self.record_shapes = record_shapes
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.profiler = self._modules = None
        self.has_cudagraphs = False
        self.preset_metadata: dict = {}
        self.use_device = None

    def start(self):
        """Begins to record."""
        self.prepare_trace()
        self.start_trace()

    def stop(self):
        """Ends the recording."""
        self.stop_trace()

    def prepare_trace(self):
        """Has the recorder be there, without recording yet."""
        if self.profiler is None or not self.acc_events:
            self.profiler = _autograd_profiler.profile(
                use_cpu=ProfilerActivity.CPU in self.activities,
                record_shapes=self.record_shapes,
                with_flops=self.with_flops,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_modules=self.with_modules,
                experimental_config=self.experimental_config,
                acc_events=self.acc_events,
                custom_trace_id_callback=self.custom_trace_id_callback,
            )
        if self.acc_events and getattr(self.profiler, "_rows", None):
            self.profiler.function_events  # noqa: B018
        self.profiler._prepare_trace()

    def start_trace(self):
        """Begins to record, after `prepare_trace`."""
        self.profiler._observer = self.execution_trace_observer
        if self.with_modules:
            self._modules = ModuleSpans()
        self.profiler._start_trace()
        info = self._get_distributed_info()
        if info is not None:
            self.profiler.metadata["distributedInfo"] = info
        for key, value in self.preset_metadata.items():
            self.add_metadata_json(key, value)

    def stop_trace(self):
        """Ends the recording; its events are there from now on."""
        self._recorded().__exit__(None, None, None)
        if self._modules is not None:
            self._modules.remove()
            self._modules = None

    def _recorded(self):
        if self.profiler is None:
            raise AssertionError(
                "Profiler must be initialized before exporting chrome trace"
            )
        return self.profiler

    def export_chrome_trace(self, path, use_python_export=False):
        """Writes the recording as a trace that Perfetto and Chrome show.

        Args:
            path: the file; one that ends in ``.gz`` is compressed.
            use_python_export: chooses nothing here.
        """
        self._recorded().export_chrome_trace(path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Writes the lines of Python behind each event, for pictures of flames.

        Args:
            path: the file: a row a stack, outermost line first, then microseconds.
            metric: what weighs a stack.
        """
        return self._recorded().export_stacks(path, metric)

    def toggle_collection_dynamic(self, enable, activities):
        """Stops recording for a while, or goes on.

        Args:
            enable: whether to record from now on.
            activities: whose work.
        """
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def key_averages(
        self,
        group_by_input_shape=False,
        group_by_stack_n=0,
        group_by_overload_name=False,
    ):
        """The events summed by name; their ``table()`` shows them.

        Args:
            group_by_input_shape: sums calls of the same shapes only.
            group_by_stack_n: sums calls with the same innermost lines of Python only.
            group_by_overload_name: sums calls of the same overload only.
        """
        return self._recorded().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def events(self):
        """The events of the last recording."""
        return self._recorded().function_events

    def add_metadata(self, key, value):
        """Adds a text to the trace's head.

        Args:
            key: its name.
            value: the text.
        """
        self._recorded().metadata[key] = value

    def add_metadata_json(self, key, value):
        """Adds a value to the trace's head.

        Args:
            key: its name.
            value: the value, written as JSON.
        """
        self._recorded().metadata[key] = json.loads(value)

    def preset_metadata_json(self, key, value):
        """The same for each recording that is still to come."""
        self.preset_metadata[key] = value

    def _get_distributed_info(self):
        """This rank and its groups, for tools that read traces of many ranks."""
        dist = sys.modules.get("rushlight.distributed.world")
        if dist is None or not dist.is_initialized():
            return None
        return {
            "backend": dist.get_backend(),
            "rank": dist.get_rank(),
            "world_size": dist.get_world_size(),
            "pg_count": dist.get_pg_count(),
            "pg_config": dist.describe_groups(),
        }

    def _memory_profile(self):
        from rushlight.profiler._memory_profiler import MemoryProfile

        required = ("record_shapes", "profile_memory", "with_stack")
        missing = [f"{name}=True" for name in required if not getattr(self, name)]
        if missing:
            raise ValueError(f"{', '.join(missing)} required for memory profiling.")
        return MemoryProfile(self._recorded())

    def export_memory_timeline(self, path, device=None):
        """Writes how much memory was taken over time, and by what.

        Args:
            path: ``.html`` for a picture, ``.json`` or ``.json.gz`` for times and sizes
                by category, ``.raw.json.gz`` for each block.
            device: whose memory; the host's is all that there is.

        Raises:
            ValueError: the recording lacks shapes, memory or lines of Python.
        """
        from rushlight.profiler._memory_profiler import MemoryProfileTimeline

        timeline = MemoryProfileTimeline(self._memory_profile())
        if path.endswith(".html"):
            return timeline.export_memory_timeline_html(path, device or "cpu")
        if path.endswith(("raw.json", "raw.json.gz")):
            return timeline.export_memory_timeline_raw(path, device or "cpu")
        return timeline.export_memory_timeline(path, device or "cpu")


class profile(_KinetoProfile):
    """Records a program: operators, blocks, memory; in steps, where a schedule says so.

    Args:
        activities: whose work is recorded: a list of `ProfilerActivity`.
        schedule: from a step's number to a `ProfilerAction`; None records all.
        on_trace_ready: called with the profiler when a recording is over.
        record_shapes: whether events know the sizes of their arguments.
        profile_memory: whether memory that is taken and given back is counted.
        with_stack: whether events know the lines of Python that led to them.
        with_flops: whether floating-point operations are counted.
        with_modules: whether calls of modules are events.
        acc_events: whether the events of all recordings are kept, not the last one's.
        custom_trace_id_callback: makes the number of each recording.
        experimental_config: an `_ExperimentalConfig`, which may name all threads.

    The other arguments are PyTorch's, and choose nothing here.

    >>> import rushlight as rl
    >>> with profile(record_shapes=True) as prof:
    ...     _ = rl.ones(2, 3) @ rl.ones(3, 4)
    >>> [e.input_shapes for e in prof.events() if e.name == "aten::mm"]
    [[[2, 3], [3, 4]]]
    """

    def __init__(
        self,
        *,
        activities=None,
        schedule=None,
        on_trace_ready=None,
        use_cuda=None,
        **options,
    ):
        if use_cuda is not None:
            warnings.warn(
                "`use_cuda` is deprecated, use `activities` argument instead",
                FutureWarning,
                stacklevel=2,
            )
            activities = set(activities or supported_activities())
        super().__init__(activities=activities, **options)
        self.record_steps = schedule is not None
        self.schedule = schedule or _default_schedule_fn
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(self.step_num)
        self.step_rec_fn = None
        self.action_map = self._actions()

    def _actions(self):
        """What to do between one step's action and the next one's; None: at the end."""
        none, warmup, record, save = ProfilerAction
        early = partial(warnings.warn, "Incorrect schedule: WARMUP followed by NONE")
        late = partial(warnings.warn, "Incorrect schedule: RECORD followed by NONE")
        again = partial(warnings.warn, "Incorrect schedule: RECORD followed by WARMUP")
        prepare, begin, end = self.prepare_trace, self.start_trace, self.stop_trace
        ready = self._trace_ready
        return {
            (none, none): [],
            (none, warmup): [prepare],
            (none, record): [prepare, begin],
            (none, save): [prepare, begin],
            (warmup, none): [early, begin, end],
            (warmup, warmup): [],
            (warmup, record): [begin],
            (warmup, save): [begin],
            (record, none): [late, end],
            (record, warmup): [again, end],
            (record, record): [],
            (record, save): [],
            (save, none): [end, ready],
            (save, warmup): [end, ready, prepare],
            (save, record): [end, ready, prepare, begin],
            (save, save): [end, ready, prepare, begin],
            (warmup, None): [begin, end],
            (record, None): [end, ready],
            (save, None): [end, ready],
        }

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *raised):
        self.stop()
        KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.cleanup()

    def start(self):
        """Begins with the first step."""
        KinetoStepTracker.init_step_count(PROFILER_STEP_NAME)
        self._transit_action(ProfilerAction.NONE, self.current_action)
        self._name_step()

    def stop(self):
        """Ends with the last step."""
        self._end_step()
        self._transit_action(self.current_action, None)

    def step(self):
        """Ends a step: what the next one is for follows from the schedule."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._transit_action(before, self.current_action)
        KinetoStepTracker.increment_step(PROFILER_STEP_NAME)
        self._name_step()

    def _name_step(self):
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self):
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def set_custom_trace_id_callback(self, callback):
        """Names who makes the number of each recording from now on."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self):
        """The number of the recording; None before the first."""
        return None if self.profiler is None else self.profiler.trace_id

    def _trace_ready(self):
        if self.on_trace_ready:
            self.on_trace_ready(self)

    def _transit_action(self, before, now):
        for action in self.action_map.get((before, now), ()):
            action()

    def _stats(self):
        return None
