"""Sizes, strides and offsets of any magnitude: refused, or inside the storage."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as rl

EDGES = [2**k + d for k in (5, 31, 32, 40, 61, 62, 63) for d in (-1, 0, 1)]
NUMBERS = st.one_of(
    st.integers(0, 5), st.sampled_from([n for n in EDGES if n < 2**63]), st.just(-1)
)
SHAPES = st.lists(NUMBERS, max_size=4)
LARGEST = 2**63 - 1


def products(sizes):
    """Every product of the first so many sizes."""
    return [math.prod(sizes[:n]) for n in range(len(sizes) + 1)]


def countable(sizes):
    return all(s >= 0 for s in sizes) and all(p <= LARGEST for p in products(sizes))


def reach(sizes, strides, offset):
    """Elements from the storage's start to the last one, in exact arithmetic."""
    if 0 in sizes:
        return 0
    return offset + 1 + sum((n - 1) * step for n, step in zip(sizes, strides))


def result_of(function, *args):
    """What the function returns, or None where it refuses."""
    try:
        return function(*args)
    except (RuntimeError, TypeError, IndexError):
        return None


@given(SHAPES, st.data())
@settings(max_examples=300, deadline=None)
def test_as_strided_takes_exactly_what_lies_in_the_storage(sizes, data):
    strides = data.draw(st.lists(NUMBERS, min_size=len(sizes), max_size=len(sizes)))
    offset = data.draw(NUMBERS)
    x = rl.zeros(20)
    result = result_of(x.as_strided, sizes, strides, offset)
    fits = (
        countable(sizes)
        and min(strides, default=0) >= 0
        and offset >= 0
        and reach(sizes, strides, offset) <= 20
    )
    assert (result is not None) == fits
    if fits:
        assert (list(result.shape), list(result.stride())) == (sizes, strides)
        assert result.storage_offset() == offset


@given(SHAPES, st.data())
@settings(max_examples=300, deadline=None)
def test_empty_strided_holds_all_that_it_shows(sizes, data):
    strides = data.draw(st.lists(NUMBERS, min_size=len(sizes), max_size=len(sizes)))
    result = result_of(rl.empty_strided, sizes, strides)
    if result is not None:
        assert countable(sizes)
        assert result.untyped_storage().nbytes() == 4 * reach(sizes, strides, 0)


@given(SHAPES)
@settings(max_examples=300, deadline=None)
def test_creation_and_resizing_hold_all_that_they_show(sizes):
    for function in (rl.empty, rl.zeros(3).resize_):
        result = result_of(function, sizes)
        if result is not None:
            assert countable(sizes)
            held = result.untyped_storage().nbytes()
            assert held >= 4 * reach(sizes, result.stride(), 0)


@given(SHAPES)
@settings(max_examples=300, deadline=None)
def test_expanding_and_reshaping_are_exact(sizes):
    one, four, none = rl.zeros(1), rl.zeros(4), rl.zeros(0)
    expanded = result_of(one.expand, sizes)
    given_sizes = [
        1 if s == -1 and i == len(sizes) - 1 else s for i, s in enumerate(sizes)
    ]
    assert (expanded is not None) == (bool(sizes) and countable(given_sizes))
    for x in (four, none):
        for function in (x.view, x.reshape):
            result = result_of(function, sizes)
            if result is not None:
                assert math.prod(result.shape) == x.numel()
                assert countable(list(result.shape))
            elif countable(sizes):
                assert math.prod(sizes) != x.numel()


@given(st.integers(1, 6), st.sampled_from([1, 2, 3]), NUMBERS, NUMBERS)
@settings(max_examples=300, deadline=None)
def test_windows_and_slices_stay_inside(length, step, size, stride):
    x = rl.arange(6.0 * step)[::step][:length]
    held = x.untyped_storage().nbytes()
    for function in (
        lambda: x.unfold(0, size, stride),
        lambda: x[::stride],
        lambda: x[size::stride],
        lambda: x.narrow(0, stride, size),
        lambda: x.diag_embed(0).diagonal(size),
        lambda: x.view(rl.uint8)[size::stride],
    ):
        try:
            result = function()
        except (RuntimeError, TypeError, IndexError, ValueError):
            continue
        sizes, strides = list(result.shape), result.stride()
        assert countable(sizes)
        assert min(strides, default=0) >= 0
        end = reach(sizes, strides, result.storage_offset()) * result.itemsize
        assert end <= max(held, result.untyped_storage().nbytes())


@pytest.mark.parametrize(
    "function",
    [
        lambda: rl.zeros(4).tensor_split(2**40),
        lambda: rl.zeros(0).chunk(2**40),
        lambda: rl.zeros(1).expand(2**45).unbind(),
        lambda: rl.zeros(1).expand(2**45).split(1),
    ],
)
def test_more_pieces_than_memory_holds_are_refused_at_once(function):
    with pytest.raises(RuntimeError, match="bad_alloc"):
        function()


@pytest.mark.parametrize("size", [2**63, 2**70, -(2**70)])
def test_sizes_beyond_64_bits_are_refused_by_type(size):
    for function in (
        rl.empty,
        rl.zeros(1).expand,
        rl.zeros(4).view,
        rl.zeros(1).resize_,
    ):
        with pytest.raises(TypeError, match="long long"):
            function(size)


def test_joined_sizes_do_not_wrap():
    part = rl.zeros(1).expand(2**61)
    for count in (4, 8):
        with pytest.raises(RuntimeError, match="overflow"):
            rl.cat([part] * count)
