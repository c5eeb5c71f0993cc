"""Numbers counted from a start are PyTorch's to the last digit, however many there are."""

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

ENDS = [(-1, 1), (0, 1), (0.0, 3.3), (-7.1, 2), (5, -2.7), (1e-3, 1e4)]
COUNTS = [*range(1, 70), 100, 101, 1000, 4097]
FLOATS = ("float32", "float64", "bfloat16", "float16")


def assert_equal(name, dtype, *numbers):
    theirs, ours = (
        getattr(m, name)(*numbers, dtype=getattr(m, dtype)).double()
        for m in (torch, rushlight)
    )
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("dtype", (*FLOATS, "int64", "int32", "uint8"))
def test_numbers_between_two_ends_are_pytorchs(dtype):
    for start, end in ENDS:
        if dtype == "uint8":
            start, end = abs(start), min(abs(end), 250)
        for count in COUNTS:
            assert_equal("linspace", dtype, start, end, count)


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_in_steps_are_pytorchs(dtype):
    for start, end in ENDS:
        for count in COUNTS:
            assert_equal("arange", dtype, start, end, (end - start) / count)


@pytest.fixture
def threads():
    before = [m.get_num_threads() for m in (torch, rushlight)]
    yield
    for m, count in zip((torch, rushlight), before):
        m.set_num_threads(count)


@pytest.mark.parametrize("length", [32767, 32769, 65537, 100003])
def test_steps_for_several_threads_begin_where_pytorchs_threads_do(length, threads):
    for _ in range(2):
        for count in (1, 2, 3):
            for m in (torch, rushlight):
                m.set_num_threads(count)
            for _ in range(3):  # by a plan as well
                assert_equal("arange", "float32", 0.1, 0.1 + length * 0.37, 0.37)
