"""Loops over operands that are one line of memory, in whatever order of dimensions."""

import pytest

import rushlight as rl

LAYOUTS = {
    "row-major": lambda x: x,
    "transposed": lambda x: x.transpose(0, 3),
    "channels last": lambda x: x.contiguous(memory_format=rl.channels_last),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements_behind_the_last_whole_row_are_computed_too(layout):
    x = LAYOUTS[layout](rl.randn(3, 5, 67, 59))
    expected = [value * 2 + 1 for value in x.flatten().tolist()[-5:]]
    assert (x * 2 + 1).flatten().tolist()[-5:] == pytest.approx(expected)
    assert ((x + x) / 2).equal(x)
