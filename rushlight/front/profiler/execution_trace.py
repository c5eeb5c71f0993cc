"""What a program called, in order, with its operands: a file for replaying and simulating.

The format is the execution trace of Chakra, which PyTorch's observer writes: a node for
each operator with what controls it, its inputs and outputs.

Source: Sridharan et al., "Chakra: Advancing Performance Benchmarking and Co-design using
Standardized Execution Traces", 2023.
"""

import json
import math
import os
import tempfile
import time

from rushlight._profiling.arguments import TensorFacts
from rushlight._profiling.chrome_trace import write_text
from rushlight._profiling.collect import MEMORY, Collector
from rushlight.core import spans
from rushlight.dispatch import profiling

SCHEMA = "1.1.1-chakra.0.0.4"
_ROOT = 1


class _Operands:
    """Values, shapes and types of a call's operands; tensors by numbers."""

    def __init__(self):
        self.storages: dict = {}

    def describe(self, facts):
        """The three lists of some facts about arguments or results."""
        rows = [self._one(fact) for fact in facts or ()]
        columns = list(zip(*rows)) or [(), (), ()]
        return dict(zip(("values", "shapes", "types"), map(list, columns)))

    def _one(self, fact):
        if type(fact) is TensorFacts:
            storage = self.storages.setdefault(fact.address, len(self.storages) + 1)
            count, size = math.prod(fact.shape), fact.dtype.itemsize
            value = [storage, storage, fact.offset, count, size, "cpu"]
            return value, list(fact.shape), f"Tensor({fact.dtype.name})"
        if type(fact) is list:
            inner = [self._one(one) for one in fact]
            kinds = ",".join(row[2] for row in inner)
            values, shapes = [row[0] for row in inner], [row[1] for row in inner]
            return values, shapes, f"GenericList[{kinds}]"
        if fact is None or isinstance(fact, bool | int | float | str):
            return fact, [], type(fact).__name__.replace("NoneType", "None").title()
        return str(fact), [], "String"


def _attribute(name, kind, value):
    return {"name": name, "type": kind, "value": value}


def _node(number, name, parent, inputs, outputs, event=None):
    scope = 7 if event is None else event.scope
    attributes = [
        _attribute("rf_id", "uint64", number),
        _attribute("fw_parent", "uint64", 0),
        _attribute("seq_id", "int64", -1 if event is None else event.sequence_nr),
        _attribute("scope", "uint64", scope),
        _attribute("tid", "uint64", 0 if event is None else event.thread),
        _attribute("fw_tid", "uint64", 0 if event is None else event.fwd_thread or 0),
    ]
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": inputs,
        "outputs": outputs,
        "attrs": attributes,
    }


def trace_of(events):
    """The nodes of a recording, each with the number of the node that called it."""
    operands = _Operands()
    empty = operands.describe(())
    nodes = [
        _node(_ROOT, "[pytorch|profiler|execution_trace|process]", 0, empty, empty)
    ]
    numbers: dict = {}
    for event in events:
        if event.kind == MEMORY:
            continue
        number = numbers[id(event)] = len(nodes) + 1
        parent = numbers.get(id(event.cpu_parent), _ROOT)
        inputs = operands.describe(event.facts)
        outputs = operands.describe(event.results)
        nodes.append(_node(number, event.name, parent, inputs, outputs, event))
    return nodes


class ExecutionTraceObserver:
    """Writes what a program calls to a file, as JSON.

    >>> import rushlight as rl, tempfile, pathlib, json
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "trace.json"
    >>> observer = ExecutionTraceObserver().register_callback(path)
    >>> observer.start(); _ = rl.ones(2) + 1; observer.stop()
    >>> observer.unregister_callback()
    >>> [node["name"] for node in json.loads(path.read_text())["nodes"]][1:]
    ['aten::ones', 'aten::add']
    """

    def __init__(self):
        self._path = None
        self._running = False
        self._nodes: list = []
        self._started = 0

    @classmethod
    def build_execution_trace_obs_from_env(cls):
        """An observer where ``ENABLE_PYTORCH_EXECUTION_TRACE`` is 1; else None."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") not in ("1", "True"):
            return None
        folder = os.environ.get("PYTORCH_EXECUTION_TRACE_SAVE_DIR")
        handle, path = tempfile.mkstemp(suffix=".et.json", dir=folder)
        os.close(handle)
        return cls().register_callback(path)

    @property
    def is_registered(self):
        """Whether there is a file to write."""
        return self._path is not None

    def is_running(self):
        """Whether calls are being written down."""
        return self._running

    def register_callback(self, output_file_path):
        """Chooses the file, where none was chosen.

        Args:
            output_file_path: the file; one that ends in ``.gz`` is compressed.

        Returns:
            The observer.
        """
        if self._path is None:
            self._path = output_file_path
            self._nodes = []
        return self

    def get_output_file_path(self):
        """The file; None where none was chosen."""
        return self._path

    def start(self):
        """Writes down what this thread calls from now on.

        Raises:
            RuntimeError: a profiler records this thread.
        """
        if self._path is None or self._running:
            return
        if spans.is_recording():
            raise RuntimeError(
                "ExecutionTraceObserver: a profiler records this thread\n"
                "  remedy: hand the observer to it: "
                "profile(execution_trace_observer=...)"
            )
        profiling.configure(shapes=True, results=True)
        self._begin()
        spans.start()

    def _begin(self):
        self._running = True
        self._started = time.time_ns()

    def stop(self):
        """Ends that, and writes the file."""
        if self._running:
            self._take(spans.stop())

    def _take(self, rows):
        """Writes the rows of a recording, after those of earlier ones."""
        self._running = False
        if self._path is None:
            return
        self._nodes += trace_of(Collector(0).events(rows))[len(self._nodes) > 0 :]
        text = {
            "schema": SCHEMA,
            "pid": os.getpid(),
            "time": time.strftime("%Y-%m-%d %H:%M:%S"),
            "start_ts": self._started // 1000,
            "nodes": self._nodes,
            "finish_ts": time.time_ns() // 1000,
        }
        write_text(self._path, json.dumps(text, default=str))

    def unregister_callback(self):
        """Ends the writing, and lets go of the file's name."""
        self.stop()
        self._path = None

    cleanup = unregister_callback
