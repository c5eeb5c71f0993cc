"""Helpers around modules, against the oracle."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import utils
from rushlight.nn.utils import rnn


def parameters_of(lib, nn):
    leaves = [nn.Parameter(lib.ones(2, 3)), nn.Parameter(lib.ones(4))]
    for index, leaf in enumerate(leaves):
        leaf.grad = lib.full_like(leaf, 2.0 * index + 1.0)
    return leaves


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_long_gradients_are_shortened_as_the_oracle_does(torch, norm_type):
    ours, theirs = parameters_of(rl, nn), parameters_of(torch, torch.nn)
    found = utils.clip_grad_norm_(ours, 1.5, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(theirs, 1.5, norm_type)
    assert found.item() == pytest.approx(expected.item())
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(torch.tensor(a.grad.tolist()), b.grad)


def test_short_gradients_stay():
    leaves = parameters_of(rl, nn)
    utils.clip_grad_norm_(iter(leaves), 1000.0)
    assert leaves[0].grad.tolist() == [[1.0] * 3] * 2


def test_a_norm_that_is_not_finite_can_be_refused():
    leaf = nn.Parameter(rl.ones(1))
    leaf.grad = rl.tensor([float("nan")])
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        utils.clip_grad_norm_([leaf], 1.0, error_if_nonfinite=True)


def test_gradients_are_kept_within_a_value():
    leaves = parameters_of(rl, nn)
    utils.clip_grad_value_(leaves, 2.0)
    assert leaves[1].grad.tolist() == [2.0] * 4


def test_parameters_become_a_vector_and_back():
    leaves = parameters_of(rl, nn)
    vector = utils.parameters_to_vector(leaves)
    assert tuple(vector.shape) == (10,)
    utils.vector_to_parameters(vector.detach() * 3, leaves)
    assert leaves[1].tolist() == [3.0] * 4


def test_sequences_are_padded_packed_and_restored(torch):
    parts = [rl.arange(3.0), rl.arange(5.0), rl.arange(1.0)]
    theirs = [torch.arange(3.0), torch.arange(5.0), torch.arange(1.0)]
    oracle = torch.nn.utils.rnn
    for side in ("left", "right"):
        padded = rnn.pad_sequence(parts, True, -1.0, padding_side=side)
        expected = oracle.pad_sequence(theirs, True, -1.0, padding_side=side)
        assert padded.tolist() == expected.tolist()
    packed = rnn.pack_sequence(parts, enforce_sorted=False)
    expected = oracle.pack_sequence(theirs, enforce_sorted=False)
    for ours, other in zip(packed, expected):
        assert ours.tolist() == other.tolist()
    assert [each.tolist() for each in rnn.unpack_sequence(packed)] == [
        each.tolist() for each in parts
    ]


def test_packing_refuses_bad_lengths():
    x = rl.zeros(4, 2, 1)
    for lengths, words in (
        ([1], "equal to batch_size"),
        ([2, 0], "greater than 0"),
        ([2, 4], "sorted in decreasing order"),
    ):
        with pytest.raises(RuntimeError, match=words):
            rnn.pack_padded_sequence(x, lengths)


def test_norms_that_are_not_finite_are_refused_only_where_asked():
    for value, asked in ((float("nan"), False), (1.0, True), (float("inf"), False)):
        p = rl.ones(2, requires_grad=True)
        p.grad = rl.tensor([value, 1.0])
        total = rl.nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=asked)
        assert bool(total.isfinite()) == (value == 1.0)
    p.grad = rl.tensor([float("inf"), 1.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        rl.nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
