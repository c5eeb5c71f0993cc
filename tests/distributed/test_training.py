"""Modules trained in several processes end as PyTorch's do."""

import json

import pytest

from tests.distributed.launching import run

pytest.importorskip("torch")


# What PyTorch says of a backward pass that left parameters out.
UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting"
)


def results(framework, size):
    """What each rank found, by case."""
    found = []
    for output in run("training.py", size, framework):
        lines = dict(line.split(" ", 1) for line in output.splitlines())
        if "REFUSED" in lines:
            assert json.loads(lines["REFUSED"])["unfinished"] == UNFINISHED[:60]
        found.append(json.loads(lines["FOUND"]))
    return found


@pytest.mark.parametrize("size", [1, 2])
def test_training_in_processes_is_pytorchs(size):
    ours, theirs = results("rushlight", size), results("torch", size)
    for rank in range(size):
        for case, expected in theirs[rank].items():
            found = ours[rank][case]
            assert same(found, expected), (case, rank, found, expected)


def same(found, expected):
    """Whether numbers differ by no more than their last printed place."""
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, float):
        return abs(found - expected) <= 5e-4 + 1e-4 * abs(expected)
    return found == expected
