"""Random programs of views, writes and backward passes go as they go on PyTorch."""

import pytest

import rushlight

from . import graph_programs

SEEDS = range(150)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_goes_as_on_pytorch(seed):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    found = graph_programs.run(rushlight, seed)
    expected = graph_programs.run(torch, seed)
    assert graph_programs.difference(found, expected) is None
