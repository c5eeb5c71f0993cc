"""Masks are boolean tensors."""

import pytest

import rushlight as rl


def test_where_refuses_numbers_as_condition():
    with pytest.raises(
        RuntimeError, match="boolean tensor, but got a tensor with dtype Long"
    ):
        rl.where(rl.tensor([1, 0]), 1.0, 2.0)


def test_masked_fill_refuses_numbers_as_mask():
    with pytest.raises(RuntimeError, match="only supports boolean masks"):
        rl.zeros(2).masked_fill(rl.tensor([1, 0]), 1.0)
    with pytest.raises(RuntimeError, match="only supports boolean masks"):
        rl.zeros(2).masked_fill_(rl.tensor([1, 0]), 1.0)


def test_boolean_masks_choose_elementwise():
    mask = rl.tensor([True, False])
    assert rl.where(mask, 1.0, 2.0).tolist() == [1.0, 2.0]
    assert rl.zeros(2).masked_fill(mask, 3.0).tolist() == [3.0, 0.0]
