"""What traces tell about threads: computing, calling, idle; and how two traces differ.

What HolisticTraceAnalysis computes of GPUs, of the host: it reads traces that profilers of
Rushlight or PyTorch wrote.
"""

import gzip
import json
from collections import defaultdict
from html import escape
from typing import NamedTuple

from rushlight._profiling.chrome_trace import KERNEL_ROWS
from rushlight.inspection._viewer import Panel

_WORK = ("cpu_kernel", "pool_work")
_SPANS = ("cpu_op", "user_annotation", "cpu_kernel", "pool_work")


class ThreadTime(NamedTuple):
    """What a thread did in the time of a trace, in microseconds.

    Args:
        thread: the system's number.
        name: what viewers call it.
        compute: in kernels.
        other: in operators, but in no kernel: checks, memory, the way to the kernel; of
            traces without kernels, all of it.
        idle: outside of operators: in Python between them, or waiting.
    """

    thread: int
    name: str
    compute: float
    other: float
    idle: float


class OperatorChange(NamedTuple):
    """An operator in two traces.

    Args:
        name: which one.
        counts: its calls in both.
        times: microseconds of its own in both, without operators inside.
    """

    name: str
    counts: tuple
    times: tuple

    @property
    def change(self):
        """How many microseconds more the second trace has."""
        return self.times[1] - self.times[0]


class TraceAnalysis:
    """A trace that a profiler wrote, looked into.

    Args:
        path: the file, ``.json`` or ``.json.gz``.

    Raises:
        ValueError: the file is no trace.

    >>> import os, tempfile
    >>> import rushlight as rl
    >>> with rl.profiler.profile() as prof:
    ...     _ = rl.ones(100).exp()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "trace.json")
    ...     prof.export_chrome_trace(path)
    ...     analysis = TraceAnalysis(path)
    >>> [thread.compute > 0 for thread in analysis.threads()]
    [True]
    >>> sorted(analysis.operators())
    ['aten::exp', 'aten::ones']
    """

    def __init__(self, path):
        opened = gzip.open if str(path).endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8") as file:
            trace = json.load(file)
        if not isinstance(trace, dict) or "traceEvents" not in trace:
            raise ValueError(f"TraceAnalysis: {path} is no trace: no 'traceEvents'")
        rows = trace["traceEvents"]
        self.spans = [r for r in rows if r.get("ph") == "X" and r.get("cat") in _SPANS]
        self.names = {
            r["tid"]: r["args"]["name"] for r in rows if r.get("name") == "thread_name"
        }

    @property
    def length(self):
        """Microseconds from the first span's begin to the last one's end."""
        if not self.spans:
            return 0.0
        begun = min(row["ts"] for row in self.spans)
        return max(row["ts"] + row["dur"] for row in self.spans) - begun

    def threads(self):
        """A `ThreadTime` for each thread, the busiest first."""
        work, calls = defaultdict(list), defaultdict(list)
        for row in self.spans:
            span = row["ts"], row["ts"] + row["dur"]
            if row["cat"] in _WORK:
                tid = row["tid"]
                work[tid - KERNEL_ROWS if row["cat"] == "cpu_kernel" else tid].append(
                    span
                )
            elif row["cat"] == "cpu_op":
                calls[row["tid"]].append(span)
        found = []
        for thread in {**calls, **work}:
            compute = covered(work[thread])
            busy = covered(work[thread] + calls[thread])
            name = self.names.get(thread, f"thread {thread}")
            idle = self.length - busy
            found.append(ThreadTime(thread, name, compute, busy - compute, idle))
        return sorted(found, key=lambda row: row.idle)

    def operators(self):
        """Calls and microseconds of its own of each operator, by its name."""
        found: dict = {}
        open_spans = defaultdict(list)
        calls = (row for row in self.spans if row["cat"] == "cpu_op")
        for row in sorted(calls, key=lambda row: (row["ts"], -row["dur"])):
            stack = open_spans[row["tid"]]
            while stack and stack[-1]["ts"] + stack[-1]["dur"] <= row["ts"]:
                stack.pop()
            self._add(found, row["name"], 1, row["dur"])
            if stack:
                self._add(found, stack[-1]["name"], 0, -row["dur"])
            stack.append(row)
        return found

    @staticmethod
    def _add(found, name, calls, time):
        count, total = found.get(name, (0, 0.0))
        found[name] = count + calls, total + time

    def kernels(self):
        """Launches and microseconds of each kernel, by its name."""
        found: dict = {}
        for row in self.spans:
            if row["cat"] == "cpu_kernel":
                self._add(found, row["name"], 1, row["dur"])
        return found

    def difference(self, other):
        """What another trace spends on each operator beside this one.

        Args:
            other: a `TraceAnalysis`, of the same program on another day, or of PyTorch.

        Returns:
            a list of `OperatorChange`, the largest changes first.
        """
        ours, theirs = self.operators(), other.operators()
        found = []
        for name in {**ours, **theirs}:
            pairs = zip(
                ours.get(name, (0, 0.0)), theirs.get(name, (0, 0.0)), strict=True
            )
            found.append(OperatorChange(name, *pairs))
        return sorted(found, key=lambda change: -abs(change.change))

    def panel(self):
        """The part of a page that shows what each thread did."""
        rows = []
        for thread in self.threads():
            total = max(thread.compute + thread.other + thread.idle, 1e-9)
            bars = "".join(
                f'<div style="width:{400 * value / total:.1f}px;background:{color}" '
                f'title="{value:.1f} us"></div>'
                for value, color in (
                    (thread.compute, "#2e7d32"),
                    (thread.other, "#c9a227"),
                    (thread.idle, "#d5dae3"),
                )
            )
            figures = "".join(
                f'<td class="number">{value / 1000:.3f}</td>' for value in thread[2:]
            )
            rows.append(
                f'<tr><td>{escape(thread.name)}</td><td class="threads">{bars}</td>'
                f"{figures}</tr>"
            )
        head = "".join(
            f"<th>{title}</th>"
            for title in ("thread", "", "in kernels, ms", "in operators", "idle")
        )
        body = f"<table><tr>{head}</tr>{''.join(rows)}</table>"
        style = ".threads div { display: inline-block; height: .9em; }"
        return Panel("Threads", body, style=style)


def covered(spans):
    """How long some spans are together, overlaps once.

    >>> covered([(0, 2), (1, 3), (5, 6)])
    4
    """
    total = 0
    until = None
    for begun, ended in sorted(spans):
        if until is None or begun > until:
            total += ended - begun
            until = ended
        elif ended > until:
            total += ended - until
            until = ended
    return total
