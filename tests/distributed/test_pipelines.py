"""Models in stages learn as PyTorch's do, and as one process does, by every schedule."""

import json

import pytest

from tests.distributed.launching import run


def results(framework):
    outputs = run("pipelined.py", 2, framework)
    return [json.loads(each.partition("FOUND ")[2]) for each in outputs]


def test_models_in_stages_learn_as_pytorchs():
    pytest.importorskip("torch.distributed.pipelining")
    expected, found = results("torch"), results("rushlight")
    for ours, theirs in zip(found, expected):
        assert len(theirs) == 5
        wrong = {key: (ours.get(key), theirs[key]) for key in theirs}
        wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
        assert not wrong, wrong
