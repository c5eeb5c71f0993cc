"""What the tests of compiled functions have in common."""

import pytest

from rushlight._inductor import config


@pytest.fixture(autouse=True)
def planned_at_the_first_calls(monkeypatch):
    """Other sizes of small programs do not wait: see ``test_waiting_sizes.py`` for those."""
    monkeypatch.setattr(config, "other_size_calls", 0)
