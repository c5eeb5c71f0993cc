"""Known architectures' states written by PyTorch and read here, and the other way."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl
from tests.nn.architectures import MODELS
from tests.nn.sides import assert_alike, plain


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="the oracle is not installed")


def _built(name, m, seed):
    m.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MODELS[name](m)


def _trained(m, net, inputs):
    """Results, gradients and buffers after one step forward and back."""
    m.manual_seed(3)
    results = net(*inputs())
    results = results if isinstance(results, tuple) else (results,)
    loss = sum(each.square().mean() for each in results)
    net.zero_grad()
    loss.backward()
    grads = {
        key: each.grad for key, each in net.named_parameters() if each.grad is not None
    }
    return plain([list(results), grads, dict(net.named_buffers())])


@pytest.mark.parametrize("name", MODELS)
def test_states_move_both_ways_through_files(torch, name, tmp_path):
    theirs, inputs = _built(name, torch, 1)
    ours, our_inputs = _built(name, rl, 2)
    assert repr(ours) == repr(theirs)

    torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
    loaded = rl.load(tmp_path / "theirs.pt")
    assert list(loaded) == list(theirs.state_dict())
    assert loaded._metadata == theirs.state_dict()._metadata
    assert repr(ours.load_state_dict(loaded)) == "<All keys matched successfully>"
    found, wanted = _trained(rl, ours, our_inputs), _trained(torch, theirs, inputs)
    assert_alike(found, wanted, name, tolerance=2e-4)

    rl.save(ours.state_dict(), tmp_path / "ours.pt")
    other, inputs = _built(name, torch, 5)
    other.load_state_dict(torch.load(tmp_path / "ours.pt", weights_only=True))
    for key, value in other.state_dict().items():
        assert value.tolist() == ours.state_dict()[key].tolist(), key
    assert_alike(
        _trained(rl, ours, our_inputs), _trained(torch, other, inputs), name, 2e-4
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_model(torch, name):
    ours, theirs = _built(name, rl, 4)[0], _built(name, torch, 4)[0]
    found = {key: each for key, each in ours.state_dict().items()}
    assert_alike(plain(found), plain(dict(theirs.state_dict())), name, 1e-5)
