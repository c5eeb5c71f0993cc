"""Paired timing: two callables in turn, many times, and the medians of both."""

import gc
import math
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

import rushlight

LIBRARIES = rushlight, torch


@dataclass(frozen=True)
class Case:
    """One call in both libraries.

    ``make(library)`` returns a function without arguments that makes the call.
    """

    name: str
    make: Callable


@dataclass(frozen=True)
class Group:
    """One row of the table: cases that share a bound on the ratio of the times."""

    title: str
    bound: float
    cases: list[Case]


@dataclass(frozen=True)
class Timing:
    """Seconds of one call in both libraries, and the error where ours failed."""

    name: str
    ours: float
    theirs: float
    fault: str = ""

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


@dataclass
class Result:
    """A group's timings, for one number of threads."""

    group: Group
    timings: list[Timing] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The geometric mean of the ratios."""
        good = [math.log(t.ratio) for t in self.timings if not t.fault]
        return math.exp(statistics.fmean(good)) if good else math.nan

    @property
    def worst(self) -> Timing | None:
        good = [timing for timing in self.timings if not timing.fault]
        return max(good, key=lambda timing: timing.ratio, default=None)


def loops_for(call: Callable, least: float) -> int:
    """How many calls take at least ``least`` seconds together."""
    loops = 1
    while True:
        elapsed = run(call, loops)
        if elapsed >= least or loops >= 1 << 20:
            return loops
        loops = max(loops + 1, math.ceil(loops * 1.2 * least / max(elapsed, 1e-7)))


SETTLE = 0.001  # seconds
MOST_SETTLES = 500
FEWEST = 5  # samples of slow calls


def others_run() -> bool:
    """Whether another thread of this process runs now, as Linux says it."""
    own = str(threading.get_native_id())
    for stat in Path("/proc/self/task").glob("*/stat"):
        try:
            state = stat.read_text().rpartition(")")[2].split()[0]
        except OSError:  # the thread has ended
            continue
        if state == "R" and stat.parent.name != own:
            return True
    return False


def settle() -> None:
    """Waits until no other thread of this process runs.

    Threads of PyTorch look for work for some milliseconds after a call, those of ONNX Runtime
    for 35: beside them, a call on as many threads as there are cores has one core less.
    """
    for _ in range(MOST_SETTLES):
        if not others_run():
            return
        time.sleep(SETTLE)


def run(call: Callable, loops: int) -> float:
    settle()
    call()
    start = time.perf_counter()
    for _ in range(loops):
        call()
    return time.perf_counter() - start


def measure(case: Case, quick: bool) -> Timing:
    """Medians over alternating samples of both libraries, fewer where calls are slow."""
    least, rounds, enough = (0.002, 9, 1.0) if quick else (0.005, 25, 10.0)
    try:
        ours = case.make(rushlight)
        ours()
    except Exception as error:
        words = str(error).splitlines() or [""]
        return Timing(
            case.name, math.nan, math.nan, f"{type(error).__name__}: {words[0]}"
        )
    theirs = case.make(torch)
    for call in ours, theirs:
        for _ in range(3):
            call()
    pairs = [(ours, loops_for(ours, least)), (theirs, loops_for(theirs, least))]
    samples: list[list[float]] = [[], []]
    gc.collect()
    gc.disable()
    try:
        end = time.perf_counter() + enough
        for i in range(rounds):
            if i >= FEWEST and time.perf_counter() > end:
                break
            for j in (0, 1) if i % 2 else (1, 0):
                call, loops = pairs[j]
                samples[j].append(run(call, loops) / loops)
    finally:
        gc.enable()
    return Timing(case.name, *(statistics.median(column) for column in samples))


def set_threads(count: int) -> None:
    """The same number of threads in both libraries."""
    for library in LIBRARIES:
        library.set_num_threads(count)


def run_group(group: Group, threads: int, quick: bool) -> Result:
    """Every case of a group with this many threads."""
    set_threads(threads)
    result = Result(group)
    for case in group.cases:
        timing = measure(case, quick)
        result.timings.append(timing)
        print(f"  {describe(timing)}", flush=True)
    return result


def describe(timing: Timing) -> str:
    """A timing as a line of text."""
    if timing.fault:
        return f"{timing.name:44} {timing.fault}"
    return (
        f"{timing.name:44} {duration(timing.ours):>9} {duration(timing.theirs):>9} "
        f"{timing.ratio:6.2f}"
    )


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them.

    >>> duration(0.00123)
    '1.23 ms'
    """
    for unit, size in ("s", 1.0), ("ms", 1e-3), ("us", 1e-6):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def tensors(library, *shapes, dtype="float32", requires_grad=False, seed=0):
    """Random tensors, the same in both libraries."""
    library.manual_seed(seed)
    made = []
    for shape in shapes:
        tensor = library.rand(shape).to(getattr(library, dtype))
        made.append(tensor.requires_grad_() if requires_grad else tensor)
    return made
