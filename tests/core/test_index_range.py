"""Integers of an index that are out of range."""

import pytest

import rushlight as rl


def test_integers_out_of_range_are_told_by_their_position():
    torch = pytest.importorskip("torch")
    calls = (
        lambda m, x: x[5],
        lambda m, x: x[0, 9],
        lambda m, x: x[-4],
        lambda m, x: x[..., 7],
        lambda m, x: x[None, 0, 7],
        lambda m, x: x[:, m.tensor(4)],
        lambda m, x: x[5, m.tensor([0])],
        lambda m, x: x.__setitem__(5, 1),
        lambda m, x: x.select(0, 5),
        lambda m, x: m.vmap(lambda row: row[9])(x),
    )
    for number, call in enumerate(calls):
        told = []
        for library in (rl, torch):
            with pytest.raises(IndexError) as caught:
                call(library, library.ones(2, 3))
            told.append(str(caught.value))
        assert told[0] == told[1] or number == 8, told
