"""Every operator of PyTorch's database beside PyTorch: ``python -m benchmarks operators``.

Each operator runs on its largest sample (``--mode large``: with sizes scaled up; ``tiny``:
as the database has them), on one thread, in alternating rounds, in processor time of the
thread. Rows are written as they are made, so that a sweep that was stopped goes on where it
was; the table is sorted by the ratio, the slowest beside PyTorch first.
"""

import argparse
import contextlib
import functools
import importlib
import json
import math
import re
import resource
import signal
import statistics
import sys
import time
import warnings
from pathlib import Path

import torch

import rushlight
from benchmarks import large_cases, operator_cases
from benchmarks.harness import duration, set_threads

SIZES = {"large": {"XS": 12, "S": 24, "M": 128, "L": 1024}, "tiny": {}}
MOST_ELEMENTS = 4_000_000
ROUNDS = 5
LEAST = 2e-3  # seconds of one sample
MEMORY = 12 << 30  # bytes of addresses: a sample that wants more is refused
SLOW = 1.0  # seconds of one call that is not timed: the row would say little for long


class Late(BaseException):
    """The time that one operator may take is over."""


@contextlib.contextmanager
def limit(seconds):
    """Stops what is inside after so many seconds of the clock."""

    def stop(number, frame):
        raise Late(f"longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def database(mode):
    """PyTorch's operators, with the sizes of their samples set before they are made."""
    samples = importlib.import_module(
        "torch.testing._internal.common_methods_invocations"
    )
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.testing._internal"):
            for constant, size in SIZES[mode].items():
                if isinstance(getattr(module, constant, None), int):
                    setattr(module, constant, size)
    return samples.op_db


def converted(value):
    """A value of PyTorch's as one of Rushlight's.

    Raises:
        ValueError: the layout is not strided.
    """
    if isinstance(value, torch.Tensor):
        return converted_tensor(value.detach())
    if isinstance(value, torch.device):
        return rushlight.device(str(value))
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(rushlight, str(value).removeprefix("torch."))
    if isinstance(value, torch.Generator):
        return rushlight.Generator()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(converted, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(converted, value))
    if isinstance(value, dict):
        return {key: converted(item) for key, item in value.items()}
    return value


def converted_tensor(tensor):
    if tensor.layout is not torch.strided:
        raise ValueError(f"layout {tensor.layout}")
    if tensor.dtype is torch.bfloat16:
        return converted_tensor(tensor.float()).to(rushlight.bfloat16)
    base = rushlight.from_numpy(tensor.resolve_conj().contiguous().numpy().copy())
    if tensor.is_contiguous():
        return base
    out = rushlight.empty_strided(tensor.shape, tensor.stride(), dtype=base.dtype)
    return out.copy_(base)


def elements(value):
    """How many elements there are in the tensors of an argument."""
    if isinstance(value, torch.Tensor):
        return value.numel()
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return 0
    return sum(map(elements, value))


def found(library, name):
    """The function of a dotted name, or None."""
    for part in name.split("."):
        library = getattr(library, part, None)
    return library


def largest_sample(op, dtype):
    """The sample with most elements, and how many: of the first sixty, within seconds."""
    torch.manual_seed(1)
    best, most, end = None, -1, time.monotonic() + 8
    for number, sample in enumerate(op.sample_inputs("cpu", dtype)):
        size = sum(map(elements, (sample.input, sample.args, sample.kwargs)))
        if most < size <= MOST_ELEMENTS:
            best, most = sample, size
        if number > 60 or time.monotonic() > end:
            break
    return best, most


def cost(call, loops):
    """Processor seconds of one call."""
    start = time.thread_time()
    for _ in range(loops):
        call()
    return (time.thread_time() - start) / loops


def paired(ours, theirs):
    """The least of both over alternating rounds, and the median of the rounds' ratios.

    Raises:
        Late: one call takes too long to be timed.
    """
    loops = []
    for call in (ours, theirs):
        call()
        call()
        once = max(cost(call, 1), 1e-7)
        if once > SLOW:
            raise Late(f"one call takes {once:.1f} s")
        loops.append(min(max(1, int(LEAST / once)), 5000))
    rows = []
    for _ in range(ROUNDS):
        rows.append((cost(ours, loops[0]), cost(theirs, loops[1])))
    mine, yours = (min(column) for column in zip(*rows))
    ratio = statistics.median(a / b for a, b in rows)
    return mine, yours, min(ratio, mine / yours)


def row_of(op, full):
    """One operator's row: a dict with its times, or with why there are none."""
    dtypes = op.dtypes
    dtype = torch.float32 if torch.float32 in dtypes else next(iter(dtypes), None)
    ours, theirs = found(rushlight, op.name), found(torch, op.name) or op.op
    if dtype is None or ours is None:
        return {"name": full, "fault": "absent" if dtype else "no dtype"}
    sample, size = largest_sample(op, dtype)
    if sample is None:
        return {"name": full, "fault": "no sample"}
    there = (sample.input, *sample.args)
    here, named = converted(there), converted(sample.kwargs)
    with torch.no_grad(), rushlight.no_grad():
        times = paired(
            functools.partial(ours, *here, **named),
            functools.partial(theirs, *there, **sample.kwargs),
        )
    return timed(full, times, size)


def timed(name, times, size):
    ours, theirs, ratio = times
    return {
        "name": name, "ours": ours, "theirs": theirs, "ratio": ratio, "elements": size
    }  # fmt: skip


def row_of_case(name, make):
    """The row of a case that is written down here."""
    with torch.no_grad(), rushlight.no_grad():
        return timed(name, paired(make(rushlight), make(torch)), None)


def guarded(make, name, seconds):
    """``make()``, or a row that says what went wrong."""
    try:
        with limit(seconds):
            return make()
    except (Exception, Late) as error:
        first = (str(error).splitlines() or [""])[0]
        return {"name": name, "fault": f"{type(error).__name__}: {first[:80]}"}


def tasks(mode):
    """Pairs of a name and a function that makes its row."""
    if mode == "large":
        for name, make in {**operator_cases.CASES, **large_cases.CASES}.items():
            yield f"case {name}", functools.partial(row_of_case, f"case {name}", make)
    for op in database(mode):
        full = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        yield full, functools.partial(row_of, op, full)


def table(rows, least):
    """The rows as text, those that lose first."""
    good = sorted((r for r in rows if "ratio" in r), key=lambda r: -r["ratio"])
    if not good:
        return "nothing timed"
    mean = math.exp(statistics.fmean(math.log(max(r["ratio"], 1e-6)) for r in good))
    over = [sum(r["ratio"] > bound for r in good) for bound in (1.0, 1.5)]
    lines = [
        f"{len(good)} timed; geometric mean {mean:.2f}; {over[0]} above 1.0, "
        f"{over[1]} above 1.5"
    ]
    for row in good:
        if row["ratio"] >= least:
            lines.append(
                f"{row['name']:48} {row['ratio']:7.2f}  ours {duration(row['ours']):>9}"
                f"  theirs {duration(row['theirs']):>9}"
            )
    lines += [f"{r['name']:48} {r['fault']}" for r in rows if "fault" in r]
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks operators", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--mode", choices=SIZES, default="large")
    parser.add_argument("--match", default="", help="a pattern of names")
    parser.add_argument("--seconds", type=float, default=20, help="for each operator")
    parser.add_argument("--rows", type=Path, help="file of rows, to go on from")
    parser.add_argument("--least", type=float, default=1.0, help="ratio to show from")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    set_threads(1)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, most))
    rows = []
    if args.rows and args.rows.exists():
        rows = [json.loads(line) for line in args.rows.read_text().splitlines()]
    done = {row["name"] for row in rows}
    wanted = re.compile(args.match)
    for name, make in tasks(args.mode):
        if name in done or not wanted.search(name):
            continue
        rows.append(guarded(make, name, args.seconds))
        if args.rows:
            with args.rows.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    print(table([row for row in rows if wanted.search(row["name"])], args.least))
