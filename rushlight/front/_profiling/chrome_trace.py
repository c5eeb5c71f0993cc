"""Recorded spans as a file that Perfetto, Chrome and HolisticTraceAnalysis read.

The format is Chrome's trace events, with the categories and arguments that PyTorch's
profiler writes: ``cpu_op``, ``user_annotation``, ``fwdbwd``, ``cpu_instant_event``. Launches of
kernels have rows below those of the threads that launch them (``cpu_kernel``), and threads
of the pool their own (``pool_work``), with an arrow from the launch.

Source: "Trace Event Format", Google, 2016.
"""

import gzip
import json
import os
import socket
import sys

from rushlight._profiling.arguments import TensorFacts
from rushlight.core import spans
from rushlight.io.serialization import replacing

_CATEGORIES = {
    "operator": "cpu_op",
    "backward": "cpu_op",
    "node": "cpu_op",
    "annotation": "user_annotation",
    "program": "cpu_op",
}
# Rows of launches bear numbers that no thread of the system has.
KERNEL_ROWS = 100_000_000
# So do threads that had ended before the recording was over.
ENDED_THREADS = 200_000_000
_TYPES = {"float32": "float", "float64": "double", "int64": "long int", "int32": "int"}


def _type_name(fact):
    if type(fact) is TensorFacts:
        return _TYPES.get(fact.dtype.name, fact.dtype.name)
    if type(fact) is list and any(type(one) is TensorFacts for one in fact):
        return "TensorList"
    return "" if fact is None else "ScalarList" if type(fact) is list else "Scalar"


def _strides(fact):
    return list(fact.strides) if type(fact) is TensorFacts else []


def _arguments(event, number):
    """What a viewer shows of a span."""
    found = {"External id": number, "Record function id": 0, "Ev Idx": number}
    if event.sequence_nr >= 0:
        found["Sequence number"] = event.sequence_nr
        found["Fwd thread id"] = event.fwd_thread or 0
    if event.input_shapes:
        found["Input Dims"] = event.input_shapes
        found["Input type"] = [_type_name(fact) for fact in event.facts]
        found["Input Strides"] = [_strides(fact) for fact in event.facts]
        found["Concrete Inputs"] = [str(value) for value in event.concrete_inputs]
    if event.stack:
        found["Call stack"] = ";".join(event.stack)
    return found


class _Trace:
    """The rows of one file.

    Args:
        settings: of the recording: ``epoch`` (nanoseconds to add to a span's clock),
            ``threads`` (the system's numbers by Python's, of those alive), ``numbers`` (events'
        ones), ``flags`` and ``metadata``.
    """

    def __init__(self, settings):
        self.settings = settings
        self.process = os.getpid()
        self.rows: list = []
        self.flows = 0
        self.numbers: dict = {}  # id of an event -> its number
        self.last: dict = {}  # sequence number -> the forward call that made the node

    def time(self, ns):
        """Microseconds since 1970."""
        return (ns + self.settings["epoch"]) / 1000

    def thread(self, event):
        """The system's number of the thread that an event ran on."""
        return self.native(event.os_thread)

    def native(self, thread):
        """The system's number of a Python thread."""
        alive = self.settings["threads"].get(thread)
        ended = self.settings["numbers"].get(thread, 0)
        return ENDED_THREADS + ended if alive is None else alive

    def kernel_row(self, kernel):
        """The row of a launch, below its thread's, or of a worker: no thread's number."""
        return (
            kernel.thread if kernel.worker else KERNEL_ROWS + self.native(kernel.owner)
        )

    def add(self, **row):
        self.rows.append({**row, "pid": self.process})

    def name_rows(self, events):
        """How viewers call the process and its threads."""
        start = self.time(events[0].start_ns) if events else 0
        name = os.path.basename(sys.argv[0]) or "python"
        threads = sorted({self.thread(event) for event in events})
        rows = {t: f"thread {t} ({name})" for t in threads}
        for kernel in self.settings.get("kernels", ()):
            rows[self.kernel_row(kernel)] = (
                f"pool worker {kernel.worker} ({name})"
                if kernel.worker
                else f"kernels of thread {self.native(kernel.owner)} ({name})"
            )
        for title, tid, args in [
            ("process_name", 0, {"name": name}),
            ("process_labels", 0, {"labels": "CPU"}),
            ("process_sort_index", 0, {"sort_index": self.process}),
            *[("thread_name", t, {"name": text}) for t, text in rows.items()],
            *[("thread_sort_index", t, {"sort_index": t}) for t in rows],
        ]:
            self.add(ph="M", name=title, ts=start, tid=tid, args=args)

    def span(self, event, number):
        self.numbers[id(event)] = number
        kind = spans.KINDS[event.kind]
        start, tid = self.time(event.start_ns), self.thread(event)
        self.add(
            ph="X",
            cat=_CATEGORIES[kind],
            name=event.name,
            tid=tid,
            ts=start,
            dur=(event.end_ns - event.start_ns) / 1000,
            args=_arguments(event, number),
        )
        if event.sequence_nr < 0:
            return
        if kind == "operator":
            self.last[event.sequence_nr] = event
        elif kind == "backward" and event.sequence_nr in self.last:
            self.flow(self.last[event.sequence_nr], event)

    def flow(self, call, node):
        """An arrow from a forward call to the node that reverses it."""
        self.flows += 1
        for phase, event in (("s", call), ("f", node)):
            row = {"ph": phase, "id": self.flows, "cat": "fwdbwd", "name": "fwdbwd"}
            if phase == "f":
                row["bp"] = "e"
            self.add(tid=self.thread(event), ts=self.time(event.start_ns), **row)

    def kernels(self, found):
        """Launches, and what each worker did, with an arrow to it."""
        for kernel in found:
            args = {"Chunks" if kernel.worker else "Length": kernel.size}
            if id(kernel.event) in self.numbers:
                args["External id"] = self.numbers[id(kernel.event)]
            self.add(
                ph="X",
                cat="pool_work" if kernel.worker else "cpu_kernel",
                name=kernel.name,
                tid=self.kernel_row(kernel),
                ts=self.time(kernel.start_ns),
                dur=(kernel.end_ns - kernel.start_ns) / 1000,
                args=args,
            )
            if kernel.launch is not None:
                self.flows += 1
                for phase, end in (("s", found[kernel.launch]), ("f", kernel)):
                    row = {"ph": phase, "id": self.flows, "cat": "launch", "bp": "e"}
                    ts = self.time(end.start_ns)
                    self.add(tid=self.kernel_row(end), ts=ts, name="launch", **row)

    def memory(self, row, total):
        _, _, _, thread, start, _, change, address = row
        self.add(
            ph="i",
            s="t",
            cat="cpu_instant_event",
            name="[memory]",
            tid=self.native(thread),
            ts=self.time(start),
            args={
                "Device Type": 0,
                "Device Id": -1,
                "Addr": address,
                "Bytes": change,
                "Total Allocated": total,
                "Total Reserved": 0,
            },
        )


def trace_of(events, settings):
    """The whole trace as a dictionary."""
    settings = settings or {
        name: {} for name in ("threads", "numbers", "flags", "metadata")
    }
    settings.setdefault("epoch", 0)
    trace = _Trace(settings)
    timed = [event for event in events if spans.KINDS[event.kind] != "memory"]
    trace.name_rows(timed)
    for number, event in enumerate(timed, 1):
        trace.span(event, number)
    trace.kernels(settings.get("kernels", ()))
    total = 0
    for row in settings.get("memory", ()):
        total += row[6]
        trace.memory(row, total)
    if timed:
        _add_ends(trace, timed)
    return {
        "schemaVersion": 1,
        "deviceProperties": [],
        **settings["flags"],
        **settings["metadata"],
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "traceEvents": trace.rows,
    }


def _add_ends(trace, events):
    """Where the recording began and ended."""
    first = min(event.start_ns for event in events)
    last = max(event.end_ns for event in events)
    trace.add(
        ph="X",
        cat="Trace",
        name="PyTorch Profiler (0)",
        tid="PyTorch Profiler",
        ts=trace.time(first),
        dur=(last - first) / 1000,
        args={"Op count": 0},
    )
    trace.add(ph="i", s="g", name="Record Window End", tid="", ts=trace.time(last))


def write_text(path, text):
    """Writes a file whole or not at all; one that ends in ``.gz`` is compressed."""
    data = text.encode()
    if str(path).endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    with replacing(path) as file:
        file.write(data)


def write_trace(path, events, settings):
    """Writes the spans of a recording as a trace."""
    write_text(path, json.dumps(trace_of(events, settings), default=str))
