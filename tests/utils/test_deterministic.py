"""New memory is filled while a deterministic run is asked for."""

import math

import pytest

import rushlight as rl
from rushlight.utils import deterministic

FLOATS = [rl.float16, rl.bfloat16, rl.float32, rl.float64, rl.complex64]
INTEGERS = [rl.int8, rl.uint8, rl.int16, rl.int32, rl.int64, rl.uint16]


@pytest.fixture(autouse=True)
def deterministic_run():
    rl.use_deterministic_algorithms(True)
    yield
    deterministic.fill_uninitialized_memory = True
    rl.use_deterministic_algorithms(False)


def made(dtype):
    """Tensors whose elements nobody chose, by each way to one."""
    like = rl.ones(2, 2, dtype=dtype)
    yield rl.empty(3, 2, dtype=dtype)
    yield rl.empty(1, 2, 2, 2, dtype=dtype, memory_format=rl.channels_last)
    yield rl.empty_like(like)
    yield rl.empty_like(like.t(), memory_format=rl.contiguous_format)
    yield rl.empty_strided((2, 2), (3, 1), dtype=dtype)
    yield rl.empty_permuted((2, 3), (1, 0), dtype=dtype)
    yield like.new_empty(4)
    yield like.new_empty_strided((2,), (2,))
    yield rl.ones(2, dtype=dtype).resize_(5)[2:]


@pytest.mark.parametrize("dtype", FLOATS)
def test_new_floats_are_no_numbers(dtype):
    assert all(bool(rl.isnan(one).all()) for one in made(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_new_integers_are_the_largest(dtype):
    largest = rl.iinfo(dtype).max
    for one in made(dtype):
        assert set(one.flatten().tolist()) == {largest}


def test_new_truth_values_are_true():
    assert all(bool(one.all()) for one in made(rl.bool))


def test_what_operators_compute_is_not_touched():
    x = rl.randn(4, 4)
    for result in (x @ x, rl.cat([x, x]), x.sort()[0], rl.linalg.inv(x), x.t().clone()):
        assert not rl.isnan(result).any()


def test_filling_can_be_switched_off_and_takes_truth_values_only():
    deterministic.fill_uninitialized_memory = False
    block = rl.full((1000,), 7.0)
    del block
    assert not math.isnan(rl.empty(1000)[0].item())
    with pytest.raises(RuntimeError, match="expected a bool"):
        deterministic.fill_uninitialized_memory = 1


def test_tensors_without_memory_are_left_alone():
    assert rl.empty(2, device="meta").shape == (2,)
