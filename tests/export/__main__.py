"""``python -m tests.export [REGEX]``: all operators of the database, exported twice."""

import argparse
import collections
import re
import sys

import rushlight as rl
from tests.export import sweep
from tests.export.known import KNOWN


def main():
    """How many are the same; those that are not, and are not known, are told."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("only", nargs="?", default="", help="of names that match")
    parser.add_argument("-v", action="store_true", help="tell each operator")
    options = parser.parse_args()
    rl.set_num_threads(1)
    counts, bad = collections.Counter(), 0
    left = {key for key in KNOWN if re.search(options.only, key[0])}
    for at, name in sweep.names():
        if not re.search(options.only, name):
            continue
        verdict, detail = sweep.compare(at)
        counts[verdict] += 1
        wrong = verdict in sweep.BAD and (name, verdict) not in KNOWN
        left.discard((name, verdict))
        bad += wrong
        if options.v or wrong:
            print(f"{verdict}: {name}: {detail}", flush=True)
    for name, verdict in sorted(left):
        print(f"is known as {verdict!r} and is so no more: {name}")
    theirs = counts["same"] + sum(counts[one] for one in sweep.BAD)
    print(
        f"{counts['same']} of {theirs} that PyTorch exports are the same; {dict(counts)}"
    )
    return bool(bad or left)


sys.exit(main())
