"""Plans launch with the arguments that their functions launch with."""

from __future__ import annotations

import pytest

from tests.cuda.thread_counts import counting, unlike_plans

PARTS = 4


@pytest.mark.imagined
@pytest.mark.parametrize("part", range(PARTS))
def test_a_plan_gives_its_launches_what_its_function_gives_them(
    machine, monkeypatch, part
):
    """Integers that nobody set are another number each time, and another plan."""
    with counting(machine, monkeypatch) as counter:
        unlike, number = unlike_plans(counter, part, PARTS)
    assert unlike == {}
    assert number > 500  # launches
