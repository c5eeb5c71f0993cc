from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import rushlight as rl
from rushlight.utils.data import default_collate, default_convert

Point = namedtuple("Point", "x y")


def test_numbers_become_tensors_and_text_stays():
    assert default_collate([1, 2]).dtype is rl.int64
    assert default_collate([1.0, 2.0]).dtype is rl.float64
    assert default_collate([True, False]).dtype is rl.bool
    assert default_collate(["a", b"b"]) == ["a", b"b"]


def test_tensors_and_arrays_are_stacked():
    assert default_collate([rl.ones(2), rl.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert default_collate([np.ones(2), np.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert default_collate([np.float32(1), np.float32(2)]).dtype is rl.float32


def test_containers_are_transposed():
    batch = default_collate(
        [OrderedDict(a=0, p=Point(1, [2])), OrderedDict(a=3, p=Point(4, [5]))]
    )
    assert type(batch) is OrderedDict
    assert batch["a"].tolist() == [0, 3]
    assert type(batch["p"]) is Point
    assert batch["p"].x.tolist() == [1, 4]
    assert batch["p"].y[0].tolist() == [2, 5]
    assert [column.tolist() for column in default_collate([(0, 1), (2, 3)])] == [
        [0, 2],
        [1, 3],
    ]


def test_what_cannot_be_joined_is_named():
    with pytest.raises(TypeError, match="found <class 'object'>"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match=r"equal size\n  their lengths are \[1, 2\]"):
        default_collate([[1], [1, 2]])


def test_converting_keeps_everything_but_arrays():
    value = default_convert(
        {"a": np.ones(2), "b": [1, "x"], "c": Point(1, np.zeros(1))}
    )
    assert value["a"].tolist() == [1.0, 1.0]
    assert value["b"] == [1, "x"]
    assert isinstance(value["c"].y, rl.Tensor)
