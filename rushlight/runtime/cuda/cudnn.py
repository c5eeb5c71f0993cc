"""Convolutions on a device by cuDNN: a graph of one for each geometry, and plans to run it.

A graph is described by sizes and steps, with no address in it; the library says which of
its engines can run it, the switches of `rushlight.backends.cudnn` say which of those may,
and the first of them, or the fastest where `benchmark` is on, is kept with the device.
"""

import math
import threading
from typing import NamedTuple

from rushlight.core.roles import switches
from rushlight.core.window import address_of
from rushlight.runtime.cuda import contexts
from rushlight.runtime.cuda.libraries import CUDNN, queue
from rushlight.utils import deterministic

# The frontend hands factors of sums over as float32, where float64 wants them as its own.
TYPES = {"float16": "HALF", "bfloat16": "BFLOAT16", "float32": "FLOAT"}
RESULT, FIRST, SECOND, VECTOR = 1, 2, 3, 4  # what tensors of a graph are known by
KEPT = 512  # plans that a device remembers
ALIGNED = 16  # bytes: what the library takes for granted of an address
MOST = 1 << 31  # elements of a tensor whose places fit 32 bits
WORKSPACE = 1 << 30  # bytes that a plan may work in
TIMED_RUNS = 2  # runs of a plan that is timed: the first one warms it


class Problem(NamedTuple):
    """What the library is asked for, but for addresses.

    Attributes:
        kind: ``forward``, or whose gradient is wanted: ``input`` or ``weight``.
        dtype: of all tensors.
        result, first, second: the sizes of tensors.
        last: whether channels are the last in memory.
        biased: whether a value is added for each channel.
        stride, padding, dilation: for each dimension of space.
        short: whether float32 may be rounded to TF32.
        deterministic: whether sums must have one order.
        timed: whether the fastest plan is wanted, not the first.
    """

    kind: str
    dtype: str
    result: tuple
    first: tuple
    second: tuple
    last: bool
    biased: bool
    stride: tuple
    padding: tuple
    dilation: tuple
    short: bool
    deterministic: bool
    timed: bool

    @property
    def sizes(self):
        """Of the result and of both operands."""
        return self.result, self.first, self.second


def strides(sizes, last):
    """The steps of a dense tensor, with channels first or last.

    >>> strides((2, 3, 4, 5), False), strides((2, 3, 4, 5), True)
    ([60, 20, 5, 1], [60, 1, 15, 3])
    """
    order = [0, *range(2, len(sizes)), 1] if last else list(range(len(sizes)))
    found, step = [0] * len(sizes), 1
    for dim in reversed(order):
        found[dim] = step
        step *= sizes[dim]
    return found


def planar(values, fill):
    """Values of at least two dimensions of space: lines are planes of one row."""
    return (fill, *values) if len(values) == 1 else tuple(values)


def with_rows(sizes):
    """Sizes of a tensor in two or three dimensions of space."""
    return (*sizes[:2], *planar(sizes[2:], 1))


def takes(dtype):
    """Whether the library is there, may be used, and knows a dtype by its name."""
    return switches.cudnn.enabled and dtype in TYPES and CUDNN.present()


def run(ctx, kind, result, first, second, vector, last, stride, padding, dilation):
    """Has the library convolve, in this thread's queue; False where it does not.

    Takes what `rushlight.core.device.Backend.run_convolution` takes.
    """
    cudnn, dtype = switches.cudnn, result.dtype.name
    key = (
        threading.get_ident(),
        *(kind, dtype, result.shape, first.shape, second.shape),
        *(last, vector is not None, stride, padding, dilation),
        dtype == "float32" and cudnn.conv.fp32_precision == "tf32",
        *(must_repeat(cudnn), cudnn.benchmark),
    )
    given = {
        RESULT: address_of(result),
        FIRST: address_of(first),
        SECOND: address_of(second),
    }
    if vector is not None:
        given[VECTOR] = address_of(vector)
    settings = last, stride, padding, dilation
    if any([address % ALIGNED for address in given.values()]):
        copies = [None if t is None else aligned(t) for t in (first, second, vector)]
        return run(ctx, kind, result, *copies, *settings)
    try:
        plan = ctx.convolutions[key]
    except KeyError:
        plan = plan_for(ctx, key, given, cudnn.benchmark_limit or MOST)
    if plan is not None:
        plan.run(ctx, given)
        return True
    if vector is None or not run(ctx, kind, result, first, second, None, *settings):
        return False
    result.add_(vector.reshape(-1, *[1] * len(stride)))
    return True


def must_repeat(cudnn):
    """Whether every run must have the same bits."""
    return cudnn.deterministic or deterministic.asked() > 0


def aligned(tensor):
    """The tensor, or a copy of one that begins between two of the library's words."""
    return tensor.clone() if address_of(tensor) % ALIGNED else tensor


class ExecutionPlan:
    """A graph with the engine that runs it, for one thread.

    Raises:
        RuntimeError: no engine can, or may.
    """

    def __init__(self, ctx, problem):
        if any(math.prod(sizes) not in range(1, MOST) for sizes in problem.sizes):
            raise RuntimeError("cuDNN: places of a tensor that fit no 32 bits, or none")
        self.handle = CUDNN.handle(ctx)
        self.index = None  # of the plan that was the fastest; None for the first
        self.graph = described(ctx, self.handle, problem)
        self.step(ctx, "validate")
        self.step(ctx, "build_operation_graph")
        modes = CUDNN.bindings().heur_mode
        self.step(ctx, "create_execution_plans", [modes.A, modes.FALLBACK])
        self.step(ctx, "deselect_numeric_notes", refused_notes(problem))
        if problem.biased and not problem.timed:  # a sum of its own is there at once
            compiled = CUDNN.bindings().behavior_note.RUNTIME_COMPILATION
            self.step(ctx, "deselect_behavior_notes", [compiled])
        self.step(ctx, "deselect_workspace_greater_than", WORKSPACE)
        self.step(ctx, "check_support")
        policy = CUDNN.bindings().build_plan_policy
        how = policy.ALL if problem.timed else policy.HEURISTICS_CHOICE
        self.step(ctx, "build_plans", how)
        self.n_bytes = 0
        if not problem.timed:
            self.n_bytes = int(self.step(ctx, "get_workspace_size"))

    def step(self, ctx, name, *args, **named):
        """Calls a function of the graph."""
        return CUDNN.call(ctx, getattr(self.graph, name), *args, **named)

    def run(self, ctx, given):
        """Puts the work into this thread's queue.

        Args:
            given: the addresses of tensors, by what those are known by.
        """
        handle = CUDNN.handle(ctx)  # names the queue
        # given back at once: what comes later in the queue may use it
        room = ctx.allocator.allocate(self.n_bytes, queue(ctx)) if self.n_bytes else 0
        try:
            if self.index is None:
                CUDNN.call(ctx, self.graph.execute, given, room, handle=handle)
            else:
                named = given, room, self.index
                self.step(ctx, "execute_plan_at_index", *named, handle=handle)
        finally:
            if room:
                ctx.allocator.free(room)

    def choose(self, ctx, given, most):
        """Times plans and keeps the fastest.

        Raises:
            RuntimeError: none of them ran.
        """
        found = []
        count = int(self.step(ctx, "get_execution_plan_count"))
        for index in range(min(count, most)):
            self.index = index
            n_bytes = self.step(ctx, "get_workspace_size_plan_at_index", index)
            self.n_bytes = int(n_bytes)
            try:
                found.append((self.time(ctx, given), index, self.n_bytes))
            except RuntimeError:  # one that the library could not build after all
                continue
        if not found:
            raise RuntimeError("cuDNN: no plan runs")
        _, self.index, self.n_bytes = min(found)

    def time(self, ctx, given):
        """The milliseconds of a run."""
        from rushlight.runtime.cuda.streams import Event

        stream = contexts.current_stream(ctx)
        for _ in range(TIMED_RUNS):
            begin, end = Event(ctx, True), Event(ctx, True)
            begin.record(stream)
            self.run(ctx, given)
            end.record(stream)
        end.synchronize()
        return begin.elapsed(end)


def described(ctx, handle, problem):
    """The graph of a problem."""
    kinds = CUDNN.bindings().data_type
    element = getattr(kinds, TYPES[problem.dtype])
    shapes = [with_rows(sizes) for sizes in problem.sizes]
    sums = kinds.FLOAT
    graph = CUDNN.call(
        *(ctx, "pygraph"), name=f"convolution_{problem.kind}", io_data_type=element,
        intermediate_data_type=sums, compute_data_type=sums, handle=handle,
    )  # fmt: skip

    def tensor(uid, sizes, name):
        return CUDNN.call(
            *(ctx, graph.tensor), dim=list(sizes), stride=strides(sizes, problem.last),
            data_type=element, name=name, uid=uid,
        )  # fmt: skip

    # What the operands are called is part of the interface: see the table.
    function, names = OPERATIONS[problem.kind]
    given = {
        name: tensor(uid, sizes, name)
        for name, uid, sizes in zip(names, (FIRST, SECOND), shapes[1:], strict=True)
    }
    padding = list(planar(problem.padding, 0))
    result = CUDNN.call(
        *(ctx, getattr(graph, function)), **given, pre_padding=padding,
        post_padding=padding, stride=list(planar(problem.stride, 1)),
        dilation=list(planar(problem.dilation, 1)), compute_data_type=sums,
        name=problem.kind,
    )  # fmt: skip
    sizes = list(shapes[0])
    if problem.biased:
        result.set_dim(sizes).set_stride(strides(sizes, problem.last))
        around = [1] * (len(sizes) - 2)
        vector = tensor(VECTOR, (1, sizes[1], *around), "bias")
        result = CUDNN.call(
            ctx,
            graph.bias,
            input=result,
            bias=vector,
            compute_data_type=sums,
            name="add",
        )
    result.set_output(True).set_dim(sizes).set_stride(strides(sizes, problem.last))
    result.set_uid(RESULT).set_data_type(element)
    return graph


OPERATIONS = {
    "forward": ("conv_fprop", ("image", "weight")),
    "input": ("conv_dgrad", ("loss", "filter")),
    "weight": ("conv_wgrad", ("image", "loss")),
}


def refused_notes(problem):
    """What engines may not do, by the library's words for it."""
    notes = CUDNN.bindings().numerical_note
    found = []
    if problem.dtype == "float32":
        found.append(notes.DOWN_CONVERT_INPUTS)
        if not problem.short:
            found.append(notes.TENSOR_CORE)
    if problem.deterministic:
        found.append(notes.NONDETERMINISTIC)
    return found


def plan_for(ctx, key, given, most):
    """A thread's plan of a problem, made now and kept; None if there is none.

    Args:
        key: of the plan: the thread, and what a `Problem` has.
        given: the addresses of tensors, by what those are known by.
        most: how many plans are timed.
    """
    problem = Problem(*key[1:])
    if problem.timed and contexts.current_stream(ctx).capturing():  # it cannot wait
        key = (key[0], *problem._replace(timed=False))
        return ctx.convolutions.get(key) or plan_for(ctx, key, given, most)
    try:
        plan = ExecutionPlan(ctx, problem)
        if problem.timed:
            plan.choose(ctx, given, most)
    except RuntimeError:  # nothing of the library's runs it: ours does
        plan = None
    with ctx.lock:
        ctx.convolutions[key] = plan
        while len(ctx.convolutions) > KEPT:
            ctx.convolutions.popitem(last=False)
    return plan
