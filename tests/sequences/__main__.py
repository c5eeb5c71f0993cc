"""``python -m tests.sequences [REGEX]``: what ``__torch_dispatch__`` sees on both sides."""

import argparse
import collections
import re
import sys

import rushlight as rl
from tests.sequences import models, operators, wrappers
from tests.sequences.known import KNOWN

BAD = ("differs", "refused")


def cases():
    """Every comparison: its table, its name, and what makes it."""
    for at, name in operators.names():
        yield "operator", name, lambda at=at: operators.compare(at)
    for name in wrappers.CALLS:
        yield "wrapper", name, lambda name=name: wrappers.compare(name)
    for name in models.MODELS:
        yield "model", name, lambda name=name: models.compare(name)


def main():
    """How many are the same in each table; those that are not, and are not known."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "only", nargs="?", default="", help="of `table name` that match"
    )
    parser.add_argument("-v", action="store_true", help="tell each")
    options = parser.parse_args()
    rl.set_num_threads(1)
    counts: dict = collections.defaultdict(collections.Counter)
    bad, left = 0, {key for key in KNOWN if re.search(options.only, " ".join(key))}
    for table, name, compare in cases():
        if not re.search(options.only, f"{table} {name}"):
            continue
        verdict, detail = compare()
        counts[table][verdict] += 1
        unknown = verdict in BAD and (table, name) not in KNOWN
        if verdict in BAD:
            left.discard((table, name))
        bad += unknown
        if options.v or unknown:
            print(f"{verdict}: {table} {name}: {detail}", flush=True)
    for table, name in sorted(left):
        print(f"is known and is so no more: {table} {name}")
    for table, found in counts.items():
        whole = found["same"] + sum(found[one] for one in BAD)
        print(f"{table}: {found['same']} of {whole} are the same; {dict(found)}")
    return bool(bad or left)


sys.exit(main())
