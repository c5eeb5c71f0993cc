"""Elementwise results have the oracle's shape, strides and dtype, whatever comes in."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight

from .layouts import LAYOUTS, SIZES, laid_out

torch = pytest.importorskip("torch", reason="the oracle is not installed")

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
CATEGORIES = ("tensor", "scalar tensor", "number")


def told(call):
    """The sizes of a call's result, or that it is refused."""
    try:
        return list(call().shape)
    except RuntimeError:
        return "refused"


@given(SIZES, SIZES)
@settings(max_examples=150, deadline=None)
def test_shapes_broadcast_as_the_oracles_do(left, right):
    def result(framework):
        a, b = framework.ones(tuple(left)), framework.ones(tuple(right))
        return told(lambda: a + b), told(lambda: framework.maximum(b, a))

    assert result(rushlight) == result(torch)


@given(SIZES, LAYOUTS, LAYOUTS, st.booleans())
@settings(max_examples=200, deadline=None)
def test_results_are_laid_out_as_the_oracles_are(sizes, first, second, alone):
    def result(framework):
        a = laid_out(framework, sizes, first)
        b = laid_out(framework, sizes, second)
        out = a.exp() if alone else a * b
        return list(out.shape), list(out.stride()), (a * 1 + b).tolist()

    assert result(rushlight) == result(torch)


@given(SIZES, LAYOUTS, st.data())
@settings(max_examples=150, deadline=None)
def test_an_operand_that_is_broadcast_leaves_the_layout(sizes, layout, data):
    mask = data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    small = [1 if one else size for one, size in zip(mask, sizes, strict=True)]

    def result(framework):
        a = laid_out(framework, sizes, layout)
        b = laid_out(framework, small, "plain")
        return list((a + b).stride()), list((b + a).stride()), (b - a).tolist()

    assert result(rushlight) == result(torch)


def operand(framework, dtype, category):
    """One as a tensor, a tensor without dimensions, or a Python number; or None."""
    if category != "number":
        sizes = (2,) if category == "tensor" else ()
        kind = getattr(framework, dtype)
        return framework.ones(sizes, dtype=kind, device="meta")
    return {"bool": True, "int64": 1, "float32": 1.0, "complex64": 1 + 0j}.get(dtype)


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
@pytest.mark.parametrize("first", CATEGORIES[:2])
@pytest.mark.parametrize("second", CATEGORIES)
def test_dtypes_promote_as_the_oracles_do(first, second):
    wrong = []
    for left, right in itertools.product(DTYPES, DTYPES):
        names = []
        for framework in (rushlight, torch):
            a = operand(framework, left, first)
            b = operand(framework, right, second)
            if b is None:
                continue
            names.append(str(framework.result_type(a, b)).split(".")[-1])
            names.append(str((a + b).dtype).split(".")[-1])
        if names[:2] != names[2:]:
            wrong.append((left, right, names))
    assert not wrong


def test_pairs_of_dtypes_promote_as_the_oracles_do():
    for left, right in itertools.product(DTYPES, DTYPES):
        ours = rushlight.promote_types(
            getattr(rushlight, left), getattr(rushlight, right)
        )
        theirs = torch.promote_types(getattr(torch, left), getattr(torch, right))
        assert ours.name == str(theirs).removeprefix("torch."), (left, right)
