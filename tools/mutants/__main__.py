"""Puts faults into the package and says which of them no test sees.

    python -m tools.mutants                      # 300 mutants of all modules
    python -m tools.mutants --count 40 --only rushlight/optim --tests tests/optim
    python -m tools.mutants --measure            # measure again who runs what

A mutant is one small fault (a lost factor, an ignored argument, a comparison off by
one: `mutations`) in a module that Python runs as it is written, the generated
derivatives included. The tests that reach its line are run in a copy of the repository,
the fastest first, until one fails. What survives is listed; ``known.txt`` names those
that mean the same as the original, with the reason. The status is 1 when fewer than
nine in ten are killed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from tools.mutants import coverage_by_test, trial
from tools.mutants.mutations import mutations

ROOT = Path(__file__).resolve().parents[2]
ROOM = ROOT / "build" / "mutants"
KNOWN = Path(__file__).parent / "known.txt"
GOAL = 0.9
# Tests of one mutant: as many of the fastest as fit into so many seconds.
PATIENCE = 40.0


def arguments():
    parser = argparse.ArgumentParser(prog="tools.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="which are drawn")
    parser.add_argument("--only", default="rushlight", help="a folder or module")
    parser.add_argument("--tests", nargs="*", default=None, help="tests to run")
    parser.add_argument("--measure", action="store_true", help="run all tests again")
    return parser.parse_args()


def copy_of_the_tree():
    """A copy whose compiled files follow the sources' contents, not their times."""
    tree = ROOM / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    skipped = shutil.ignore_patterns("*.c", "__pycache__", ".venv*", ".git", "build")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=skipped)
    command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode"]
    subprocess.run([*command, "checked-hash", str(tree / "rushlight")], check=True)
    return tree


def modules(tree, only):
    """The modules below a place that are not compiled."""
    for path in sorted(tree.glob("rushlight/**/*.py")):
        compiled = any(path.parent.glob(path.stem + ".*.so"))
        if not compiled and str(path.relative_to(tree)).startswith(only):
            yield path


def drawn(tree, options, reached):
    """As many mutants as are wanted, drawn from the lines that functions have."""
    known = [line.split("#")[0].strip() for line in KNOWN.read_text().splitlines()]
    candidates = []
    for path in modules(tree, options.only):
        short = str(path.relative_to(tree))
        source = path.read_bytes()
        lines = reached.get(short, {})
        for mutant in mutations(short, source):
            # lines that run only when the module is imported are tables
            if lines.get(mutant.line) and mutant.describe(source) not in known:
                candidates.append(mutant)
    random.Random(options.seed).shuffle(candidates)
    chosen = []
    for mutant in candidates:
        if len(chosen) == options.count:
            break
        if mutant.is_python((tree / mutant.path).read_bytes()):
            chosen.append(mutant)
    return chosen, len(candidates)


def tests_of(mutant, reached, seconds):
    """The fastest tests that reach a mutant's line, and what they take together."""
    found = sorted(
        (seconds[t], t) for t in reached[mutant.path][mutant.line] if t in seconds
    )
    chosen, total = [], 0.0
    for took, test in found:
        if chosen and total + took > PATIENCE:
            break
        chosen.append(test)
        total += took
    return chosen, total


def main():
    options = arguments()
    tree = copy_of_the_tree()
    data = ROOM / "reach"
    tests = options.tests or [
        str(p.relative_to(ROOT))
        for p in sorted(ROOT.glob("tests/**/test_*.py"))
        if p.parent.name not in ("wild", "repo", "docs")
    ]
    if options.measure or options.tests or not list(data.glob("part*.json")):
        shutil.rmtree(data, ignore_errors=True)
        coverage_by_test.measure(tree, tests, data)
    reached, seconds = coverage_by_test.load(data)
    chosen, candidates = drawn(tree, options, reached)
    print(f"{len(chosen)} mutants of {candidates}; {len(seconds)} tests", flush=True)
    trial.preload()
    judge = Judge(tree, reached, seconds)
    survivors = 0
    for number, mutant in enumerate(chosen, 1):
        result = judge.judge(mutant)
        if result != trial.KILLED:
            text = mutant.describe((tree / mutant.path).read_bytes())
            print(f"{result} {text}  [{number}/{len(chosen)}]", flush=True)
        survivors += result == trial.SURVIVED
    killed = len(chosen) - survivors
    print(f"{killed} of {len(chosen)} mutants killed")
    return 0 if killed >= GOAL * len(chosen) else 1


class Judge:
    """Tries mutants, one after another, in one tree.

    A test that also fails without the mutant, run alone, says nothing: it is left out
    from then on.
    """

    def __init__(self, tree, reached, seconds):
        self.tree = tree
        self.reached = reached
        self.seconds = dict(seconds)
        self.sound: set[str] = set()

    def judge(self, mutant):
        """What the tests that reach a mutant say of it."""
        path = self.tree / mutant.path
        source = path.read_bytes()
        while True:
            wanted, total = tests_of(mutant, self.reached, self.seconds)
            path.write_bytes(mutant.apply(source))
            try:
                result, failed = trial.run(self.tree, wanted, 60 + 5 * total)
            finally:
                path.write_bytes(source)
            if result != trial.KILLED or failed is None or self.passes(failed):
                return result
            del self.seconds[failed]

    def passes(self, test):
        """Whether a test passes without a mutant."""
        if test not in self.sound:
            limit = 60 + 5 * self.seconds[test]
            if trial.run(self.tree, [test], limit)[0] == trial.SURVIVED:
                self.sound.add(test)
        return test in self.sound


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    sys.exit(main())
