"""`Size` takes integers, whatever has them, and nothing else."""

import numpy as np
import pytest

import rushlight as rl


def test_tensors_of_one_integer_become_integers():
    size = rl.Size((rl.tensor(3), rl.tensor([2])))
    assert size == (3, 2)
    assert [type(one) for one in size] == [int, int]
    assert rl.Size(rl.tensor([1, 2])) == (1, 2)


def test_numbers_of_numpy_print_as_numbers():
    assert repr(rl.Size([np.int64(3), True])).endswith("Size([3, 1])")


@pytest.mark.parametrize("item", [1.5, "2", None, rl.tensor(3.0), np.float64(1)])
def test_what_is_no_integer_is_refused_with_its_place(item):
    with pytest.raises(TypeError, match=r"takes an iterable of 'int' \(item 1 is '"):
        rl.Size([1, item])


def test_sums_of_sizes_and_tuples_are_sizes():
    assert rl.Size((1, 2)) + (rl.tensor(3),) == (1, 2, 3)
    assert type((3,) + rl.Size((1, 2))) is rl.Size
    with pytest.raises(TypeError, match=r"can only concatenate tuple \(not list\)"):
        rl.Size((1, 2)) + [3]


def test_shapes_with_tensors_in_them_broadcast():
    assert rl.broadcast_shapes(rl.Size((rl.tensor(3), 1)), (1, 2)) == (3, 2)
