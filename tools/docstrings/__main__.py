"""Runs PyTorch's docstring examples on both sides and names those that differ.

    python -m tools.docstrings             # nothing that agreed before may differ
    python -m tools.docstrings REGEX -v    # some of them, with both results
    python -m tools.docstrings --wrong     # with the last call of each made wrong
    python -m tools.docstrings --record    # what differs now becomes the baseline

Values are compared as they print, numbers to a part in a thousand; of exceptions, the
class. Without an installed PyTorch there is nothing to compare and nothing is checked.
"""

import argparse
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BASELINE = ROOT / "tests" / "docstrings.json"
OF_WRONG_ONES = ROOT / "tests" / "docstrings_wrong.json"
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+)")
# Addresses, paths and durations; generators and functions print in words of their own.
PASSING = re.compile(
    r"0x[0-9a-f]+|\d+ object|line \d+|/[\w/.-]+|\d+\.\d+ ?(us|ms|s)\b"
    r"|<torch(\._C)?\.Generator[^>]*>|<built-in [^>]*>"
)
# Memory that nobody has written, and what else is another thing on every run.
CHANCE = re.compile(
    r"\.(new_)?empty(_strided|_like)?$|\.Generator\.|default_generator|initial_seed$"
)


def main():
    parser = argparse.ArgumentParser(prog="tools.docstrings")
    parser.add_argument("regex", nargs="?", default="")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument(
        "--wrong", action="store_true", help="with each call made wrong"
    )
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("docstrings: PyTorch is not installed; nothing was checked")
        return 0
    from tools.docstrings.collect import examples
    from tools.docstrings.wrong import variants

    chosen = [e for e in examples() if re.search(args.regex, e[0])]
    if args.wrong:
        chosen = [one for example in chosen for one in variants(*example)]
    theirs, ours = answers("pytorch", chosen), answers("rushlight", chosen)
    found = {}
    for name, statements in chosen:
        rows = theirs.get(name), ours.get(name)
        why = at_the_end(*rows) if args.wrong else difference(*rows)
        if why is not None and not CHANCE.search(name.partition(":")[0]):
            found[name] = why[0]
            if args.verbose:
                tell(name, statements, *why)
    print(f"docstrings: {len(chosen) - len(found)}/{len(chosen)} examples agree")
    baseline = OF_WRONG_ONES if args.wrong else BASELINE
    if args.record:
        baseline.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        return 0
    return judge(found, {name for name, _ in chosen}, baseline)


def judge(found, names, baseline):
    """1 where an example differs that the baseline does not list."""
    known = json.loads(baseline.read_text()) if baseline.exists() else {}
    new = sorted(set(found) - set(known))
    mended = sorted((set(known) & names) - set(found))
    if new:
        print("they differ and did not before:", *new, sep="\n  ")
    if mended:
        print("they agree now (record it with --record):", *mended, sep="\n  ")
    return 1 if new else 0


def answers(side, chosen):
    """What one side makes of the examples; of one that kills its process, None."""
    found, left = {}, list(chosen)
    while left:
        command = [sys.executable, "-m", "tools.docstrings.side", side]
        lines = "".join(json.dumps(example) + "\n" for example in left)
        result = subprocess.run(
            command,
            input=lines,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
        )
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        found.update(rows)
        left = left[len(rows) :]
        if left:  # the process died over the next one
            found[left.pop(0)[0]] = None
    return found


def difference(theirs, ours):
    """None, or the kind of the first difference, its place and both rows."""
    if theirs is None:
        return None
    if ours is None:
        return "crash", 0, theirs[0], ["crash", "", ""]
    for at, (left, right) in enumerate(zip(theirs, ours, strict=False)):
        if left[0] == "timeout":
            return None
        if left[0] != right[0]:
            return ("refused" if left[0] == "ok" else "accepted"), at, left, right
        if left[0] == "raise":
            if left[1].split(":")[0] != right[1].split(":")[0]:
                return "class", at, left, right
        elif not (same(left[1], right[1]) and same(left[2], right[2])):
            return "value", at, left, right
    return None


def at_the_end(theirs, ours):
    """The difference of the last statement, the only one that was made wrong."""
    if theirs and ours and difference(theirs[:-1], ours[:-1]) is None:
        why = difference(theirs[-1:], ours[-1:])
        return why and (why[0], len(theirs) - 1, *why[2:])
    return difference(theirs, ours) if ours is None else None


def same(left, right):
    """Whether two texts say the same, but for rounding, spaces and addresses."""
    left, right = (PASSING.sub("@", text) for text in (left, right))
    right = right.replace("rushlight", "torch")
    if left == right:
        return True
    shapes = ("".join(NUMBER.sub("#", text).split()) for text in (left, right))
    if len(set(shapes)) > 1:
        return False
    pairs = zip(NUMBER.findall(left), NUMBER.findall(right), strict=False)
    return all(
        abs(float(p) - float(q)) <= 2e-3 * max(1, abs(float(p))) for p, q in pairs
    )


def tell(name, statements, kind, at, theirs, ours):
    """Prints one difference."""
    print(f"=== {kind}: {name}: {statements[at].strip()}")
    for side, row in (("PyTorch", theirs), ("Rushlight", ours)):
        print(f"  {side}: {(row[1] or row[2])[:400]}")


if __name__ == "__main__":
    sys.exit(main())
