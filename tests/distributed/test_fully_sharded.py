"""Models whose parameters are cut train as PyTorch's do, and as one process does."""

import json

import pytest

from tests.distributed.launching import run


def results(framework, folder):
    outputs = run("fully_sharded.py", 2, framework, str(folder))
    return [json.loads(each.partition("FOUND ")[2]) for each in outputs]


def test_models_whose_parameters_are_cut_train_as_pytorchs(tmp_path):
    pytest.importorskip("torch.distributed.fsdp")
    expected = results("torch", tmp_path / "theirs")
    found = results("rushlight", tmp_path / "ours")
    for rank, (ours, theirs) in enumerate(zip(found, expected)):
        assert len(theirs) > 14
        wrong = {key: (ours.get(key), theirs[key]) for key in theirs}
        wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
        assert not wrong, (rank, wrong)
        assert ours["wrappers"] == 4
