"""PyTorch's tutorials on many processes run unchanged, and give PyTorch's numbers."""

import json

import pytest

from tests.distributed.launching import run

pytest.importorskip("torch")


def results(folder, **through):
    folder.mkdir()
    outputs = run("tutorials.py", 2, str(folder), **through)
    return [json.loads(each.partition("FOUND ")[2]) for each in outputs]


def test_tutorials_give_pytorchs_numbers(tmp_path):
    expected = results(tmp_path / "theirs")
    found = results(tmp_path / "ours", through=("-m", "rushlight.run"))
    for rank, (mine, wanted) in enumerate(zip(found, expected)):
        assert len(wanted) > 12
        wrong = {key: (mine.get(key), wanted[key]) for key in wanted}
        wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
        assert not wrong, (rank, wrong)
