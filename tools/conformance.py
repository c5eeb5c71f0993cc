"""Holds PyTorch's own databases of operators, modules and optimizers as a gate.

    python -m tools.conformance            # nothing that passed before may fail
    python -m tools.conformance --record   # what fails now becomes the baseline
    python -m tools.conformance --elsewhere  # what fails on this processor only joins it

The runner stands outside this repository, in the folder that ``CONFORMANCE`` names, by
default ``../shared/conformance``; where there is none, nothing is checked. The baseline,
``tests/conformance.json``, lists for each yardstick the names that do not pass yet, and
as "elsewhere" those that miss a tolerance on another kind of processor, where PyTorch's
own matrix library takes another path and rounds otherwise.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / "tests" / "conformance.json"


def runner():
    """The scoreboard program, or None."""
    folder = Path(os.environ.get("CONFORMANCE", ROOT.parent / "shared" / "conformance"))
    program = folder / "scoreboard.py"
    return program if program.exists() else None


def measure(program, only, jobs):
    """For each yardstick: how many pass, of how many, and the names that do not."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scores.json")
        command = [sys.executable, str(program), "--quick", "--only", only]
        command += ["--jobs", str(jobs)]
        # it exits with 1 while anything is missing: the file is what counts
        subprocess.run(
            [*command, "--json", path],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        with open(path, encoding="utf-8") as file:
            scores = json.load(file)["yardsticks"]
    return {
        name: {
            "passed": row["passed"],
            "total": row["total"],
            "failing": sorted(names_of(row["failing"])),
        }
        for name, row in scores.items()
    }


def names_of(failing):
    """The names of what fails; running out of time says nothing, on a busy machine."""
    pairs = (text.rpartition(":") for text in failing)
    return {name for name, _, status in pairs if status != "timeout"}


def losses(before, now):
    """(yardstick, name) of everything that passed in the baseline and does not now."""
    return [
        (yardstick, name)
        for yardstick, row in now.items()
        for name in row["failing"]
        if yardstick in before and name not in known(before[yardstick])
    ]


def known(row):
    """The names of a yardstick that are not expected to pass."""
    return {*row["failing"], *row.get("elsewhere", ())}


def carried(old, row):
    """A new row with what the old one says of other processors."""
    elsewhere = sorted(set(old.get("elsewhere", ())) - set(row["failing"]))
    return {**row, "elsewhere": elsewhere} if elsewhere else row


def write(rows, before):
    """Puts rows into the baseline."""
    BASELINE.write_text(json.dumps({**before, **rows}, indent=1) + "\n")


def main():
    """Runs the yardsticks; the exit status says whether anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--record", action="store_true", help="write the baseline")
    parser.add_argument("--elsewhere", action="store_true", help="add to the baseline")
    parser.add_argument("--only", default=".", help="yardsticks whose name matches")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    options = parser.parse_args()
    program = runner()
    if program is None:
        print("conformance: no runner here; nothing was checked")
        return 0
    before = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    now = measure(program, options.only, options.jobs)
    if options.record:
        write(
            {name: carried(before.get(name, {}), row) for name, row in now.items()},
            before,
        )
        return 0
    lost = losses(before, now)
    if lost:  # once more, with kernels that are compiled by now
        names = "|".join(re.escape(name) for name in dict(lost))
        again = measure(program, f"^({names})$", options.jobs)
        lost = sorted(set(lost) & set(losses(before, again)))
        now |= again
    if options.elsewhere:
        for yardstick, name in lost:
            row = before[yardstick]
            row["elsewhere"] = sorted({*row.get("elsewhere", ()), name})
        write({}, before)
    for yardstick, name in lost:
        print(f"conformance: {name} passed in '{yardstick}' and does not now")
    empty = [yardstick for yardstick, row in now.items() if not row["total"]]
    for yardstick in empty:
        print(f"conformance: '{yardstick}' did not run")
    return int(bool(lost or empty))


if __name__ == "__main__":
    sys.exit(main())
