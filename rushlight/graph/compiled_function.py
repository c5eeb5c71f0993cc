"""What compiled functions are wrapped in: they run as they are, and are followed."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import weakref
from time import perf_counter_ns

from rushlight._inductor import config
from rushlight.autograd.engine import when_ending
from rushlight.core import logs, naming, spans
from rushlight.core.logs import counters, shown_line, users_line
from rushlight.core.tensor import Tensor
from rushlight.graph import capture
from rushlight.graph.compile_times import timed
from rushlight.graph.steps import step_of
from rushlight.graph.tape import Owner


class Sweep(threading.local):
    """What a thread's sweep back has begun: its tape, and who is told how long it takes."""

    tape = timed = None


_open = Sweep()
_runners: weakref.WeakSet = weakref.WeakSet()
GRAPHED = ("reduce-overhead", "max-autotune")  # modes
END = "the function ends"
TITLES = {  # PyTorch's first lines of errors, by what ends a graph
    "a part that is not compiled": "Skip calling `torch.compiler.disable()`d function",
    "torch._dynamo.graph_break()": "Call to `torch._dynamo.graph_break()`",
}
# where marks are on a tensor -> whether the sizes are to stay as they are
MARKS = {
    "_dynamo_dynamic_indices": 0,
    "_dynamo_weak_dynamic_indices": 0,
    "_dynamo_unbacked_indices": 0,
    "_dynamo_static_indices": 1,
}
QUIET = (END, capture.OUTSIDE)  # not by what the program asks for


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
        if not naming.is_own(name):
            return False
        frame = frame.f_back
    return False


def difference(call, op, args):
    """How a call differs from a noted one: the first argument that another has been."""
    if call.op is not op:
        return f"{op} where {call.op} was called"
    for name, value, item in zip(op.signature.names, call.values, args, strict=False):
        if isinstance(item, Tensor) and hasattr(value, "sizes"):
            for what, was, now in (
                ("type", value.dtype, item.dtype),
                ("size", value.sizes, tuple(item.shape)),
                ("stride", value.strides, item.stride()),
            ):
                if was != now:
                    return f"{op}: {shown_change(name, what, was, now)}"
        elif not isinstance(item, Tensor) and str(value) != str(item):
            return f"{op}: {name} is {item}, was {value}"
    return f"{op}: other tensors share memory than did"


def back_key(leaf):
    """What the sweeps back from paths of the same operators are found by."""
    return hash(tuple([call.op for call in leaf.path]))


def shown_change(name, what, was, now):
    """Which size of a tensor is another one, or which of what else it has."""
    if isinstance(was, tuple) and len(was) == len(now):
        at = next(d for d, pair in enumerate(zip(was, now)) if pair[0] != pair[1])
        return f"{what} of {name} at dimension {at} is {now[at]}, was {was[at]}"
    return f"{what} of {name} is {now}, was {was}"


class Limits:
    """How many branches are kept at one place; PyTorch's names (``torch._dynamo.config``).

    Attributes:
        recompile_limit: so many are noted at first sight, others when they come again.
        accumulated_recompile_limit: so many are kept.
        automatic_dynamic_shapes: whether sizes that were others before are open.
        suppress_errors: whether graphs that a backend fails at run as they are.
        error_on_recompile: whether a second program for a function's graph is an error.
        debug_dir_root: the folder of `rushlight.graph.debug_trace`.
    """

    automatic_dynamic_shapes = True
    error_on_recompile = suppress_errors = False

    recompile_limit = 8
    accumulated_recompile_limit = 256
    debug_dir_root = "torch_compile_debug"


class Runner(Owner):
    """The paths of one compiled function, or of the sweeps back through one.

    Attributes:
        roots: default type, current device, count of replaced kernels and switches -> the
            paths' root; ``last`` is the one that was taken last.
        name: what logs call it.
        fullgraph: whether leaving the graph is an error.
        backend: what makes a program of a graph; None for our own.
        mode: PyTorch's name of what is wanted of programs; some ask for graphs of a device's.
        settings: what of `rushlight._inductor.config` is otherwise for its programs.
        graphed: how many programs are launched as one.
        dynamic: False where each size is to have a path and program of its own.
        is_sweep: whether the paths are of sweeps back.
        families: paths that are alike but for a size (`rushlight.graph.open_sizes`).
        traces: of modules' calls at any sizes (`rushlight.graph.dynamic_replay`).
        trial: what times its calls (`rushlight.graph.savings`), or None.
        frozen: what is done about calls that no path has: nothing else than ever, or
            ``"eager"``: they run as they come, or ``"fail"``.
        sights: how often it was called while its first call was to run as it comes.
        passing: how many of the next calls run as they come, since `pays` said no.
        most: elements of an argument of the calls of which it did.
        others: runners of the function with other backends.
        sweeps: the backend of sweeps back, where that of forward graphs has one.
        lent: what a backend of somebody's own made of graphs, by their text.
        numbers, varying: what the last call was given that is no tensor, and which of it was
            otherwise before, for such a backend.
        marks: by storage and sizes, the dimensions of the last call's arguments that were
            marked as dynamic, and those marked as static.
        limits: see `Limits`; looked at when a branch is added.
    """

    def __init__(
        self,
        name,
        fullgraph=False,
        backend=None,
        mode=None,
        settings=None,
        limits=Limits,
        dynamic=None,
    ):
        self.roots: dict = {}
        self.name, self.fullgraph = name, fullgraph
        self.backend, self.mode = backend, mode
        self.settings = settings or {}
        self.limits = limits
        self.graphed = 0
        self.backwards: dict = {}
        self.families: list = []
        self.operator_traces: dict = {}
        self.sweeps = None
        self.frozen, self.sights, self.others = None, 0, {}
        self.passing, self.most, self.trial = 0, 0, None
        self.lent: dict = {}
        self.numbers, self.varying, self.marks = None, {}, {}
        self.dynamic = dynamic
        self.is_sweep = False
        self.breaks: list = []
        self.graphs: list = []
        _runners.add(self)

    def noted(self, call):
        """A call was met for the first time."""
        call.notes = users_line()

    def first_branches(self):
        """How many branches at one place are noted when they come for the first time.

        A backend of somebody's own and a function that is to be one graph have all.
        """
        if self.backend is not None or self.fullgraph:
            return sys.maxsize
        return max(self.limits.recompile_limit, 1)

    def most_branches(self):
        """How many branches are kept at one place."""
        return max(
            self.limits.recompile_limit, self.limits.accumulated_recompile_limit, 2
        )

    def lets_sizes_wait(self):
        """Whether other sizes of a small program have to come often before it is planned.

        A sweep back has its sizes from the calls before it, which have waited.
        """
        return (
            config.other_size_calls > 0
            and self.dynamic is None
            and self.backend is None
            and not self.is_sweep
            and not self.fullgraph
            and self.mode not in GRAPHED
        )

    def calls_of_waiting_sizes(self):
        """How often they have to come."""
        return config.other_size_calls

    def is_large(self, call):
        """Whether a path through a call is worth a program for each of a few sizes.

        It is where its calls give so much memory that running fewer of them pays.
        """
        made = sum([sum(one.sizes) for one in call.path])
        after = call.last_taken
        while after is not None and made < config.open_size_bytes:
            made += sum(after.sizes or ())
            after = after.last_taken
        return made >= config.open_size_bytes

    def pays(self, leaf, most):
        """Whether following takes no longer than programs save; None before it was timed.

        Python of several modules that is left out saves more than is counted there.

        Args:
            leaf: the last call of the path.
            most: elements of the largest argument.
        """
        from rushlight.graph import savings

        path = leaf.path
        root = path[0].parent if path else leaf
        if root not in self.roots.values() or not self.lets_sizes_wait():
            return True
        if not leaf.programs:
            return bool(path)
        modules = sum(bool(one.segments) for one in (root, *path[:-1]))
        if modules > 1 or modules and len(path) > 2 or not savings.on_host(leaf):
            return True
        followed = [leaf]
        if back_key(leaf) in self.backwards:
            followed += self.backwards[back_key(leaf)].taken_last()
        return savings.judged(followed, self, most, watch_time)

    def taken_last(self):
        """The calls that the paths with programs end in which were taken last."""
        found = []
        call = self.last and self.last.last_taken
        while call:
            if call.programs:
                found.append(call)
            call = call.last_taken
        return found

    def refuses(self):
        """Whether what is not known runs as it comes.

        Raises:
            RuntimeError: it was to be an error.
        """
        if self.frozen == "fail":
            file, number, _ = users_line()
            raise RuntimeError(
                "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
                f"filename: '{file}', function name: '{self.name}', line number: {number}"
            )
        return self.frozen is not None

    def branched(self, call, op, args):
        """Something else is called after a call than was noted there.

        Args:
            call: the place, which has branches.
            op: the operator.
            args: what it is given.
        """
        self.recompiles()
        spans.end(spans.begin(f"torch.compile: recompile {self.name}"))
        if logs.recompiles.active:
            logs.recompiles.say(
                f"{self.name}: a new branch at {call.depth} operators: "
                f"{difference(call.children[-1], op, args)}",
                line=True,
            )

    def recompiles(self):
        """A graph gets another program than those that it has.

        Raises:
            RecompileError: that was to be an error.
        """
        counters["frames"]["recompiled"] += 1
        if self.limits.error_on_recompile:
            from rushlight._dynamo.exc import RecompileError

            file, number, _ = users_line()
            name = self.name.rpartition(".")[2]
            raise RecompileError(f"Recompiling function {name} in {file}:{number}")

    def evicted(self, call):
        """Forgets the programs of a branch that made room for another."""
        gone = []
        todo = [call]
        while todo:
            call = todo.pop()
            todo += call.children
            if call.after is not None:
                todo.append(call.after)
            gone += call.programs.values()
        gone = [getattr(one, "program", one) for one in gone]
        self.graphs = [one for one in self.graphs if not any(one is g for g in gone)]

    def ended(self, leaf, why):
        """A path that was noted ends."""
        if why not in QUIET and not of_our_own():
            self.broken(why)
        if self.backend is not None:
            self.make_noted(leaf)

    def make_noted(self, leaf):
        """Gives the graph of a noted path to the backend at once, as PyTorch does."""
        noted = capture.noted_storages()
        if noted is None or not leaf.path:
            return
        storages, wanted, views = noted
        if wanted not in leaf.programs:
            program = self.of_backend(leaf, wanted, storages, views)
            leaf.keep_program(wanted, program)
            if not self.is_sweep and all(step_of(call).pure for call in leaf.path):
                program.give_again(storages)

    def of_backend(self, leaf, wanted, storages, views):
        """What a backend of somebody's own makes of a path."""
        from rushlight.graph import to_fx

        program = to_fx.program(self, leaf, wanted, storages, views)
        self.sweeps = getattr(program.function, "compile_backward", None)
        return program

    def broken(self, why):
        """Something needs what is waiting.

        Raises:
            Unsupported: the function was to be one graph.
        """
        line = users_line()
        self.breaks.append((why, line))
        counters["graph_break"][why] += 1
        spans.end(spans.begin(f"torch.compile: graph break in {self.name}: {why}"))
        if logs.graph_breaks.active:
            logs.graph_breaks.say(f"{self.name}: {why}\n  {shown_line(line)}")
        if self.fullgraph:
            from rushlight._dynamo.exc import Unsupported

            title = f"{TITLES[why]}\n  " if why in TITLES else ""
            raise Unsupported(
                f"{title}torch.compile(fullgraph=True): {why} needs a value in the middle "
                f"of the graph\n  from user code: {shown_line(line)}"
            )

    def build(self, tape, leaf, wanted, why):
        """The program of a path that was followed to its end for the first time."""
        if why not in QUIET and self.fullgraph and not of_our_own():
            self.broken(why)
        if self.backend is not None:
            return self.of_backend(leaf, wanted, tape.slots, tape.views)
        made = self.made(tape, leaf, wanted)
        self.counted(len(leaf.path))
        self.graphs.append(made)
        if self.mode not in GRAPHED:
            return made
        from rushlight.graph import cuda_graphs

        return cuda_graphs.graphed(made, self)

    def counted(self, calls):
        """Counts a graph of some calls; what is compiled of a function is a frame."""
        counters["frames"]["total"] += 1
        counters["frames"]["ok"] += 1
        counters["stats"]["calls_captured"] += calls
        counters["stats"]["unique_graphs"] += 1

    def with_backend(self, backend):
        """The runner of the same function with another backend."""
        found = self.others.get(backend)
        if found is None:
            chosen = None if isinstance(backend, str) else backend
            how = self.mode, self.settings, self.limits, self.dynamic
            found = self.others[backend] = Runner(
                self.name, self.fullgraph, chosen, *how
            )
        return found

    def made(self, tape, leaf, wanted):
        """The program of a path: by a family's plan, or by one of its own."""
        from rushlight.graph import open_sizes

        if leaf.opened_by is not None:
            family, size = leaf.opened_by
            if family.wanted == wanted:
                counters["stats"]["opened_programs"] += 1
                return family.program(leaf, size)
        if self.families:
            program = open_sizes.program_of_family(self, tape, leaf, wanted)
            if program is not None:
                counters["stats"]["opened_programs"] += 1
                return program
        token = spans.begin(f"torch.compile: {self.name}")
        part = "backward" if self.name.endswith(", backward") else "frame"
        try:
            with timed(f"entire_{part}_compile"):
                return self.planned(tape, leaf, wanted)
        finally:
            spans.end(token)

    def planned(self, tape, leaf, wanted):
        """The program of a path that is planned for itself."""
        from rushlight.graph import debug_trace, open_sizes, pipeline

        with config.patch(self.settings):
            graph, items = pipeline.plan(tape, leaf, wanted, self.name)
            program = pipeline.build(graph, items, self.name)
            debug_trace.write_trace(self, tape, leaf, wanted, program)
        if self.opens_sizes():
            open_sizes.learn(self, tape, leaf, wanted, program, items)
        return program

    def called_with(self, args, kwargs):
        """Takes note of a call's numbers that are others than before, and of marked sizes."""
        items = (*args, *sorted(kwargs.items()))
        self.marks = {}
        for one in _tensors(items, []):
            if "_has_dynamo_dim_marking" in vars(one):
                found = [set(), set()]
                for name, place in MARKS.items():
                    found[place].update(vars(one).get(name, ()))
                self.marks[id(one.untyped_storage()), tuple(one.shape)] = found
        numbers = dict(_numbers(items))
        if self.dynamic:
            self.varying = numbers
        elif self.numbers is not None:
            for place in [*self.varying]:
                self.varying[place] = numbers.get(place)
            for place, one in numbers.items():
                if place in self.numbers and self.numbers[place] != one:
                    self.varying[place] = one
        self.numbers = numbers

    def open_numbers(self, sizes):
        """Numbers that are arguments of a backend's graphs when they come the first time.

        Args:
            sizes: of the graph's inputs.
        """
        if not self.opens_sizes():
            return []
        known = [*self.varying.values()]
        if self.dynamic:
            known += [size for one in sizes for size in one if size > 1]
        return known

    def opens_sizes(self):
        """Whether paths for sizes that were not met are made of some that were."""
        asked = self.limits.automatic_dynamic_shapes or self.dynamic
        return bool(asked) and self.dynamic is not False and self.mode not in GRAPHED

    def follow_backward(self, leaf):
        """The runner of the sweeps back from a path, and from others of its calls."""
        key = back_key(leaf)
        found = self.backwards.get(key)
        if found is None:
            name = f"{self.name}, backward"
            how = self.mode, self.settings, self.limits, self.dynamic
            found = Runner(name, False, self.sweeps, *how)
            found.is_sweep = True
            found.varying = self.varying
            self.backwards[key] = found
        return found

    def forget(self):
        """Forgets all paths and programs."""
        self.roots, self.last = {}, None
        self.backwards, self.families, self.lent = {}, [], {}
        self.operator_traces = {}
        self.breaks, self.graphs = [], []
        self.graphed = self.sights = self.passing = self.most = 0
        self.others, self.numbers, self.varying, self.trial = {}, None, {}, None


def reset():
    """Forgets the paths and programs of all compiled functions."""
    capture.flush()
    for runner in list(_runners):
        runner.forget()
    for counter in counters.values():
        counter.clear()


def _numbers(items, place=()):
    """The numbers in a nest of arguments, each with where it is."""
    for at, one in items.items() if isinstance(items, dict) else enumerate(items):
        if type(one) in (int, float):
            yield (*place, at), one
        elif type(one) in (list, tuple, dict):
            yield from _numbers(one, (*place, at))


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


def _follow_back(runner):
    """A sweep has come to a graph that was followed: it is followed from here on."""
    if _open.tape is None:
        capture.begin(runner, _open)


def _swept():
    """A sweep has ended."""
    tape, timed = _open.tape, _open.timed
    if tape is not None:
        _open.tape = None
        capture.end(tape)
    if timed is not None:
        _open.timed = None
        record, begun = timed
        record(perf_counter_ns() - begun)


def _time_back(record, begin):
    """A sweep has come to the results of a call that is timed."""
    if _open.timed is None:
        _open.timed = record, perf_counter_ns()
    if begin is not None:
        begin()


def watch_time(result, record):
    """Has sweeps be timed that come back through a function's results."""
    for node in nodes_of(result):
        node.reached = functools.partial(_time_back, record, node.reached)


def nodes_of(result):
    """The nodes of the graph that gave a function's results."""
    for tensor in (result,) if type(result) is Tensor else _tensors(result, []):
        try:
            node = tensor.grad_fn
        except RuntimeError:  # a view that was changed: refused where it is used
            continue
        if node is not None:
            yield node


def watch_back(result, runner, leaf):
    """Has sweeps be followed that come back through a function's results."""
    for node in nodes_of(result):
        if runner.backend is not None and runner.sweeps is None:
            return  # a function for forward graphs alone: sweeps run as they come
        if leaf.follow_backward is None:
            back = runner.follow_backward(leaf)
            leaf.follow_backward = functools.partial(_follow_back, back)
        if node.reached is None:
            node.reached = leaf.follow_backward


def run(runner, function, args, kwargs):
    """Calls a function, and follows it."""
    return capture.run(runner, function, args, kwargs, watch_back)


_ready: list = []


def make_runner(name, *how, **more):
    """The runner of a function that is to be compiled; see `Runner`."""
    if not _ready:
        capture.serve()
        importlib.import_module("rushlight.graph.dynamic_replay")
        when_ending(_swept)
        _ready.append(True)
    return Runner(name, *how, **more)
