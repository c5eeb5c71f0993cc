"""Recorded spans as events: a tree of them, sums over equal names, and their tables."""

from collections import defaultdict, namedtuple

from rushlight._profiling.table import build_table
from rushlight._profiling.table import format_time as _format_time
from rushlight.core.device_types import DeviceType

__all__ = [
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
]

Kernel = namedtuple("Kernel", ["name", "device", "duration"])
_METRICS = (
    "self_cpu_time_total",
    "self_cuda_time_total",
    "self_xpu_time_total",
    "self_privateuse1_time_total",
)


class Interval:
    """From when to when, in microseconds.

    >>> Interval(2.0, 5.5).elapsed_us()
    3.5
    """

    def __init__(self, start, end):
        self.start = start
        self.end = end

    def elapsed_us(self):
        """How long that is."""
        return self.end - self.start


class StringTable(defaultdict):
    """Names of functions, each looked up once."""

    def __missing__(self, key):
        self[key] = key
        return key


class MemRecordsAcc:
    """Records of memory by time: those of an interval are found by bisection.

    Args:
        mem_records: pairs of a record, which has ``start_ns()``, and anything.
    """

    def __init__(self, mem_records):
        self._mem_records = mem_records
        rows = sorted((r[0].start_ns(), i) for i, r in enumerate(mem_records))
        self._start_nses = [start for start, _ in rows]
        self._indices = [i for _, i in rows]

    def in_interval(self, start_ns, end_ns):
        """The records that lie between two times."""
        from bisect import bisect_left, bisect_right

        first = bisect_left(self._start_nses, start_ns)
        last = bisect_right(self._start_nses, end_ns)
        for i in range(first, last):
            yield self._mem_records[self._indices[i]]


def _formatted(name):
    """A property: a time of that name, with its unit."""
    return property(lambda self: _format_time(getattr(self, name)))


class FormattedTimesMixin:
    """Times with their units, and times of one call."""

    cpu_time_str = _formatted("cpu_time")
    device_time_str = _formatted("device_time")
    cpu_time_total_str = _formatted("cpu_time_total")
    device_time_total_str = _formatted("device_time_total")
    self_cpu_time_total_str = _formatted("self_cpu_time_total")
    self_device_time_total_str = _formatted("self_device_time_total")

    @property
    def cpu_time(self):
        """Microseconds of one call on the host, on average."""
        return 0.0 if self.count == 0 else self.cpu_time_total / self.count

    @property
    def device_time(self):
        """Microseconds of one call on a device, on average."""
        return 0.0 if self.count == 0 else self.device_time_total / self.count

    cuda_time = device_time


class FunctionEvent(FormattedTimesMixin):
    """One span: an operator's call, a node of a sweep, or a block with a name.

    Args:
        id: its number in the recording.
        name: what ran, as ``aten::add``.
        thread: the number of the thread that it ran on.
        start_us: when it began, ``end_us``: when it ended, in microseconds.
        overload_name: of an operator, as ``Tensor``.
        fwd_thread: of a backward span, the thread of the forward call.
        input_shapes: of an operator's arguments, where they were recorded.
        stack: the lines of Python that led there, innermost first.
        scope: 0 for functions, 1 for backward functions, 7 for users' blocks.
        cpu_memory_usage: bytes taken less those given back, in all of the span.
        sequence_nr: autograd's number, which a forward call and its node share.
        flops: floating-point operations by the sizes of the operands; None if unknown.
        concrete_inputs: the arguments that are no tensors.
        is_user_annotation: whether the program named it.

    The other arguments are kept as they are given.
    """

    def __init__(
        self,
        id,
        name,
        thread,
        start_us,
        end_us,
        overload_name=None,
        fwd_thread=None,
        input_shapes=None,
        stack=None,
        scope=0,
        use_device=None,
        cpu_memory_usage=0,
        device_memory_usage=0,
        is_async=False,
        is_remote=False,
        sequence_nr=-1,
        node_id=-1,
        device_type=DeviceType.CPU,
        device_index=0,
        device_resource_id=None,
        is_legacy=False,
        flops=None,
        trace_name=None,
        concrete_inputs=None,
        kwinputs=None,
        is_user_annotation=False,
        **others,
    ):
        self.id, self.name, self.thread = id, name, thread
        self.overload_name = overload_name or ""
        self.trace_name = trace_name or name
        self.time_range = Interval(start_us, end_us)
        self.fwd_thread = fwd_thread
        self.kernels, self.count = [], 1
        self.cpu_children, self.cpu_parent = [], None
        self.input_shapes = input_shapes if input_shapes is not None else []
        self.concrete_inputs = concrete_inputs if concrete_inputs is not None else []
        self.kwinputs = kwinputs if kwinputs is not None else {}
        self.stack = stack if stack is not None else []
        self.scope, self.use_device = scope, use_device
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = device_memory_usage
        self.is_async, self.is_remote, self.is_legacy = is_async, is_remote, is_legacy
        self.sequence_nr, self.node_id = sequence_nr, node_id
        self.device_type, self.device_index = device_type, device_index
        self.device_resource_id = (
            thread if device_resource_id is None else device_resource_id
        )
        self.flops, self.is_user_annotation = flops, is_user_annotation
        self.self_cpu_percent = self.total_cpu_percent = -1
        self.total_device_percent = -1
        self.__dict__.update(others)

    def append_kernel(self, name, device, duration):
        """Adds a kernel that ran on a device for this span."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child):
        """Adds a span that ran inside of this one."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent):
        """Names the span that this one ran inside of."""
        self.cpu_parent = parent

    @property
    def self_cpu_memory_usage(self):
        """Bytes taken less those given back, without the spans inside."""
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        inside = sum(child.cpu_memory_usage for child in self.cpu_children)
        return self.cpu_memory_usage - inside

    @property
    def self_device_memory_usage(self):
        """The same on the device."""
        inside = sum(child.device_memory_usage for child in self.cpu_children)
        return self.device_memory_usage - inside

    @property
    def cpu_time_total(self):
        """Its length in microseconds."""
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self):
        """Its length without the spans inside, in microseconds."""
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    @property
    def device_time_total(self):
        """Microseconds of its kernels on a device."""
        inside = sum(child.device_time_total for child in self.cpu_children)
        return sum(kernel.duration for kernel in self.kernels) + inside

    @property
    def self_device_time_total(self):
        """The same without the spans inside."""
        return sum(kernel.duration for kernel in self.kernels)

    cuda_time_total = device_time_total
    self_cuda_time_total = self_device_time_total
    self_cuda_memory_usage = self_device_memory_usage

    @property
    def key(self):
        """What spans are summed by: the name."""
        return self.name

    def __repr__(self):
        return (
            f"<FunctionEvent id={self.id} name={self.name} "
            f"overload_name={self.overload_name} device_type={self.device_type} "
            f"node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} "
            f"name={self.name} thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} is_async={self.is_async} "
            f"is_remote={self.is_remote} seq_nr={self.sequence_nr} "
            f"is_legacy={self.is_legacy}>"
        )


class FunctionEventAvg(FormattedTimesMixin):
    """The sum of some spans: of one name, or of all."""

    _SUMMED = (
        "cpu_time_total",
        "self_cpu_time_total",
        "device_time_total",
        "self_device_time_total",
        "cpu_memory_usage",
        "self_cpu_memory_usage",
        "device_memory_usage",
        "self_device_memory_usage",
        "count",
    )
    _TAKEN = (
        "key",
        "node_id",
        "is_async",
        "is_remote",
        "cpu_parent",
        "cpu_children",
        "overload_name",
        "input_shapes",
        "stack",
        "scope",
        "device_type",
        "is_legacy",
        "use_device",
        "is_user_annotation",
    )

    def __init__(self):
        self.key, self.flops, self.cpu_children = None, 0, None
        self.cpu_parent = self.input_shapes = self.stack = self.scope = None
        self.overload_name = self.use_device = self.device_type = None
        self.node_id, self.is_legacy = 0, False
        self.is_async = self.is_remote = self.is_user_annotation = False
        for name in self._SUMMED:
            setattr(self, name, 0)

    cuda_time_total = property(lambda self: self.device_time_total)
    self_cuda_time_total = property(lambda self: self.self_device_time_total)

    def add(self, other):
        """Adds a span, or another sum, of the same name.

        Args:
            other: a `FunctionEvent` or a `FunctionEventAvg`.
        """
        if self.key is None:
            for name in self._TAKEN:
                setattr(self, name, getattr(other, name))
        assert isinstance(other, FunctionEvent | FunctionEventAvg)
        assert other.key == self.key
        for name in self._SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops = (self.flops or 0) + (other.flops or 0)
        return self

    def __iadd__(self, other):
        return self.add(other)

    def __repr__(self):
        return (
            f"<FunctionEventAvg key={self.key} "
            f"self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list):
    """Spans that were recorded, or sums of them.

    Args:
        use_device: the device whose times tables show beside the host's; None for none.
        profile_memory: whether tables show memory.
        with_flops: whether tables show floating-point operations.
    """

    def __init__(self, *args, use_device=None, profile_memory=False, with_flops=False):
        super().__init__(*args)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        self._trace = None

    def _build_tree(self):
        """Finds out which spans ran inside of which, thread by thread."""
        rows = sorted(self, key=lambda e: (e.time_range.start, -e.time_range.end))
        open_spans: dict = defaultdict(list)
        for event in rows:
            if event.device_type != DeviceType.CPU or event.is_async:
                continue
            stack = open_spans[event.thread, event.node_id]
            while stack and event.time_range.start >= stack[-1].time_range.end:
                stack.pop()
            if stack:
                stack[-1].append_cpu_child(event)
                event.set_cpu_parent(stack[-1])
            stack.append(event)

    @property
    def self_cpu_time_total(self):
        """Microseconds of all spans, none counted twice."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by=None,
        row_limit=100,
        max_src_column_width=75,
        max_name_column_width=55,
        max_shapes_column_width=80,
        header=None,
        top_level_events_only=False,
        time_unit=None,
    ):
        """The spans as a table.

        Args:
            sort_by: the figure that rows are sorted by, largest first: ``cpu_time``,
                ``cpu_time_total``, ``self_cpu_time_total``, ``cpu_memory_usage``,
                ``self_cpu_memory_usage``, ``count`` and the same of devices.
            row_limit: rows at most; -1 for all.
            max_src_column_width: characters of a source line at most;
                ``max_name_column_width``: of a name; ``max_shapes_column_width``: of
                shapes.
            header: a line above.
            top_level_events_only: leaves out spans inside of others.
            time_unit: ``us``, ``ms`` or ``s`` for all times; None: each its own.
        """
        return build_table(
            self,
            sort_by=sort_by,
            row_limit=row_limit,
            widths=(
                max_name_column_width,
                max_shapes_column_width,
                max_src_column_width,
            ),
            header=header,
            with_flops=self._with_flops,
            profile_memory=self._profile_memory,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
        )

    __str__ = table

    def key_averages(
        self,
        group_by_input_shapes=False,
        group_by_stack_n=0,
        group_by_overload_name=False,
    ):
        """The spans summed by name.

        Args:
            group_by_input_shapes: sums calls of the same shapes only.
            group_by_stack_n: sums calls with the same innermost lines of Python only, as
                many of them as this.
            group_by_overload_name: sums calls of the same overload only.
        """
        sums: dict = {}
        for event in self:
            key = [event.key, event.node_id, event.device_type, event.is_legacy]
            key.append(event.is_user_annotation)
            if group_by_overload_name:
                key.append(event.overload_name)
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            key += event.stack[:group_by_stack_n]
            key = tuple(key)
            sums.setdefault(key, FunctionEventAvg()).add(event)
        found = EventList(
            sums.values(),
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        for total in found:
            total.stack = total.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                total.input_shapes = ""
            if not group_by_overload_name:
                total.overload_name = ""
        return found

    def total_average(self):
        """One sum over all spans."""
        total = FunctionEventAvg()
        for event in self:
            total.key = None
            total.add(event)
        total.key = "Total"
        return total

    def export_chrome_trace(self, path):
        """Writes the spans as a trace that Perfetto and Chrome show.

        Args:
            path: the file; one that ends in ``.gz`` is compressed.
        """
        from rushlight._profiling.chrome_trace import write_trace

        write_trace(path, self, self._trace)

    def supported_export_stacks_metrics(self):
        """What `export_stacks` can weigh lines by."""
        return list(_METRICS)

    def export_stacks(self, path, metric):
        """Writes the lines of Python behind each span, for pictures of flames.

        Args:
            path: the file: a row a stack, outermost line first, then microseconds.
            metric: what weighs a stack: ``self_cpu_time_total``, or that of a device.

        Raises:
            ValueError: another metric.
        """
        if metric not in _METRICS:
            raise ValueError(
                f"metric should be one of: {self.supported_export_stacks_metrics()}"
            )
        if metric != "self_cpu_time_total":
            metric = "self_device_time_total"
        blank = str.maketrans(" ;\t\n", "____")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = int(getattr(event, metric))
                if event.stack and value > 0:
                    lines = [line.translate(blank) for line in reversed(event.stack)]
                    file.write(f"{';'.join(lines)} {value}\n")
