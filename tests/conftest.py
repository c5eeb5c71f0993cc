"""What holds for all tests."""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

# Whatever is done from a plan is done by its function as well, and compared.
os.environ["RUSHLIGHT_CHECK_PLANS"] = "1"

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
