"""Processes that call each other get what PyTorch's do; no program comes with a call."""

import json
import pickle

import pytest

from rushlight.distributed.rpc import _codec, allow_pickle
from tests.distributed.launching import finish, run, start


class Point:
    """A value of a class that nobody has allowed."""


def test_calls_references_and_gradients_through_them_are_pytorchs():
    pytest.importorskip("torch.distributed.rpc")
    theirs = run("calling.py", 2, "torch")[0]
    (status, output, errors), _ = finish(start("calling.py", 2, "rushlight"))
    assert status == 0, errors
    found, expected = (
        json.loads(each.partition("FOUND ")[2]) for each in (output, theirs)
    )
    assert len(expected) > 15
    wrong = {key: (found.get(key), expected[key]) for key in expected}
    assert not {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}


def test_octets_that_name_a_program_are_refused():
    class Harmful:
        def __reduce__(self):
            return print, ("run",)

    for octets in (b"P" + pickle.dumps(Harmful()), b"S" + pickle.dumps(Harmful())):
        with pytest.raises((pickle.UnpicklingError, RuntimeError)):
            _codec.decode(octets)
    for module, name in (("os", "system"), ("builtins", "eval"), ("nowhere", "f")):
        with pytest.raises(RuntimeError, match="not a function that may be called"):
            _codec.resolve(module, name)
    with allow_pickle():
        assert isinstance(_codec.decode(_codec.encode([Point()]))[0], Point)
