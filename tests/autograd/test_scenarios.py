"""Every scenario tells the same story on PyTorch and on Rushlight."""

import math

import pytest

import rushlight

from .scenarios import all_scenarios, outcome


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="the oracle is not installed")


def alike(found, expected) -> bool:
    """Equal, with room for the last bits of a float."""
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-5, abs_tol=1e-6) or (
            math.isnan(found) and math.isnan(expected)
        )
    if isinstance(found, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(alike, found, expected))
    return found == expected


@pytest.mark.parametrize("scenario", all_scenarios(), ids=lambda one: one.name)
def test_scenario_tells_the_same_story(scenario, torch):
    found, expected = outcome(scenario, rushlight), outcome(scenario, torch)
    assert alike(found["result"], expected["result"]), (
        f"\n  rushlight: {found['result']}\n  torch:     {expected['result']}"
    )
    assert found["warned"] == expected["warned"]
