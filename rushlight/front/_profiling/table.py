"""Tables of recorded spans: figures with their units, in columns."""

import math

_WIDTH = 12  # of a column of figures
_GAP = "  "
_UNITS = {"s": 1e-6, "ms": 1e-3, "us": 1.0}
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


def format_time(time_us, unit=None):
    """Microseconds with a unit: the largest that leaves one or more.

    >>> format_time(1500.0), format_time(2.5), format_time(2.5, "ms")
    ('1.500ms', '2.500us', '0.003ms')
    """
    if unit is None:
        unit = next((u for u in ("s", "ms") if time_us * _UNITS[u] >= 1), "us")
    return f"{time_us * _UNITS[unit]:.3f}{unit}"


def format_time_share(time_us, total_time_us):
    """A time as a part of another.

    >>> format_time_share(1.0, 8.0)
    '12.50%'
    """
    if total_time_us == 0:
        assert time_us == 0, f"Expected time_us == 0 but got {time_us}"
        return "NaN"
    return f"{time_us * 100.0 / total_time_us:.2f}%"


def format_memory(n_bytes):
    """Bytes with a unit.

    >>> format_memory(400), format_memory(-2048)
    ('400 B', '-2.00 KB')
    """
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(n_bytes) >= 1024**power:
            return f"{n_bytes / 1024**power:.2f} {unit}"
    return f"{n_bytes} B"


def _scale_of_flops(least):
    """The unit that all rows share: that of the smallest."""
    power = max(0, min(int(math.log10(least) / 3), len(_FLOPS) - 1))
    return 10.0 ** (-3 * power), f"Total {_FLOPS[power]}"


def _shortened(text, width):
    return text[: width - 3] + "..." if len(text) >= width - 3 else text


class _Columns:
    """Headings and widths, and the rows under them."""

    def __init__(self):
        self.names, self.widths, self.signs = [], [], []

    def add(self, name, width=_WIDTH, sign=">"):
        self.names.append(name)
        self.widths.append(width)
        self.signs.append(sign)

    def row(self, values):
        cells = zip(values, self.signs, self.widths, strict=True)
        return "".join(f"{v:{sign}{width}}{_GAP}" for v, sign, width in cells)

    def rule(self):
        return "".join("-" * width + _GAP for width in self.widths)

    @property
    def length(self):
        return sum(self.widths) + len(_GAP) * (len(self.widths) - 1)


def _device_of(events):
    return next((e.use_device for e in events if e.use_device), None)


def _columns(events, device, widths, memory, flops):
    """The columns that the spans have something for, in PyTorch's order."""
    name_width, shapes_width, source_width = widths
    columns = _Columns()
    longest = max(len(e.key) for e in events) + 4
    columns.add("Name", min(longest, name_width) if name_width else longest)
    overloads = [len(e.overload_name) for e in events if e.overload_name]
    if overloads:
        columns.add("Overload Name", max(max(overloads) + 4, 13))
    for title in ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"):
        columns.add(title)
    if device:
        label = device.upper()
        for title in (f"Self {label}", f"Self {label} %", f"{label} total"):
            columns.add(title)
        columns.add(f"{label} time avg")
    if memory:
        columns.add("CPU Mem")
        columns.add("Self CPU Mem")
        if device:
            columns.add(f"{device.upper()} Mem")
            columns.add(f"Self {device.upper()} Mem")
    columns.add("# of Calls")
    if any(e.node_id != -1 for e in events):
        columns.add("Node ID")
    shapes = [len(str(e.input_shapes)) for e in events if e.input_shapes]
    if shapes:
        longest = max(shapes) + 4
        columns.add("Input Shapes", min(longest, shapes_width or longest))
    sources = [len(line) for e in events for line in e.stack or ()]
    if sources:
        longest = max(sources) + 4
        width = min(longest, source_width) if source_width else longest
        columns.add("Source Location", width, "<")
    if flops:
        columns.add(flops[1])
    return columns


def _figures(event, columns, device, memory, flops, total, time_unit):
    """The values of one row."""
    time = lambda us: format_time(us, time_unit)  # noqa: E731
    names = columns.names
    row = [_shortened(event.key, columns.widths[0])]
    if "Overload Name" in names:
        row.append(event.overload_name)
    inside = 0 if event.is_async else event.cpu_time_total
    row += [
        format_time_share(event.self_cpu_time_total, total),
        time(event.self_cpu_time_total),
        format_time_share(inside, total),
        time(event.cpu_time_total),
        time(event.cpu_time),
    ]
    if device:
        own = event.self_device_time_total
        row += [time(own), format_time_share(own, own or 1)]
        row += [time(event.device_time_total), time(event.device_time)]
    if memory:
        row += [
            format_memory(event.cpu_memory_usage),
            format_memory(event.self_cpu_memory_usage),
        ]
        if device:
            row += [
                format_memory(event.device_memory_usage),
                format_memory(event.self_device_memory_usage),
            ]
    row.append(event.count)
    if "Node ID" in names:
        row.append(event.node_id)
    if "Input Shapes" in names:
        width = columns.widths[names.index("Input Shapes")]
        row.append(str(event.input_shapes)[:width])
    if "Source Location" in names:
        row.append(_source(event, columns, 0))
    if flops:
        row.append("--" if not event.flops else f"{event.flops * flops[0]:8.3f}")
    return row


def _source(event, columns, number):
    width = columns.widths[columns.names.index("Source Location")]
    lines = event.stack or ()
    return lines[number][-width:] if len(lines) > number else ""


def _chosen(events, row_limit, top_level_only):
    chosen = [e for e in events if not (top_level_only and e.cpu_parent is not None)]
    return chosen if row_limit == -1 else chosen[:row_limit]


def build_table(
    events,
    sort_by=None,
    row_limit=100,
    widths=(55, 80, 75),
    header=None,
    with_flops=False,
    profile_memory=False,
    top_level_events_only=False,
    time_unit=None,
):
    """Spans, or sums of them, as text: `EventList.table` has the arguments.

    Args:
        events: the spans; other arguments are those of the table.
        widths: characters of a name, of shapes and of a source line at most.

    Raises:
        ValueError: spans have no such figure to sort by, or the unit is unknown.
    """
    if not len(events):
        return ""
    if time_unit is not None and time_unit not in _UNITS:
        raise ValueError(f"time_unit must be one of us, ms, s, not {time_unit!r}")
    device = _device_of(events)
    total = sum(e.self_cpu_time_total for e in events)
    if sort_by is not None:
        name = sort_by.replace("cuda", "device").replace("xpu", "device")
        if not hasattr(events[0], name):
            raise ValueError(f"the spans have no '{sort_by}' to sort by")
        events = sorted(events, key=lambda e: getattr(e, name), reverse=True)
    counted = [e.flops for e in events if e.flops and e.flops > 0]
    flops = _scale_of_flops(min(counted)) if with_flops and counted else None
    columns = _columns(events, device, widths, profile_memory, flops)
    lines = []
    if header is not None:
        lines += ["=" * columns.length, header]
    if top_level_events_only:
        lines += [
            "=" * columns.length,
            "This report only display top-level ops statistics",
        ]
    lines += [columns.rule(), columns.row(columns.names), columns.rule()]
    for event in _chosen(events, row_limit, top_level_events_only):
        figures = _figures(
            event, columns, device, profile_memory, flops, total, time_unit
        )
        lines.append(columns.row(figures))
        lines += _more_sources(event, columns)
    lines.append(columns.rule())
    lines.append(f"Self CPU time total: {format_time(total, time_unit)}")
    return "\n".join(lines) + "\n"


def _more_sources(event, columns):
    """A row for each further line of Python, and an empty one."""
    if "Source Location" not in columns.names or not event.stack:
        return []
    at = columns.names.index("Source Location")
    rows = []
    for number in range(1, len(event.stack) + 1):
        values = [""] * len(columns.names)
        values[at] = _source(event, columns, number)
        rows.append(columns.row(values))
    return rows
