"""Spread tensors compute as whole ones do; checkpoints go from any ranks to any others."""

import json
import warnings

import pytest

from tests.distributed.launching import run


def results(framework, own, other):
    outputs = run("sharded.py", 2, framework, str(own), str(other))
    return [json.loads(each.partition("FOUND ")[2]) for each in outputs]


def is_near(found, expected):
    """Whether nests of numbers are equal but for the digit that they were rounded to."""
    if isinstance(expected, list):
        same = isinstance(found, list) and len(found) == len(expected)
        return same and all(map(is_near, found, expected))
    if isinstance(expected, float) and isinstance(found, float):
        return abs(found - expected) < 1.5e-4
    return found == expected


def test_operators_on_spread_tensors_give_what_plain_ones_give():
    outputs = run("spread.py", 4)
    assert all("DONE" in output for output in outputs)


def test_spread_models_and_their_checkpoints_are_pytorchs(tmp_path):
    torch = pytest.importorskip("torch")
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    expected = results("torch", theirs, ours)
    found = results("rushlight", ours, theirs)
    for rank, (mine, wanted) in enumerate(zip(found, expected)):
        assert len(wanted) > 40
        wrong = {key: (mine.get(key), wanted[key]) for key in wanted}
        wrong = {key: pair for key, pair in wrong.items() if not is_near(*pair)}
        assert not wrong, (rank, wrong)
    state = {"model": {"up.weight": torch.zeros(16, 8)}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one process is asked for
        checkpoint.load(state, checkpoint_id=str(ours), no_dist=True)
    total = [round(each, 4) for each in state["model"]["up.weight"].flatten().tolist()]
    assert is_near(total, found[0]["whole"][0])
