"""What values are kept as and computed in: one rule, with scales and zero points."""

import numpy as np
import pytest

from rushlight.codegen.frontend.complexes import Complex
from rushlight.codegen.frontend.nest import Nest, arrange
from rushlight.codegen.frontend.storage import (
    Storage,
    accumulated,
    computed,
    rounded_to,
)
from rushlight.codegen.language import exp, largest, total
from rushlight.ir.expr import Type, Var, f32


@Nest
def softmax(x, dim):
    mass = exp(x - largest(x, over=dim))
    return mass / total(mass, over=dim)


@pytest.mark.parametrize("columns", [5, 16, 50])
@pytest.mark.parametrize("beside", [False, True], ids=["along", "beside"])
def test_integers_stand_for_numbers_by_a_scale_and_a_zero_point(
    runner, columns, beside
):
    rng, order = np.random.default_rng(0), "F" if beside else "C"
    x = np.asarray(rng.integers(-128, 128, (20, columns)), np.int8, order=order)
    got = np.zeros_like(x, np.uint8)
    found = arrange([20], [columns], [got.strides, x.strides], [1, 1], 1)
    given, made = Storage("int8", 0.05, -7), Storage("uint8", 1 / 256, 3)
    specialization = ((given,), (made,), "float32", found.key, ())
    runner.call(softmax, specialization, [got, x], found.integers, found.rows)
    wide = (x.astype(np.float64) + 7) * 0.05
    mass = np.exp(wide - wide.max(1, keepdims=True))
    expected = np.rint(mass / mass.sum(1, keepdims=True) * 256) + 3
    difference = got.astype(int) - np.clip(expected, 0, 255)
    assert abs(difference).max() <= 1  # halves may go either way
    assert (difference != 0).mean() < 0.01


def test_types_follow_one_rule():
    assert computed("bfloat16") == computed("float8_e5m2") == f32
    assert computed("complex128") == Type("float64")
    assert computed("uint8") == Type("uint8")
    assert [accumulated(d) for d in ("float16", "complex64", "int8", "bool")] == [
        "float32", "complex64", "int64", "int64",
    ]  # fmt: skip
    pair = Storage("complex32")
    assert (pair.parts, pair.itemsize, pair.computed) == (2, 4, f32)
    half = rounded_to("float16", Var("x", f32))
    assert half.type == f32 and repr(half) == "f32(f16(x))"
    both = rounded_to("complex32", Complex(Var("x", f32), Var("y", f32)))
    assert repr(both.imag) == "f32(f16(y))"
