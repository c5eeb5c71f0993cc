"""``python -m tests.graph [REGEX]``: all operators of the database, compiled."""

import argparse
import re
import subprocess
import sys


def work(first, last, only):
    """Some of the operators, in this process."""
    import faulthandler

    import rushlight as rl
    from tests.graph import sweep

    faulthandler.enable()
    rl.set_num_threads(1)
    for at, name in sweep.names()[first:last]:
        if not re.search(only, name):
            continue
        print("start", at, name, flush=True)
        for case in sweep.cases(at):
            print("case", str(case).replace("\n", " ")[:300], flush=True)
            for text in sweep.differences(case):
                print("DIFFERS", name, text.replace("\n", " ")[:400], flush=True)
        print("end", at, flush=True)


def main():
    """All of them, in processes that may die."""
    parser = argparse.ArgumentParser()
    parser.add_argument("only", nargs="?", default="")
    parser.add_argument("--worker", type=int, nargs=2)
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    if options.worker:
        return work(*options.worker, options.only)
    from tests.graph import sweep

    count, first, bad, calls = len(sweep.names()), 0, 0, 0
    while first < count:
        run = subprocess.run(
            [sys.executable, "-m", "tests.graph", options.only]
            + ["--worker", str(first), str(min(first + 700, count))],
            capture_output=True,
            text=True,
        )
        lines = run.stdout.splitlines()
        calls += sum(line.startswith("case") for line in lines)
        last = None
        for line in lines:
            if line.startswith(("start", "case")):
                last = line
            if line.startswith("start"):
                at = int(line.split()[1])
            if line.startswith("DIFFERS"):
                bad += 1
                print(last if options.v else "", line, sep="\n", flush=True)
        if run.returncode:
            bad += 1
            why = run.stderr.partition("Extension modules")[0][-1200:]
            print(f"DIED at {last}\n{why}", flush=True)
            first = at + 1
        else:
            first += 700
    print(f"{calls} calls of {count} operators, {bad} differences")
    return bad != 0


sys.exit(main())
