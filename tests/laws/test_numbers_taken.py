"""What is a number to PyTorch is the same number here, at every door that takes one."""

from __future__ import annotations

import decimal
import fractions
import warnings

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch", reason="the oracle is not installed")

DTYPES = (
    None, "bool", "uint8", "int32", "int64", "float32", "float16", "float64",
    "bfloat16", "complex64",
)  # fmt: skip


class Index:
    def __index__(self):
        return 3


class Real:
    def __float__(self):
        return 2.5


class Whole:
    def __int__(self):
        return 4


class Truth:
    def __bool__(self):
        return True


class Float(float):
    pass


class Int(int):
    pass


FOUND = (
    decimal.Decimal("1.5"), fractions.Fraction(1, 2), Index(), Real(), Whole(), Truth(),
    Float(2.5), Int(3), {1, 2}, set(), {1: 2}, "x", "", b"x", None, np.float32(2.5),
    np.float64(2.5), np.int8(3), np.int64(-3), np.bool_(True), np.float16(1.5),
    np.complex128(1 + 2j), np.array(2.5), np.array(3), np.array([2.5]), np.array([]),
    np.datetime64("2020"), np.str_("a"), 2.5, 1 + 2j, 1 + 0j, 2**64, -(2**63) - 1, 2**63,
    2**1025, float("nan"), float("inf"), 1e300, 1e39, 1e9, True, 300, -300, 70000,
    object(), [], (), range(2), slice(2), Ellipsis,
)  # fmt: skip


def tensors(module):
    tensor = module.tensor
    return (
        tensor(2.5), tensor(3), tensor(True), tensor([2.5]), tensor([3]), tensor(1 + 2j),
        tensor(1 + 0j), tensor(1.5, dtype=module.bfloat16),
        tensor(2, dtype=module.uint8), tensor([]), tensor([1, 2]), module.float32,
    )  # fmt: skip


def at(index):
    """Assigns to a part of three ones."""

    def assign(module, value, dtype):
        ones = module.ones(3, dtype=dtype)
        mask = module.tensor([True, False, True])
        ones[{"mask": mask, "places": module.tensor([1])}.get(index, index)] = value
        return ones

    return assign


def where(module, value, dtype):
    mask = module.tensor([True, False])
    return module.where(mask, module.ones(2, dtype=dtype), value)


DOORS = {
    "tensor": lambda module, value, dtype: module.tensor(value, dtype=dtype),
    "in a list": lambda module, value, dtype: module.tensor([value], dtype=dtype),
    "behind one": lambda module, value, dtype: module.tensor([1, value], dtype=dtype),
    "before one": lambda module, value, dtype: module.tensor(
        [value, True], dtype=dtype
    ),
    "two deep": lambda module, value, dtype: module.tensor(
        [[value, value]], dtype=dtype
    ),
    "as_tensor": lambda module, value, dtype: module.as_tensor(value, dtype=dtype),
    "asarray": lambda module, value, dtype: module.asarray(value, dtype=dtype),
    "new_tensor": lambda m, value, dtype: m.ones(1).new_tensor([value], dtype=dtype),
    "full": lambda module, value, dtype: module.full((2,), value, dtype=dtype),
    "fill_": lambda module, value, dtype: module.ones(2, dtype=dtype).fill_(value),
    "an element": at(1),
    "a slice": at(slice(None)),
    "a mask": at("mask"),
    "places": at("places"),
    "where": where,
    "masked_fill": lambda m, value, dtype: m.ones(1, dtype=dtype).masked_fill(
        m.tensor([True]), value
    ),
}


def outcome(module, door, value, dtype):
    """The type, sizes and elements of a result, or that there is none."""
    kind = None if dtype is None else getattr(module, dtype)
    try:
        found = DOORS[door](module, value, kind)
    except (RuntimeError, TypeError, ValueError, OverflowError) as fault:
        return type(fault).__name__
    widest = module.complex128 if found.dtype.is_complex else module.float64
    name = str(found.dtype).rpartition(".")[2]
    return name, tuple(found.shape), str(found.to(widest).tolist())


# PyTorch takes these in assignments for no numbers: they are, and lose nothing.
TAKEN_HERE = (np.float32, np.float16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("door", DOORS)
def test_numbers_are_taken_and_others_refused_as_by_pytorch(door, dtype):
    assigned = door in ("an element", "a slice", "a mask", "places")
    pairs = [
        *zip(FOUND, FOUND, strict=True),
        *zip(tensors(rushlight), tensors(torch), strict=True),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ours, theirs in pairs:
            if assigned and isinstance(ours, TAKEN_HERE):
                continue
            found = outcome(rushlight, door, ours, dtype)
            assert found == outcome(torch, door, theirs, dtype), repr(theirs)


@pytest.mark.parametrize("kind", [float, int, complex, bool])
def test_one_element_is_a_number_where_it_is_one_on_pytorch(kind):
    def number(value):
        try:
            return repr(kind(value))
        except (RuntimeError, TypeError, ValueError, OverflowError) as fault:
            return type(fault).__name__

    values = [[1, 2], [], 1 + 2j, [1 + 0j], [2.5], float("nan"), float("inf"), [True]]
    for value in values:
        found = number(rushlight.tensor(value))
        assert found == number(torch.tensor(value)), value


def test_arrays_that_tensors_cannot_show_are_refused_by_all():
    backwards = np.arange(3.0)[::-1]
    swapped = np.arange(3, dtype=">i4")
    for array in backwards, swapped:
        for door in ("tensor", "as_tensor", "asarray", "Tensor", "from_numpy"):
            with pytest.raises(ValueError, match="negative|byte order"):
                getattr(rushlight, door)(array)
            with pytest.raises(ValueError, match="negative|byte order"):
                getattr(torch, door)(array)
