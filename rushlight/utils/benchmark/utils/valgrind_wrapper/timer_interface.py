"""Counts of instructions, and the process under Valgrind that takes them."""

import dataclasses
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from typing import NamedTuple

import rushlight
from rushlight.codegen import target
from rushlight.io.printing import get_printoptions
from rushlight.utils.benchmark.utils import common
from rushlight.utils.benchmark.utils.valgrind_wrapper import _client
from rushlight.utils.benchmark.utils.valgrind_wrapper._profile import read_profile

__all__ = ["CallgrindStats", "CopyIfCallgrind", "FunctionCount", "FunctionCounts"]
_ROWS_SHOWN = 18
_UNROLLED = (
    100  # statements in a loop's body: the loop itself is an instruction's worth
)


class FunctionCount(NamedTuple):
    """How many instructions a function took.

    Args:
        count: their number.
        function: its file, name and library.
    """

    count: int
    function: str


@dataclasses.dataclass(repr=False, eq=False, frozen=True)
class FunctionCounts:
    """Instructions by function; they can be added, subtracted, renamed and chosen from.

    Args:
        _data: a `FunctionCount` for each function, the largest first.
        inclusive: whether what a function calls is counted with it.
        truncate_rows: whether the middle of many rows is left out when printed.

    >>> a = FunctionCounts((FunctionCount(5, "f"), FunctionCount(2, "g")), False)
    >>> b = FunctionCounts((FunctionCount(3, "f"),), False)
    >>> list(a - b)
    [FunctionCount(count=2, function='g'), FunctionCount(count=2, function='f')]
    """

    _data: tuple
    inclusive: bool
    truncate_rows: bool = True
    _linewidth: int | None = None

    def __iter__(self):
        yield from self._data

    def __len__(self):
        return len(self._data)

    def __getitem__(self, item):
        chosen = self._data[item]
        if isinstance(item, slice):
            return FunctionCounts(chosen, self.inclusive, truncate_rows=False)
        return chosen

    def __repr__(self):
        width = max((len(str(c)) + (c < 0) for c, _ in self), default=0)
        line = self._linewidth or get_printoptions()["linewidth"]
        room = max(line - width - 4, 40)
        rows = [f"  {c:>{width}}  {_shortened(name, room)}" for c, name in self]
        if self.truncate_rows and len(rows) > _ROWS_SHOWN:
            half = _ROWS_SHOWN // 2
            rows = [*rows[:half], "...".rjust(width + 2), *rows[-half:]]
        if not self.inclusive:
            rows += ["", f"Total: {self.sum()}"]
        return "\n".join([object.__repr__(self), *rows])

    def __add__(self, other):
        return self._merged(other, 1)

    def __sub__(self, other):
        return self._merged(other, -1)

    def __mul__(self, factor):
        return _counts({name: int(c * factor) for c, name in self}, self.inclusive)

    def _merged(self, other, sign):
        if self.inclusive != other.inclusive:
            raise AssertionError("Cannot merge inclusive and exclusive counts.")
        found: dict = {}
        for counts, factor in ((self, 1), (other, sign)):
            for count, name in counts:
                found[name] = found.get(name, 0) + factor * count
        return _counts(found, self.inclusive)

    def transform(self, map_fn):
        """Renames functions; those that get one name become one row.

        Args:
            map_fn: from a name to another.
        """
        found: dict = {}
        for count, name in self:
            name = map_fn(name)
            found[name] = found.get(name, 0) + count
        return _counts(found, self.inclusive)

    def filter(self, filter_fn):
        """Keeps some functions.

        Args:
            filter_fn: True for the names of those.
        """
        kept = tuple(each for each in self if filter_fn(each.function))
        return FunctionCounts(kept, self.inclusive)

    def sum(self):
        """All instructions."""
        return sum(count for count, _ in self)

    def denoise(self):
        """Leaves out what differs from run to run: Python's look-ups of names."""
        return self.filter(lambda name: "dictobject.c:lookdict_unicode" not in name)


def _shortened(name, room):
    if len(name) <= room:
        return name
    half = (room - 5) // 2
    return f"{name[:half]} ... {name[-(room - half - 5) :]}"


def _counts(found, inclusive):
    rows = (FunctionCount(count, name) for name, count in found.items() if count)
    return FunctionCounts(tuple(sorted(rows, reverse=True)), inclusive)


# What the path of a function begins with, and what is left of it.
_STANDARD = (
    (r"^.+build/\.\./", "build/../"),
    (r"^.+/build/aten/", "build/aten/"),
    (r"^.+/Python/", "Python/"),
    (r"^.+/Objects/", "Objects/"),
    (r"\s\[.+\]$", ""),
)


def _standard(name):
    for before, after in _STANDARD:
        name = re.sub(before, after, name)
    return name


@dataclasses.dataclass(repr=False, eq=False, frozen=True)
class CallgrindStats:
    """What Callgrind counted of a statement, and of an empty one.

    Args:
        task_spec: what was measured.
        number_per_run: how often the statement ran.
        built_with_debug_symbols: whether functions of the library have names.
        baseline_inclusive_stats, baseline_exclusive_stats: of the empty statement.
        stmt_inclusive_stats, stmt_exclusive_stats: of the statement.
        stmt_callgrind_out: what Callgrind wrote, where that was to be kept.
    """

    task_spec: common.TaskSpec
    number_per_run: int
    built_with_debug_symbols: bool
    baseline_inclusive_stats: FunctionCounts
    baseline_exclusive_stats: FunctionCounts
    stmt_inclusive_stats: FunctionCounts
    stmt_exclusive_stats: FunctionCounts
    stmt_callgrind_out: str | None

    def __repr__(self):
        base, threads = self.baseline_exclusive_stats, self.task_spec.num_threads
        text = (
            f"{object.__repr__(self)}\n{self.task_spec.summarize()}\n"
            f"  {'':>25}All{'':>10}Noisy symbols removed\n"
            f"    Instructions: {self.counts():>12}{'':>15}"
            f"{self.counts(denoise=True):>12}\n"
            f"    Baseline:     {base.sum():>12}{'':>15}{base.denoise().sum():>12}\n"
            f"{self.number_per_run} runs per measurement, {threads} "
            f"thread{'s' if threads > 1 else ''}"
        )
        if self.built_with_debug_symbols:
            return text
        return (
            f"{text}\nWarning: PyTorch was not built with debug symbols.\n         "
            "Source information may be limited. Rebuild with\n         "
            "REL_WITH_DEB_INFO=1 for more detailed results."
        )

    def stats(self, inclusive=False):
        """Instructions by function.

        Args:
            inclusive: whether what a function calls is counted with it.
        """
        return self.stmt_inclusive_stats if inclusive else self.stmt_exclusive_stats

    def counts(self, *, denoise=False):
        """All instructions.

        Args:
            denoise: whether what differs from run to run is left out.
        """
        stats = self.stmt_exclusive_stats
        return (stats.denoise() if denoise else stats).sum()

    def delta(self, other, inclusive=False):
        """What this statement takes more than another one, function by function.

        Args:
            other: what was counted of the other one.
            inclusive: whether what a function calls is counted with it.
        """
        return self.stats(inclusive) - other.stats(inclusive)

    def as_standardized(self):
        """The same without where files lie, so that two builds can be compared."""
        names = [field.name for field in dataclasses.fields(self)]
        changed = {
            name: getattr(self, name).transform(_standard)
            for name in names
            if name.endswith("clusive_stats")
        }
        return dataclasses.replace(self, **changed, stmt_callgrind_out=None)


def _way_of(value):
    """How a value goes to another process: ``pickle``, ``jit`` or ``save``; None: not."""
    if isinstance(value, (str, bytes, bool, int, float, complex)):
        return "pickle"
    if isinstance(value, (rushlight.jit.ScriptFunction, rushlight.jit.ScriptModule)):
        return "jit"
    return "save" if isinstance(value, rushlight.nn.Module) else None


class CopyIfCallgrind:
    """Says that the statement may be given a copy of a value, in another process.

    Args:
        value: text, a number, a module or a scripted function.
        setup: what must run before the copy is read, such as an import of its class.

    Raises:
        ValueError: values of that type are not copied.
    """

    def __init__(self, value, *, setup=None):
        self._way = _way_of(value)
        if self._way is None:
            kinds = (
                "str bytes bool int float complex ScriptFunction ScriptModule Module"
            )
            raise ValueError(
                f"Unsupported type: {type(value)}\n`collect_callgrind` restricts globals "
                "to the following types:\n"
                f"{textwrap.indent(chr(10).join(kinds.split()), '  ')}"
            )
        self._value, self._setup = value, setup

    @property
    def value(self):
        """The value."""
        return self._value

    @property
    def setup(self):
        """What runs before the copy is read."""
        return self._setup

    @property
    def serialization(self):
        """How the value is copied."""
        return self._way

    @staticmethod
    def unwrap_all(globals):
        """The names that a statement sees, with values instead of these."""
        return {
            name: value.value if isinstance(value, CopyIfCallgrind) else value
            for name, value in globals.items()
        }

    def write(self, name, folder):
        """Writes the value; returns the lines that read it as a variable.

        Args:
            name: of the variable.
            folder: where the file goes.
        """
        path = os.path.join(folder, f"{name}.{self._way}")
        with open(path, "wb") as file:
            if self._way == "pickle":
                pickle.dump(self.value, file)
                read = f"with open({path!r}, 'rb') as f:\n    {name} = pickle.load(f)"
            elif self._way == "jit":
                rushlight.jit.save(self.value, file)
                read = f"{name} = torch.jit.load({path!r})"
            else:
                rushlight.save(self.value, file)
                read = f"{name} = torch.load({path!r}, weights_only=False)"
        return f"{textwrap.dedent(self.setup or '')}\n{read}"


def _check_globals(globals):
    if globals.get("torch", rushlight) is not rushlight:
        raise ValueError("`collect_callgrind` does not support mocking out `torch`.")
    wanted = {k: v for k, v in globals.items() if k not in ("torch", "__builtins__")}
    if not all(isinstance(value, CopyIfCallgrind) for value in wanted.values()):
        raise ValueError(
            "`collect_callgrind` requires that globals be wrapped in "
            "`CopyIfCallgrind` so that serialization is explicit."
        )
    return wanted


_PROGRAM = """\
import gc, pickle, sys
sys.path[:] = {path!r}
import rushlight as torch
{alias}
torch.set_num_threads({threads})
from rushlight.utils.benchmark.utils.valgrind_wrapper import _client as callgrind
{globals}
{setup}
callgrind.begin()
for _ in range({warmup}):
{statement}
gc.collect()
for _ in range({repeats}):
    callgrind.toggle()
{body}
    callgrind.toggle_and_dump()
    gc.collect()
{baseline}
callgrind.write_kernels({kernels!r})
"""


def _unrolled(statement, number):
    """A statement so many times, with as little of a loop as can be."""
    loops, rest = divmod(number, _UNROLLED)
    if loops == 1:
        loops, rest = 0, number
    text = "\n".join([statement] * rest)
    if loops:
        body = textwrap.indent("\n".join([statement] * _UNROLLED), "    ")
        text = f"for _ in range({loops}):\n{body}\n{text}"
    return text


def _program(spec, globals, folder, number, repeats, collect_baseline):
    """The text of the program that Valgrind runs."""
    empty = (
        f"callgrind.toggle()\n{_unrolled('pass', number)}\ncallgrind.toggle_and_dump()"
    )
    as_torch = sys.modules.get("torch") is rushlight
    return _PROGRAM.format(
        path=sys.path,
        alias="torch.install_as_torch()" if as_torch else "",
        threads=spec.num_threads,
        globals="\n".join(value.write(k, folder) for k, value in globals.items()),
        setup=spec.setup,
        warmup=min(number, 10),
        statement=textwrap.indent(spec.stmt, "    "),
        repeats=repeats,
        body=textwrap.indent(_unrolled(spec.stmt, number), "    "),
        baseline=empty if collect_baseline else "",
        kernels=os.path.join(folder, "kernels.json"),
    )


def _environment():
    """Valgrind has AVX2 and not what came later: kernels are for what it has."""
    chosen = dict(os.environ)
    if "RUSHLIGHT_TARGET" not in chosen and target.current().vector_bytes > 32:
        chosen["RUSHLIGHT_TARGET"] = "x86-64-v3"
    return chosen


def _run(folder, program):
    """Runs a program under Valgrind, in a folder that gets its counts."""
    path, log = os.path.join(folder, "statement.py"), os.path.join(folder, "log.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program)
    command = [
        "valgrind",
        "--tool=callgrind",
        f"--callgrind-out-file={os.path.join(folder, 'counts')}",
        "--dump-line=yes",
        "--dump-instr=yes",
        "--instr-atstart=no",
        "--collect-atstart=no",
        sys.executable,
        path,
    ]
    with open(log, "wb") as file:
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.STDOUT, env=_environment()
        )
    if done.returncode:
        with open(log, encoding="utf-8", errors="replace") as file:
            raise OSError(f"Failed to collect callgrind profile:\n{file.read()}")


def _read(folder, place):
    """Both sums of one dump, with the text that they are of."""
    with open(os.path.join(folder, "kernels.json"), encoding="utf-8") as file:
        kernels = {int(address): name for address, name in json.load(file).items()}
    with open(
        os.path.join(folder, f"counts.{place}"), encoding="utf-8", errors="replace"
    ) as file:
        text = file.read()
    own, both = read_profile(text.splitlines(), kernels)
    total = sum(own.values())
    both = {name: count for name, count in both.items() if count != total}
    return _counts(both, True), _counts(own, False), text


def collect(spec, globals, *, number, repeats, collect_baseline, retain_out_file):
    """Counts a statement's instructions, in a process of its own.

    Args:
        spec: the statement, its setup, its threads.
        globals: names that it sees, as `CopyIfCallgrind`.
        number: how often the statement runs.
        repeats: how often all this is done.
        collect_baseline: whether an empty statement is counted, too.
        retain_out_file: whether Callgrind's own text is kept.

    Returns:
        A `CallgrindStats` for each repetition.

    Raises:
        OSError: there is no Valgrind, or the program fails there, with its output.
        ValueError: a name stands for what is not wrapped.
    """
    if not _client.is_supported():
        raise OSError("Valgrind is not supported on this platform.")
    if shutil.which("valgrind") is None:
        raise OSError("Missing: valgrind")
    globals = _check_globals(globals)
    with tempfile.TemporaryDirectory(prefix="callgrind") as folder:
        text = _program(spec, globals, folder, number, repeats, collect_baseline)
        _run(folder, text)
        found = [_read(folder, 1 + i) for i in range(repeats + collect_baseline)]
    nothing = FunctionCounts((), True), FunctionCounts((), False), None
    base = found.pop() if collect_baseline else nothing
    return tuple(
        CallgrindStats(
            task_spec=spec,
            number_per_run=number,
            built_with_debug_symbols=True,
            baseline_inclusive_stats=base[0],
            baseline_exclusive_stats=base[1],
            stmt_inclusive_stats=both,
            stmt_exclusive_stats=own,
            stmt_callgrind_out=text if retain_out_file else None,
        )
        for both, own, text in found
    )
