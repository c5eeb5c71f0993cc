"""How much memory was taken over time, and by what."""

import enum
import json
from html import escape

from rushlight._profiling.chrome_trace import write_text
from rushlight._profiling.collect import BACKWARD, python_lines

_STEP = "Optimizer.step#"


class Category(enum.Enum):
    """What a block of memory is for."""

    INPUT = 1
    TEMPORARY = 2
    ACTIVATION = 3
    GRADIENT = 4
    AUTOGRAD_DETAIL = 5
    PARAMETER = 6
    OPTIMIZER_STATE = 7


class Action(enum.Enum):
    """What happened to a block."""

    PREEXISTING = 0
    CREATE = 1
    INCREMENT_VERSION = 2
    DESTROY = 3


_COLORS = {
    Category.PARAMETER: "#2e7d32",
    Category.OPTIMIZER_STATE: "#c9a227",
    Category.INPUT: "#333333",
    Category.TEMPORARY: "#8e24aa",
    Category.ACTIVATION: "#c62828",
    Category.GRADIENT: "#1565c0",
    Category.AUTOGRAD_DETAIL: "#6d9eeb",
    None: "#9e9e9e",
}


class _Block:
    """Memory from when it was taken to when it was given back."""

    def __init__(self, begun, n_bytes, phase, line):
        self.begun, self.ended = begun, None
        self.n_bytes, self.phase, self.line = n_bytes, phase, line
        self.category = None


class MemoryProfile:
    """The blocks of a recording, with what each is for.

    What a block is for follows from where it was taken and how long it stayed. Inside of
    ``Optimizer.step``: state of the optimizer, if it stays. Inside of a sweep: a
    gradient, if it outlives the sweep, else a detail of autograd. Elsewhere: an
    activation, if a sweep begins while it is there, else something temporary.

    Args:
        recording: an `autograd.profiler.profile` that is over.
    """

    def __init__(self, recording):
        events = recording.function_events
        self.sweeps = _merged(e for e in events if e.kind == BACKWARD)
        self.steps = _merged(e for e in events if e.name.startswith(_STEP))
        self.blocks = self._blocks(recording._memory_rows)
        for block in self.blocks:
            block.category = self._category(block)

    def _blocks(self, rows):
        live: dict = {}
        found: list = []
        for row in rows:
            _, _, stack, _, moment, _, change, address = row
            if change > 0:
                line = next(iter(python_lines(stack)), None)
                block = _Block(moment, change, self._phase(moment), line)
                live[address] = block
                found.append(block)
            elif address in live:
                live.pop(address).ended = moment
        return found

    def _phase(self, moment):
        for name, spans in (("step", self.steps), ("sweep", self.sweeps)):
            for start, end in spans:
                if start <= moment < end:
                    return name, end
        return "forward", None

    def _category(self, block):
        phase, end = block.phase
        stays = end is not None and (block.ended is None or block.ended > end)
        if phase == "step":
            return Category.OPTIMIZER_STATE if stays else Category.TEMPORARY
        if phase == "sweep":
            return Category.GRADIENT if stays else Category.AUTOGRAD_DETAIL
        for start, _ in self.sweeps:
            if start > block.begun:
                kept = block.ended is None or block.ended > start
                return Category.ACTIVATION if kept else Category.TEMPORARY
        return None if block.ended is None else Category.TEMPORARY

    @property
    def timeline(self):
        """What happened, in order: ``(nanoseconds, action, category, bytes)``."""
        rows = [(b.begun, Action.CREATE, b.category, b.n_bytes) for b in self.blocks]
        rows += [
            (b.ended, Action.DESTROY, b.category, b.n_bytes)
            for b in self.blocks
            if b.ended is not None
        ]
        return sorted(rows, key=lambda row: row[0])


def _merged(events):
    """Spans of time as few intervals: those that touch within a sweep are one."""
    found: list = []
    for event in sorted(events, key=lambda e: e.start_ns):
        root = event
        while root.cpu_parent is not None and root.cpu_parent.kind == BACKWARD:
            root = root.cpu_parent
        if found and root.start_ns - found[-1][1] < 1_000_000:
            found[-1][1] = max(found[-1][1], root.end_ns)
        else:
            found.append([root.start_ns, root.end_ns])
    return [tuple(pair) for pair in found]


class MemoryProfileTimeline:
    """Memory by category over time, as files.

    Args:
        memory_profile: the blocks.
    """

    def __init__(self, memory_profile):
        self.profile = memory_profile

    def _coalesce_timeline(self, device_str):
        """Times in microseconds, and for each the bytes by category, none first."""
        times: list = []
        sizes: list = []
        now = [0] * (len(Category) + 1)
        for moment, action, category, n_bytes in self.profile.timeline:
            place = category.value if category else 0
            now[place] += n_bytes if action is Action.CREATE else -n_bytes
            times.append(moment // 1000)
            sizes.append(list(now))
        return times, sizes

    def export_memory_timeline(self, path, device_str):
        """Writes the times and the bytes by category, as JSON."""
        write_text(path, json.dumps(list(self._coalesce_timeline(device_str))))

    def export_memory_timeline_raw(self, path, device_str):
        """Writes each block: microseconds, what happened, bytes, category."""
        rows = [
            (moment // 1000, action.value, n_bytes, category.value if category else 0)
            for moment, action, category, n_bytes in self.profile.timeline
        ]
        write_text(path, json.dumps(rows))

    def export_memory_timeline_html(
        self, path, device_str, figsize=(20, 12), title=None
    ):
        """Writes a picture: bytes by category over time, in a page of its own.

        Args:
            path: the file.
            device_str: whose memory.
            figsize: width and height, in units of 50 points.
            title: what stands above.
        """
        times, sizes = self._coalesce_timeline(device_str)
        width, height = figsize[0] * 50, figsize[1] * 50
        text = _page(title or f"Memory on {device_str}", times, sizes, width, height)
        write_text(path, text)


def _areas(times, sizes, width, height, peak):
    """An SVG path for each category, stacked."""
    span = max(times[-1] - times[0], 1)
    across = [(t - times[0]) * width / span for t in times]
    below = [0] * len(times)
    order = [Category.PARAMETER, Category.OPTIMIZER_STATE, Category.INPUT]
    order += [c for c in Category if c not in order] + [None]
    for category in order:
        place = category.value if category else 0
        top = [b + row[place] for b, row in zip(below, sizes, strict=True)]
        if top != below:
            up = [(x, height - t * height / peak) for x, t in zip(across, top)]
            down = [(x, height - b * height / peak) for x, b in zip(across, below)]
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in up + down[::-1])
            yield category, points
        below = top


def _page(title, times, sizes, width, height):
    peak = max((sum(row) for row in sizes), default=0)
    shapes, names = [], []
    if peak:
        for category, points in _areas(times, sizes, width, height, peak):
            name = category.name.replace("_", " ").title() if category else "Unknown"
            color = _COLORS[category]
            shapes.append(
                f'<polygon points="{points}" fill="{color}"><title>{name}</title>'
                "</polygon>"
            )
            names.append(f'<span style="color:{color}">&#9632;</span> {name}')
    length = (times[-1] - times[0]) / 1000 if times else 0
    return (
        f'<!doctype html><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<body style='font-family:sans-serif'><h1>{escape(title)}</h1>"
        f"<p>Peak: {peak:,} bytes, over {length:.3f} ms. {' '.join(names)}</p>"
        f'<svg viewBox="0 0 {width} {height}" width="100%" '
        f'preserveAspectRatio="none" style="border:1px solid #ccc">'
        f"{''.join(shapes)}</svg></body>"
    )
