"""What the operators of PyTorch's database launch on an imagined card: threads, arguments.

Nothing is compiled and nothing runs: every entry is a handle, and a launch is noted. So the
samples may be large, what waits for numbers of the card reads zeros, and what a launch would
do with those is not seen.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import warnings
import zlib
from array import array
from itertools import islice
from unittest import mock

import rushlight as rl
from rushlight.codegen.schedule.gpu_lowering import MOST_DATA, MOST_INTS
from rushlight.dispatch import launch_cache
from rushlight.runtime.cuda import device_kernel
from rushlight.runtime.cuda.device_kernel import DeviceKernel
from tests.cuda.driver import FAR, CUfunction, CUresult, Work
from tests.cuda.sweep import RANDOM, converted, function_of, tensors_of

MOST_OF_A_THREAD = 32  # elements: a row that is shorter may be a thread's
MOST_OF_A_JOINT_THREAD = 128  # of a row that a block has to itself; see `LONG`
ENOUGH = 1 << 15  # threads
PIECE = 512  # bytes that the allocator gives at least
LARGE, LARGEST = 1 << 12, 1 << 22  # elements of a sample
SIZES = {"XS": 6, "S": 32, "M": 33, "L": 34}


class Counter:
    """What is launched, without running it."""

    def __init__(self, machine):
        self.machine = machine
        self.launches: list = []  # names, threads, and elements of each
        self.most = None  # threads of the next launch that have something to do
        self.numbers: dict = {}  # bytes of them that an elementwise entry is given
        self.blocks: list = []  # what launches are given, in their order

    def handle(self, kernel, ctx, layout, entry, build, shared=0):
        """A driver's handle of an entry that is never made."""
        key = kernel, layout
        if key not in ctx.handles:
            made = CUfunction(self.machine.fake, name=entry)
            ctx.handles[key] = int(made)
            ctx.block_limits[int(made)] = 256 if "float64" in entry else 512
            if isinstance(layout[0], int) and len(layout) == 4:
                self.numbers[int(made)] = 16 * len(layout[1])
        return ctx.handles[key]

    def launch(self, function, grid, block, shared, stream, params):
        """Notes a launch."""
        threads = grid[0] * grid[1] * grid[2] * block[0]
        name = self.machine.fake.known(CUfunction, function).name
        self.blocks.append((name, grid, block, shared, self.given(function, params)))
        each = MOST_OF_A_THREAD if self.most else MOST_OF_A_JOINT_THREAD
        self.launches.append((name, min(threads, self.most or threads), each))
        return 0

    def given(self, function, params):
        """A launch's argument block: addresses, integers, numbers, and its length."""
        at = ctypes.cast(params, ctypes.POINTER(ctypes.c_void_p))
        sizes = [8 * MOST_DATA, 8 * MOST_INTS, 8, 8]
        if function in self.numbers:
            sizes[2] = self.numbers[function]
        elif "lists" in self.machine.fake.known(CUfunction, function).name:
            return None  # tables by value
        return [ctypes.string_at(at[n], size) for n, size in enumerate(sizes)]

    def blocks_of(self, operands):
        """The blocks so far; where memory lies that is not the operands' is chance."""
        rooms = [x.untyped_storage() for x in operands]
        spans = [(room.data_ptr(), room.data_ptr() + room.nbytes()) for room in rooms]

        def name(address):
            if any(low <= address < high for low, high in spans):
                return address
            return address % PIECE if address >= FAR else 0  # a flag's, on the host

        return [
            (*launch, given and [[name(a) for a in array("Q", given[0])], *given[1:]])
            for *launch, given in self.blocks
        ]

    @contextlib.contextmanager
    def bounded(self, most):
        """Launches with so many threads that have something to do."""
        self.most = most
        try:
            yield
        finally:
            self.most = None


@contextlib.contextmanager
def counting(machine, monkeypatch):
    """A `Counter` in place of compiler and driver."""
    machine.start(memory=1 << 31)
    counter = Counter(machine)
    spans, rows = DeviceKernel.run_spans, DeviceKernel.run_rows

    def run_spans(self, ctx, addresses, ints, total, chunk=1):
        with counter.bounded(-(-total // chunk)):
            return spans(self, ctx, addresses, ints, total, chunk)

    def plan_rows(self, ctx, addresses, ints, count, length, strided=False, held=()):
        alone = length < device_kernel.WARP or (strided and count >= device_kernel.MANY)
        with counter.bounded(count if alone else None):
            return rows(self, ctx, addresses, ints, count, length, strided, held)

    def copy_bytes(target, source, size, stream):
        if target < FAR:  # what nobody computed is nought
            ctypes.memset(target, 0, size)
        return (CUresult.CUDA_SUCCESS,)

    put = machine.fake.put

    def put_nothing(stream, work):
        libraries = {"cublasLt", "cudnn", "cusolver", "cublas", "cufft"}
        if work.what in libraries:
            counter.launches.append((work.what, sys.maxsize, 1))
            work = Work(lambda: None, work.waits, work.what)
        return put(stream, work)

    monkeypatch.setattr(DeviceKernel, "handle", lambda *a, **k: counter.handle(*a, **k))
    monkeypatch.setattr(DeviceKernel, "run_spans", run_spans)
    monkeypatch.setattr(DeviceKernel, "run_rows", plan_rows)
    monkeypatch.setattr(machine.fake, "cuMemcpyAsync", copy_bytes)
    monkeypatch.setattr(machine.fake, "launch", counter.launch)
    monkeypatch.setattr(machine.fake, "put", put_nothing)
    yield counter


@functools.cache
def sized_modules():
    """What PyTorch's modules that make samples have named, sizes among it."""
    import torch.testing._internal.common_methods_invocations  # noqa: F401

    names = [
        name for name in sys.modules if name.startswith("torch.testing._internal.")
    ]
    return [
        vars(sys.modules[name]) for name in names if hasattr(sys.modules[name], "S")
    ]


@contextlib.contextmanager
def larger_samples():
    """PyTorch's samples with other sizes than 3, 5, 10 and 20."""
    import torch

    before = [
        {name: room[name] for name in SIZES if name in room} for room in sized_modules()
    ]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # each sample is small
    for room, names in zip(sized_modules(), before, strict=True):
        room.update({name: SIZES[name] for name in names})
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        for room, names in zip(sized_modules(), before, strict=True):
            room.update(names)


def tensors_in(values):
    """The tensors of PyTorch's arguments."""
    from torch.utils._pytree import tree_leaves

    return [v for v in tree_leaves(values) if hasattr(v, "numel")]


def size_of(sample):
    """The elements of a sample's largest tensor."""
    found = tensors_in((sample.input, *sample.args, sample.kwargs))
    return max((t.numel() for t in found), default=0)


def drawn(op, dtype):
    """The first samples of an operator: some are made long after those that are large."""
    large, learns = 0, op.supports_autograd and dtype.is_floating_point
    for sample in islice(op.sample_inputs("cpu", dtype, learns), 20):
        yield sample
        large += size_of(sample) >= LARGE
        if large == 2:
            return


def largest_samples(op, dtype, most):
    """The largest samples of an operator, of other sizes where PyTorch can make those."""
    made = []
    # each sample's seed is noted with its stack, which is most of a sample's time
    with mock.patch("traceback.format_stack", list):
        with larger_samples(), contextlib.suppress(Exception):
            made.extend(drawn(op, dtype))
        made = made or list(drawn(op, dtype))
    made = [sample for sample in made if size_of(sample) <= LARGEST]
    return sorted(made, key=size_of, reverse=True)[:most]


def arguments_of(sample):
    """A sample's arguments on a card, by position and by name."""
    args = [converted(v, "cuda") for v in (sample.input, *sample.args)]
    return args, {name: converted(v, "cuda") for name, v in sample.kwargs.items()}


def counted(counter, sample, function):
    """For a call, and for its gradient: which, its elements, and its launches."""
    args, kwargs = arguments_of(sample)
    leaves = tensors_of([args, list(kwargs.values())])
    known = tensors_in((sample.input, list(sample.args), sample.kwargs))
    for ours, theirs in zip(leaves, known, strict=True):
        ours.requires_grad_(theirs.requires_grad)
    counter.launches.clear()
    found = tensors_of(function(*args, **kwargs))
    size = max((t.numel() for t in (*leaves, *found)), default=0)
    yield "forward", size, list(counter.launches)
    ends = [t for t in found if t.requires_grad]
    if ends:
        slopes = [rl.ones_like(t) for t in ends]
        counter.launches.clear()
        rl.autograd.backward(ends, slopes)
        yield "backward", size, list(counter.launches)


def argument_blocks(counter, sample, function):
    """What launches of a call are given by its plan, and by its function."""
    args, kwargs = arguments_of(sample)
    function(*args, **kwargs)  # makes what is kept, and a plan
    found = []
    for forget in (lambda: None, launch_cache.forget):
        forget()
        counter.blocks.clear()
        function(*args, **kwargs)
        found.append(counter.blocks_of(tensors_of([args, list(kwargs.values())])))
    return found


def is_spread(size, launches):
    """Whether the launch of most threads has enough of them for so many elements.

    Copies are work of an operator that does nothing else.
    """
    chosen = [row for row in launches if not row[0].startswith("copy__")] or launches
    most = max(threads * each for _, threads, each in chosen)
    return most >= min(size, ENOUGH)


def part_of(name, parts):
    """Which part of the operators one belongs to."""
    return zlib.crc32(name.encode()) % parts


def calls_of_part(part, parts):
    """A part of the operators: each with our function and samples."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        function = function_of(op.name)
        if part_of(op.name, parts) != part or function is None or not op.dtypes:
            continue
        dtype = torch.float32 if torch.float32 in op.dtypes else min(op.dtypes, key=str)
        yield op, function, largest_samples(op, dtype, 2)


def counted_calls(counter, part, parts):
    """What a part of the operators launch: too little, or nothing that was seen.

    Returns:
        Calls whose launches have too few threads, with those; names of operators of which
        no call was right; how many calls launched something.
    """
    few, uncounted, number = {}, set(), 0
    for op, function, samples in calls_of_part(part, parts):
        failed = 0
        for sample in samples:
            try:
                with warnings.catch_warnings(action="ignore"):
                    calls = list(counted(counter, sample, function))
            except Exception:
                failed += 1
                continue
            for which, size, launches in calls:
                number += bool(launches)
                if launches and not is_spread(size, launches):
                    few[f"{op.name} {which}"] = size, launches
        if samples and failed == len(samples):
            uncounted.add(op.name)
    return few, uncounted, number


def unlike_plans(counter, part, parts):
    """Operators of a part whose plans launch with other arguments than their functions."""
    unlike, number = {}, 0
    for op, function, samples in calls_of_part(part, parts):
        if RANDOM.search(op.name) or "multi_head" in op.name:  # a stream goes on
            continue
        for sample in samples:
            with (
                warnings.catch_warnings(action="ignore"),
                contextlib.suppress(Exception),
            ):
                plan, known = argument_blocks(counter, sample, function)
                number += len(known)
                if plan != known:
                    unlike[op.name] = plan, known
    return unlike, number
