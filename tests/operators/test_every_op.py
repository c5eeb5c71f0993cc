"""Every operator that has samples, held to the oracle and to its own derivatives."""

import math
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as rl
from rushlight._generated.samples import SAMPLES
from rushlight.autograd.gradcheck import gradcheck, gradgradcheck
from rushlight.operators import call

ROWS = [pytest.param(row, id=".".join(filter(None, row[:2]))) for row in SAMPLES]
SMOOTH = [param for param in ROWS if param.values[0][5]]
# Functions with a kink or a jump: a finite difference across it says nothing.
KINKED = {"round", "floor", "ceil", "trunc", "frac", "sign", "sgn", "heaviside"}
INTEGERS_ONLY = {
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift",
    "bitwise_right_shift", "gcd", "lcm",
}  # fmt: skip
FLOATS_ONLY = {"nextafter", "hypot"}
# These refuse integers with other words than "not implemented".
SHAPES = st.sampled_from([((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 4))])
LAYOUTS = st.sampled_from(["plain", "turned", "spaced"])


def numbers(row, shape, dtype, salt):
    """Numbers within an operator's range, the same in every run."""
    name, overload, low, high = row[:4]
    seed = zlib.crc32(f"{name}.{overload}.{salt}".encode())
    values = np.random.default_rng(seed).uniform(low, high, shape)
    if dtype.startswith("float"):
        return np.asarray(values, dtype=dtype)
    return np.asarray(np.maximum(np.floor(values), math.ceil(low)), dtype=dtype)


def laid_out(module, array, layout):
    """A tensor of the array: row-major, transposed, or every other element."""
    if layout == "turned" and array.ndim == 2:
        return module.from_numpy(np.ascontiguousarray(array.T)).t()
    if layout == "spaced" and array.ndim:
        wide = np.repeat(array, 2, axis=-1)
        return module.from_numpy(wide)[..., ::2]
    return module.from_numpy(array.copy())


def function_of(row, module):
    """The public function of an operator, or None."""
    name = row[0]
    for prefix in ("special", "linalg"):
        if name.startswith(prefix + "_"):
            return getattr(
                getattr(module, prefix), name.removeprefix(prefix + "_"), None
            )
    return getattr(module, name, None) or getattr(module.nn.functional, name, None)


def dtypes_of(name):
    """The dtypes that an operator is tried with."""
    if name in INTEGERS_ONLY:
        return ["int64", "uint8"]
    return ["float32", "float64"] if name in FLOATS_ONLY else ["float32", "int64"]


@pytest.mark.parametrize("row", ROWS)
@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_value_dtype_strides_and_gradient_are_the_oracles(row, data):
    from tests.operators.oracle import (
        assert_agrees,
        assert_gradients_agree,
        gradients,
        torch,
    )

    theirs = function_of(row, torch)
    mine = function_of(row, rl)
    if theirs is None or not callable(theirs):
        pytest.skip("the oracle has no such function")
    dtype = data.draw(st.sampled_from(dtypes_of(row[0])))
    shapes, layout = data.draw(SHAPES), data.draw(LAYOUTS)
    arrays = [
        numbers(row, shapes[min(k, 1)], dtype, k) for k in range(row[4])
    ]  # fmt: skip
    left = [laid_out(rl, array, layout) for array in arrays]
    right = [laid_out(torch, array, layout) for array in arrays]
    if dtype.startswith("float") and row[5]:
        left = [tensor.requires_grad_() for tensor in left]
        right = [tensor.requires_grad_() for tensor in right]
    try:
        expected = theirs(*right)
    except (RuntimeError, NotImplementedError):
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
            mine(*left)
        return
    result = mine(*left)
    assert_agrees(result, expected)
    assert result.stride() == expected.stride()
    assert_gradients_agree(
        gradients(rl, result, left), gradients(torch, expected, right)
    )


def smooth_inputs(row):
    """Small float64 tensors that ask for gradients; the numbers are all different."""
    shapes = ((2, 2), (2,))
    arrays = [numbers(row, shapes[min(k, 1)], "float64", k + 7) for k in range(row[4])]
    return tuple(rl.from_numpy(array).requires_grad_() for array in arrays)


@pytest.mark.parametrize("row", SMOOTH)
def test_derivative_matches_finite_differences(row):
    if row[0] in KINKED:
        pytest.skip("a step function")
    assert gradcheck(getattr(call, row[0]), smooth_inputs(row))


@pytest.mark.parametrize("row", SMOOTH)
def test_second_derivative_matches_finite_differences(row):
    if row[0] in KINKED:
        pytest.skip("a step function")
    assert gradgradcheck(getattr(call, row[0]), smooth_inputs(row), atol=1e-4)


@pytest.mark.parametrize("row", ROWS)
def test_in_place_and_out_forms_equal_the_function(row):
    dtype = dtypes_of(row[0])[0]
    tensors = [rl.from_numpy(numbers(row, (2, 3), dtype, k)) for k in range(row[4])]
    packet = getattr(call, row[0])
    expected = packet(*tensors)
    in_place = getattr(call, row[0] + "_", None)
    if in_place is not None and expected.dtype == tensors[0].dtype:
        first = tensors[0].clone()
        assert in_place(first, *tensors[1:]) is first
        np.testing.assert_array_equal(first.numpy(), expected.numpy())
    operator = getattr(packet, row[1] or "default", None)
    if operator is not None and operator.out is not None:
        target = rl.empty((0,), dtype=expected.dtype)
        assert packet(*tensors, out=target) is target
        np.testing.assert_array_equal(target.numpy(), expected.numpy())
