"""The same program on two libraries, and the first operator at which they part."""

import difflib
import json
import math
import os
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

from rushlight.inspection._recording import OperatorRecord
from rushlight.inspection._traps import UNINITIALIZED

# How far results of one operator may lie apart, by type: relative to their largest.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
TOLERANCES |= {"complex64": 1e-4, "complex128": 1e-9, "complex32": 1e-2}
_RECORDING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_recording.py")


class Comparison:
    """Two recorded runs of one program, side by side.

    Attributes:
        ours: Rushlight's `OperatorRecord` objects.
        theirs: the other library's.
        pairs: those that belong together, by the order of their names.
        first_difference: the first pair of calls whose results differ although what
            they were given does not, else the first pair whose results differ, or None.
        unmatched: operators that only one of the libraries called, as two lists.
        failures: what the program failed with under each library, ``""`` where it ended.

    >>> from rushlight.inspection import RunRecorder
    >>> import rushlight as rl
    >>> runs = []
    >>> for number in (1.0, 2.0):
    ...     with RunRecorder() as run:
    ...         _ = rl.full((2,), number).exp().log()
    ...     runs.append(run.records)
    >>> Comparison(*runs).first_difference[0].name
    'aten.full.default'
    """

    def __init__(self, ours, theirs, failures=("", "")):
        self.ours, self.theirs, self.failures = ours, theirs, tuple(failures)
        names = [[record.name for record in run] for run in (ours, theirs)]
        matcher = difflib.SequenceMatcher(None, *names, autojunk=False)
        self.pairs = [
            (ours[match.a + n], theirs[match.b + n])
            for match in matcher.get_matching_blocks()
            for n in range(match.size)
        ]
        met = [{id(pair[side]) for pair in self.pairs} for side in (0, 1)]
        self.unmatched = tuple(
            [record for record in run if id(record) not in met[side]]
            for side, run in enumerate((ours, theirs))
        )
        parted = [p for p in self.pairs if _differ(p[0].outputs, p[1].outputs)]
        parted = [p for p in parted if p[0].name not in UNINITIALIZED]
        causes = [p for p in parted if not _differ(p[0].inputs, p[1].inputs)]
        self.first_difference = (causes or parted or [None])[0]

    def __str__(self):
        counts = f"{len(self.pairs)} operators in both runs"
        for run, who in zip(self.unmatched, ("here", "there"), strict=True):
            counts += f", {len(run)} only {who}"
        lines = [counts]
        for failure, who in zip(self.failures, ("here", "there"), strict=True):
            lines += [f"fails {who}: {failure}"] if failure else []
        if self.first_difference is None:
            return "\n".join([*lines, "no results differ"])
        ours, theirs = self.first_difference
        lines.append(f"first difference: {ours!r}")
        lines += [f"  input: {given!r}" for given in ours.inputs]
        lines += [f"  here:  {result!r}" for result in ours.outputs]
        lines += [f"  there: {result!r}" for result in theirs.outputs]
        for run, who, mine in zip(
            self.unmatched, ("here", "there"), (ours, theirs), strict=True
        ):
            before = [record for record in run if record.number < mine.number]
            lines += [f"  before it, only {who}: {record!r}" for record in before[-3:]]
        return "\n".join(lines)


def _differ(ours, theirs):
    """Whether two lists of tensors differ in number, form or values."""
    if len(ours) != len(theirs):
        return True
    return any(map(_tensors_differ, ours, theirs))


def _tensors_differ(ours, theirs):
    if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
        return True
    if ours.digest is not None and theirs.digest is not None:
        return ours.digest != theirs.digest
    if (ours.nan, ours.inf) != (theirs.nan, theirs.inf):
        return True  # also where no kept value shows it
    if len(ours.values) != len(theirs.values):
        return True
    finite = [abs(v) for v in theirs.values if math.isfinite(v)]
    bound = TOLERANCES.get(ours.dtype, 0.0) * max(finite, default=0.0)
    return any(
        not _near(a, b, bound) for a, b in zip(ours.values, theirs.values, strict=True)
    )


def _near(a, b, bound):
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b) <= bound
    return a == b or (math.isnan(a) and math.isnan(b))


def compare_runs(script, *arguments, peer="torch", python=None):
    """Runs a program on Rushlight and on another library, and compares their operators.

    Each run is a process of its own, seeded with 0, in which every operator and every
    node of a backward pass is recorded.

    Args:
        script: the program's path; it imports the other library.
        arguments: its arguments.
        peer: the other library's module.
        python: the interpreter that has it; by default this one.

    Returns:
        a `Comparison`; its text names the first operator at which the runs part.

    Raises:
        FileNotFoundError: there is no such program.
        RuntimeError: a run wrote no record, such as for want of the other library.

    Example::

        print(compare_runs("train.py", "--steps", "1"))
    """
    if not os.path.exists(script):
        raise FileNotFoundError(f"compare_runs: there is no program {script!r}")
    with tempfile.TemporaryDirectory() as folder:
        program = folder, script, arguments
        started = [
            _started("rushlight", sys.executable, *program),
            _started(peer, python or sys.executable, *program),
        ]
        try:
            ours, theirs = (_ended(run, script) for run in started)
        finally:
            for run in started:
                run.process.kill()
                run.process.communicate()
    runs = (
        [OperatorRecord.from_json(r) for r in kept["records"]]
        for kept in (ours, theirs)
    )
    return Comparison(*runs, failures=(ours["failure"], theirs["failure"]))


class _Run(NamedTuple):
    """A run that has begun.

    Args:
        library: under which one.
        path: where its record will be.
        python: its interpreter.
        process: what runs.
    """

    library: str
    path: str
    python: str
    process: subprocess.Popen


def _started(library, python, folder, script, arguments):
    """Begins a run of a script under a library; two of them share the machine."""
    path = os.path.join(folder, f"{library}.json")
    command = [python, _RECORDING, library, path, script, *arguments]
    if library == "rushlight":
        command[1:2] = ["-m", "rushlight.run", _RECORDING]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    return _Run(library, path, python, process)


def _ended(run, script) -> Any:
    """What the recorder kept of a run, once it has ended."""
    _, said = run.process.communicate()
    if not os.path.exists(run.path):
        reason = said.strip().splitlines()[-1:] or [f"status {run.process.returncode}"]
        raise RuntimeError(
            f"compare_runs: {script} under {run.library} left no record: {reason[0]}; is "
            f"{run.library} installed for {run.python}?"
        )
    with open(run.path, encoding="utf-8") as file:
        return json.load(file)
