"""Which numbers of a seed were judged: what adds up over several runs.

A file of JSON, by seed: the ranges of case numbers that were run to their end, the calls
that were made of them, and the differences that are not explained.
"""

from __future__ import annotations

import json
import os
from pathlib import Path


class Ledger:
    """Ranges that are done, kept in a file; without one, in memory."""

    def __init__(self, path, seed):
        self.path = Path(path) if path else None
        self.seed = str(seed)
        known = self.path is not None and self.path.exists()
        self.seeds = json.loads(self.path.read_text()) if known else {}
        self.row = self.seeds.setdefault(
            self.seed, {"ranges": [], "calls": 0, "differences": []}
        )

    def missing(self, first, end, batch):
        """Ranges of at most ``batch`` numbers from ``first`` to ``end``, none done yet."""
        ranges, at = [], first
        for start, stop in [*sorted(self.row["ranges"]), (end, end)]:
            border = min(start, end)
            ranges += [(a, min(a + batch, border)) for a in range(at, border, batch)]
            at = max(at, stop)
        return ranges

    def add(self, start, stop, calls, differences):
        """Notes a range that is done, joined to those that it touches."""
        joined = []
        for one, other in sorted([*self.row["ranges"], [start, stop]]):
            if joined and joined[-1][1] >= one:
                joined[-1][1] = max(joined[-1][1], other)
            else:
                joined.append([one, other])
        self.row["ranges"] = joined
        self.row["calls"] += calls
        self.row["differences"] += differences
        if self.path is not None:
            beside = self.path.with_suffix(".new")  # a run may end at any time
            beside.write_text(json.dumps(self.seeds, indent=1))
            os.replace(beside, self.path)

    def told(self):
        """A sentence: how many calls of this seed were made, with how many left open."""
        numbers = sum(stop - start for start, stop in self.row["ranges"])
        return (
            f"ledger: {self.row['calls']} calls of {numbers} numbers of seed {self.seed}, "
            f"{len(self.row['differences'])} unexplained"
        )
