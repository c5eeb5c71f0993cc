"""Sums in parts, and values put in place."""

from __future__ import annotations

import pytest

import rushlight as rl


@pytest.mark.parametrize("count", [131072, 131073, 300001])
def test_a_sum_in_parts_is_the_same_for_any_number_of_threads(count):
    rl.manual_seed(1)
    x, before = rl.randn(count), rl.get_num_threads()
    found = set()
    try:
        for threads in (1, 2, 3):
            rl.set_num_threads(threads)
            found.add((x.sum().item(), x.mean().item(), x.amax().item()))
    finally:
        rl.set_num_threads(before)
    (result,) = found
    exact = x.to(rl.float64).sum().item()
    assert result[0] == pytest.approx(exact, rel=1e-4, abs=1e-2)
    assert result[2] == max(x.tolist())


def test_values_are_put_in_place_and_counted_as_one_change():
    x = rl.zeros(3, 4)
    address, version = x.data_ptr(), x._version
    x[rl.tensor([0, 2])] = 1.0
    x[rl.tensor([0, 1]), rl.tensor([3, -1])] = rl.tensor([5.0, 6.0])
    assert x.tolist() == [[1, 1, 1, 5], [0, 0, 0, 6], [1, 1, 1, 1]]
    assert (x.data_ptr(), x._version) == (address, version + 2)


def test_a_value_that_lies_in_the_target_is_refused():
    x = rl.tensor([0, 1, 2])
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[rl.tensor([2, 0])] = x[:2]
    assert x.tolist() == [0, 1, 2]


def test_a_bad_index_leaves_the_target_as_it_was():
    x = rl.zeros(3)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        x[rl.tensor([0, 3])] = 1.0
    assert x.tolist() == [0, 0, 0]


def test_an_index_into_nothing_is_refused():
    with pytest.raises(IndexError, match="out of bounds for dimension with size 0"):
        rl.zeros(0, 3)[rl.tensor([0])]
    with pytest.raises(RuntimeError, match="axis dim should be positive"):
        rl.index_select(rl.zeros(2, 0), 1, rl.tensor([0]))
