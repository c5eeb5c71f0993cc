"""Sizes are tuples whose slices are sizes, as in PyTorch."""

import copy
import pickle

import pytest

import rushlight


def shape():
    return rushlight.empty(2, 3, 5).shape


@pytest.mark.parametrize("index", [0, 2, -1, -3, True])
def test_an_element_of_sizes_is_a_number(index):
    assert type(shape()[index]) is int
    assert shape()[index] == (2, 3, 5)[index]


@pytest.mark.parametrize("part", [slice(1, None), slice(0, 0), slice(None, None, -1)])
def test_a_slice_of_sizes_is_sizes(part):
    assert type(shape()[part]) is rushlight.Size
    assert shape()[part] == (2, 3, 5)[part]


@pytest.mark.parametrize("index", [3, -4, 1 << 70])
def test_an_index_outside_of_sizes_is_an_index_error(index):
    with pytest.raises(IndexError):
        shape()[index]


def test_an_index_that_is_no_number_is_a_type_error():
    with pytest.raises(TypeError):
        shape()["0"]


def test_sizes_are_tuples_in_every_other_way():
    sizes = shape()
    assert isinstance(sizes, tuple)
    assert hash(sizes) == hash((2, 3, 5))
    assert list(sizes) == [2, 3, 5]
    assert sizes == rushlight.Size([2, 3, 5])
    assert pickle.loads(pickle.dumps(sizes)) == sizes
    assert copy.deepcopy(sizes) == sizes
    assert rushlight.empty(()).shape == ()
