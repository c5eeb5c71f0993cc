"""What holds for all tests."""

import gc
import os
import zlib
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Whatever is done from a plan is done by its function as well, and compared.
os.environ.setdefault("RUSHLIGHT_CHECK_PLANS", "1")  # or "cards", for theirs too

from rushlight.core import warning
from tools.said_once import count_as_said

# The first call of a kernel compiles it, and machines are busy: how long an example
# takes says nothing about what it shows.
# The examples are the same each time: `--hypothesis-profile=fresh` draws others.
UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fresh", **UNHURRIED)
settings.register_profile("unhurried", derandomize=True, **UNHURRIED)
settings.load_profile("unhurried")

# What is said once in a process is said to whichever test comes first: tests of it ask for
# `set_warn_always`, or for the fixture `nothing_said_yet`.
count_as_said()


# Of a test with more cases than these, one of so many is run, by the tests' folder: cases
# of one law are alike, and the imagined card is slow. `make sweep` runs all of them.
SHARES = {"codegen": (2, 4), "cuda": (2, 5), "laws": (6, 4), "operators": (8, 4)}


def pytest_collection_modifyitems(config, items):
    """Leaves a share of the cases of tests that have many."""
    if os.environ.get("SWEEP"):
        return
    cases, left = defaultdict(int), []
    for item in items:
        few, every = SHARES.get(Path(item.path).parent.name, (0, 1))
        test = item.nodeid.partition("[")[0]
        # by the name's checksum: a step would leave out one value of two each time
        kept = cases[test] < few or zlib.crc32(item.nodeid.encode()) % every == 0
        cases[test] += 1
        if not kept:
            left.append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        dropped = set(left)
        items[:] = [item for item in items if item not in dropped]


@pytest.fixture
def nothing_said_yet(monkeypatch):
    """What is said once is said to this test."""
    monkeypatch.setattr(warning, "_given", set())


@pytest.fixture(autouse=True, scope="module")
def frozen_heap():
    """Keeps what earlier files left out of the garbage collector's sight.

    A file begins with garbage collected and all else frozen. A process of many files
    ends with millions of objects, and each `gc.collect` of a test and each fork of a
    loader's workers would go through them all: 3 s, where its own take milliseconds.
    """
    gc.collect()
    gc.freeze()
