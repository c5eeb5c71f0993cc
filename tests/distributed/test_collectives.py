"""Collectives give what PyTorch's gloo gives, over types, reductions and sizes."""

import json

import pytest

from tests.distributed.launching import run

pytest.importorskip("torch")


def results(framework, size, **environment):
    """What each rank found, by case."""
    outputs = run("collectives.py", size, framework, **environment)
    return [json.loads(each.partition("FOUND ")[2]) for each in outputs]


def compare(found, expected):
    for rank, (ours, theirs) in enumerate(zip(found, expected)):
        assert len(theirs) > 100
        wrong = [case for case in theirs if ours.get(case) != theirs[case]]
        assert not wrong, f"rank {rank}: {wrong}"


@pytest.mark.parametrize("size", [1, 2])
def test_collectives_of_few_processes_are_pytorchs(size):
    compare(results("rushlight", size), results("torch", size))


@pytest.mark.slow
def test_collectives_of_four_processes_are_pytorchs_over_memory_and_sockets():
    expected = results("torch", 4)
    compare(results("rushlight", 4), expected)
    over_sockets = results("rushlight", 4, RUSHLIGHT_DISTRIBUTED_SHARED_MEMORY="0")
    compare(over_sockets, expected)


def test_functional_collectives_and_their_gradients_are_pytorchs():
    ours, theirs = (
        [
            json.loads(each.partition("FOUND ")[2])
            for each in run("functional.py", 2, lib)
        ]
        for lib in ("rushlight", "torch")
    )
    for rank in range(2):
        assert len(theirs[rank]) > 30
        wrong = {k: (v, ours[rank].get(k)) for k, v in theirs[rank].items()}
        assert not {k: pair for k, pair in wrong.items() if pair[0] != pair[1]}
