"""What compiled functions are wrapped in: they run as they are, and are followed."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import weakref
from collections import Counter

from rushlight._inductor import config
from rushlight.autograd.engine import when_ending
from rushlight.core.tensor import Tensor
from rushlight.graph import capture, logs

counters: dict = {
    "frames": Counter(),
    "stats": Counter(),
    "graph_break": Counter(),
    "inductor": Counter(),
}
_open = threading.local()  # the tape that a sweep has begun
_runners: weakref.WeakSet = weakref.WeakSet()
GRAPHED = ("reduce-overhead", "max-autotune")  # modes
END = "the function ends"
QUIET = (END, capture.OUTSIDE)  # not by what the program asks for


class Unsupported(RuntimeError):
    """A program cannot be one graph: it needs a value in the middle."""


def users_line():
    """The innermost line of the stack outside of the package: file, line, function."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("rushlight.", "torch.")) and name != "rushlight":
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return None


def of_our_own():
    """Whether it is a function of ours that looks at memory, not the program."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name in (
            "rushlight.operators.foreach.optimizer_updates",
            "rushlight.operators.batched_launch",
        ):
            return True
        if not name.startswith("rushlight."):
            return False
        frame = frame.f_back
    return False


def shown_line(line):
    """A line as tracebacks show it."""
    return f'File "{line[0]}", line {line[1]}, in {line[2]}' if line else "unknown line"


class Runner:
    """The paths of one compiled function, or of the sweeps back through one.

    Attributes:
        roots: default type, current card and count of replaced kernels -> the paths' root.
        name: what logs call it.
        fullgraph: whether leaving the graph is an error.
        backend: what makes a program of a graph; None for our own.
        mode: PyTorch's name of what is wanted of programs; some ask for graphs of a card's.
        settings: what of `rushlight._inductor.config` is otherwise for its programs.
        graphed: how many programs are launched as one.
    """

    def __init__(self, name, fullgraph=False, backend=None, mode=None, settings=None):
        self.roots: dict = {}
        self.name, self.fullgraph = name, fullgraph
        self.backend, self.mode = backend, mode
        self.settings = settings or {}
        self.graphed = 0
        self.backwards: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self.breaks: list = []
        self.graphs: list = []
        _runners.add(self)

    def noted(self, call):
        """A call was met for the first time."""
        call.notes = users_line()

    def branched(self, call):
        """A path is left: nothing noted goes on from here."""
        counters["frames"]["recompiled"] += 1
        if logs.recompiles.active:
            logs.recompiles.say(
                f"{self.name}: a new branch after {call.op} "
                f"({call.depth} operators), {shown_line(users_line())}"
            )

    def overflowed(self, call):
        """There are too many branches: the rest of the function is not followed."""
        line = shown_line(users_line())
        logs.recompiles.warn(
            f"{self.name}: {len(call.children)} branches at one place, which is the "
            f"most that are kept; the rest of the call is not compiled. {line}"
        )

    def ended(self, leaf, why):
        """A path that was noted ends."""
        if why not in QUIET and not of_our_own():
            self.broken(why)
        if self.backend is not None:
            self.make_noted(leaf)

    def make_noted(self, leaf):
        """Gives the graph of a noted path to the backend at once, as PyTorch does."""
        from rushlight.graph import to_fx

        noted = capture.noted_storages()
        if noted is None or not leaf.path:
            return
        storages, wanted = noted
        if wanted not in leaf.programs:
            program = to_fx.program(self, leaf, wanted, storages)
            leaf.keep_program(wanted, program)

    def broken(self, why):
        """Something needs what is waiting.

        Raises:
            Unsupported: the function was to be one graph.
        """
        line = users_line()
        self.breaks.append((why, line))
        counters["graph_break"][why] += 1
        if logs.graph_breaks.active:
            logs.graph_breaks.say(f"{self.name}: {why}\n  {shown_line(line)}")
        if self.fullgraph:
            raise Unsupported(
                f"torch.compile(fullgraph=True): {why} needs a value in the middle of "
                f"the graph\n  from user code: {shown_line(line)}"
            )

    def build(self, tape, leaf, wanted, why):
        """The program of a path that was followed to its end for the first time."""
        if why not in QUIET and self.fullgraph and not of_our_own():
            self.broken(why)
        if self.backend is not None:
            from rushlight.graph import to_fx

            return to_fx.program(self, leaf, wanted, tape.slots)
        from rushlight.graph import pipeline

        with config.patch(self.settings):
            made = pipeline.build(tape, leaf, wanted, self.name)
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += len(leaf.path)
        self.graphs.append(made)
        if self.mode not in GRAPHED:
            return made
        from rushlight.graph import cuda_graphs

        return cuda_graphs.graphed(made, self)

    def behind(self, leaf):
        """The runner of the sweeps back from a path."""
        found = self.backwards.get(leaf)
        if found is None:
            name = f"{self.name}, backward"
            found = Runner(name, False, self.backend, self.mode, self.settings)
            self.backwards[leaf] = found
        return found

    def forget(self):
        """Forgets all paths and programs."""
        self.roots = {}
        self.backwards = weakref.WeakKeyDictionary()
        self.breaks, self.graphs = [], []
        self.graphed = 0


def reset():
    """Forgets the paths and programs of all compiled functions."""
    capture.flush()
    for runner in list(_runners):
        runner.forget()
    for counter in counters.values():
        counter.clear()


def _tensors(result, found):
    """The tensors among a function's results."""
    if isinstance(result, Tensor):
        found.append(result)
    elif isinstance(result, (list, tuple)):
        for one in result:
            _tensors(one, found)
    elif isinstance(result, dict):
        for one in result.values():
            _tensors(one, found)
    elif hasattr(result, "__dict__") and not isinstance(result, type):
        for one in vars(result).values():
            if isinstance(one, (Tensor, list, tuple, dict)):
                _tensors(one, found)
    return found


def _follow_back(runner, grads):
    """A sweep has come to a graph that was followed: it is followed from here on."""
    if getattr(_open, "tape", None) is None:
        _open.tape = capture.begin(runner)


def _swept():
    """A sweep has ended."""
    tape = getattr(_open, "tape", None)
    if tape is not None:
        _open.tape = None
        capture.end(tape)


def watch_back(result, runner, leaf):
    """Has sweeps be followed that come back through a function's results."""
    behind = None
    for tensor in _tensors(result, []):
        try:
            node = tensor.grad_fn
        except RuntimeError:  # a view that was changed: refused where it is used
            continue
        if node is not None:
            if behind is None:
                behind = functools.partial(_follow_back, runner.behind(leaf))
            node.register_prehook(behind)


def run(runner, function, args, kwargs):
    """Calls a function, and follows it."""
    return capture.run(runner, function, args, kwargs, watch_back)


_ready: list = []


def make_runner(name, fullgraph=False, backend=None, mode=None, settings=None):
    """The runner of a function that is to be compiled."""
    if not _ready:
        capture.serve()
        importlib.import_module("rushlight.graph.module_replay")
        when_ending(_swept)
        _ready.append(True)
    return Runner(name, fullgraph, backend, mode, settings)


__all__ = ["Runner", "Unsupported", "counters", "make_runner", "reset", "run"]
