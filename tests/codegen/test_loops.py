"""Loop kernels: what the reader accepts, refuses, and that both ways to run agree."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.codegen.language import exp, log1p, maximum
from rushlight.codegen.loops import (
    A,
    Integers,
    T,
    f32,
    f64,
    i64,
    is_float,
    local,
    loops,
    loops_inline,
    lowest,
    stored,
    vectorized,
)
from rushlight.runtime.cpu.launch import launch

SCALE = 3


@loops
def running_sum(out: "T*", x: "T*", size: int, begin: int, end: int):
    """Sums so far of every row."""
    for row in range(begin, end):
        mass = A(0)
        for i in range(size):
            mass += A(x[row * size + i])
            out[row * size + i] = T(mass)


@loops
def first_large(out: "i64*", x: "T*", size: int, begin: int, end: int):
    """Where the first element above one is; the bound is tested before the load."""
    for row in range(begin, end):
        k = 0
        while k < size and not x[row * size + k] > T(1):
            k = k + 1
        out[row] = k if k < size else -1


@loops_inline
def swap_to_order(a, b):
    """Both values, the smaller first."""
    low = b if b < a else a
    high = a if b < a else b
    return low, high


AXIS = Integers("size stride")


@loops_inline
def span(at, axis):
    """Where a step begins, and where the next one does."""
    return at * axis.stride, min(axis.size, (at + 1) * axis.stride)


@loops_inline
def total(x, row, columns):
    """The sum of what lies between two columns."""
    first, end = columns
    mass = A(0)
    for k in range(first, end):
        mass += A(x[row + k])
    return mass


@loops
def sum_of_steps(out: "T*", x: "T*", axis: AXIS, steps: int, begin: int, end: int):
    """Sums of as many elements of a row as a step has."""
    for row in range(begin, end):
        for at in range(steps):
            columns = span(at, axis)
            out[row * steps + at] = T(total(x, row * axis.size, columns))


@loops
def sort_threes(out: "T*", x: "T*", begin: int, end: int):
    """Sorts groups of three through a local array."""
    for row in range(begin, end):
        held = local("T", SCALE)
        for k in range(SCALE):
            held[k] = x[row * 3 + k]
        for _ in range(2):
            for k in range(2):
                held[k], held[k + 1] = swap_to_order(held[k], held[k + 1])
        for k in range(2, -1, -1):
            out[row * 3 + k] = held[k]


@loops
def softplus(out: "T*", x: "T*", begin: int, end: int):
    """Functions of the language, over a vectorised loop."""
    for k in vectorized(begin, end):
        v = A(x[k])
        out[k] = T(maximum(v, A(0)) + log1p(exp(-abs(v))))


@loops
def count_pairs(out: "i64*", x: "i64*", width: int, begin: int, end: int):
    """Breaks and continues: how many elements before the first zero are not width."""
    for row in range(begin, end):
        total = 0
        for k in range(width):
            v = x[row * width + k]
            if v == 0:
                break
            elif v == width:
                continue
            total += 1
        out[row] = total


@loops
def divide(quotient: "i64*", rest: "i64*", x: "i64*", y: "i64*", begin: int, end: int):
    """Python's division of integers."""
    for k in range(begin, end):
        quotient[k] = x[k] // y[k]
        rest[k] = x[k] % y[k]


@loops
def largest(out: "T*", x: "T*", size: int, begin: int, end: int):
    """The largest of each row."""
    for row in range(begin, end):
        best = lowest(T)
        for k in range(size):
            v = x[row * size + k]
            if v > best:
                best = v
        out[row] = best


def run_native(kernel, arrays, ints, total, **choices):
    """Launches over NumPy arrays by their addresses."""
    addresses = [array.ctypes.data for array in arrays]
    launch(kernel.specialize(**choices), addresses, ints, total, total)


def both_ways(kernel, outputs, inputs, ints, total, **choices):
    """The outputs of the native kernel, checked against the reference's."""
    native = [np.zeros_like(array) for array in outputs]
    expected = [np.zeros_like(array) for array in outputs]
    run_native(kernel, [*native, *inputs], ints, total, **choices)
    kernel.reference([*expected, *inputs], ints, 0, total, **choices)
    for ours, theirs in zip(native, expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    return native


def noise(*shape, dtype="float32"):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype).ravel()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_a_running_sum_equals_numpys(dtype):
    x = (noise(4, 33) * 4).astype(dtype)
    (out,) = both_ways(running_sum, [x], [x], [33], 4, T=dtype)
    wide = np.float32 if dtype == "float16" else None
    expected = np.cumsum(x.reshape(4, 33), 1, dtype=wide).astype(dtype)
    np.testing.assert_allclose(out.reshape(4, 33), expected, rtol=2e-3)


def test_frozen_integers_give_the_same_result():
    x = noise(4, 16)
    (out,) = both_ways(running_sum, [x], [x], [16], 4, T="float32", size=16)
    np.testing.assert_allclose(out.reshape(4, 16), np.cumsum(x.reshape(4, 16), 1), 1e-5)


def test_and_does_not_evaluate_its_right_side_needlessly():
    x = np.full(8, -1, "float32")
    out = np.zeros(2, "int64")
    x[5] = 2
    (found,) = both_ways(first_large, [out], [x], [4], 2, T="float32")
    assert found.tolist() == [-1, 1]


def test_local_arrays_tuples_and_counting_down():
    x = noise(5, 3)
    (out,) = both_ways(sort_threes, [x], [x], [], 5, T="float32")
    assert (out.reshape(5, 3) == np.sort(x.reshape(5, 3), 1)).all()


def test_functions_of_the_language():
    x = noise(1000) * 10
    (out,) = both_ways(softplus, [x], [x], [], 1000, T="float32")
    np.testing.assert_allclose(out, np.logaddexp(x, 0), rtol=1e-5)


def test_break_and_continue():
    x = np.array([1, 4, 2, 0, 4, 4, 4, 4, 1, 1, 1, 1])
    (out,) = both_ways(count_pairs, [np.zeros(3, "int64")], [x], [4], 3)
    assert out.tolist() == [2, 0, 4]


def test_division_rounds_down_as_pythons():
    x = np.array([7, -7, 7, -7, 0])
    y = np.array([2, 2, -2, -2, 5])
    quotient, rest = both_ways(divide, [x, x], [x, y], [], 5)
    assert quotient.tolist() == [3, -4, -4, 3, 0]
    assert rest.tolist() == [1, 1, -1, -1, 0]


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64", "uint8"])
def test_lowest_is_below_every_value(dtype):
    x = (noise(3, 20) * 9).astype(dtype)
    (out,) = both_ways(largest, [x[:3]], [x], [20], 3, T=dtype)
    assert (out == x.reshape(3, 20).max(1)).all()


@loops
def halve(out: "T*", x: "T*", begin: int, end: int):
    """Half of each element: a branch that only one kind of type can compile."""
    for k in range(begin, end):
        if is_float(T):
            out[k] = x[k] / T(2)
        else:
            out[k] = x[k] // T(2)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_branches_on_types_are_chosen_while_reading(dtype):
    x = np.arange(8).astype(dtype)
    (out,) = both_ways(halve, [x], [x], [], 8, T=dtype)
    assert (out == (x / 2 if dtype == "float32" else x // 2)).all()


@loops
def twice_rounded(out: "f32*", x: "T*", begin: int, end: int):
    """Squares as they are once they were stored, for readers of more digits."""
    for k in range(begin, end):
        out[k] = stored("T", x[k] * x[k])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_stored_values_have_the_digits_of_their_type(dtype):
    x = noise(40, dtype=dtype)
    (out,) = both_ways(twice_rounded, [x.astype("float32")], [x], [], 40, T=dtype)
    assert (out == (x * x).astype("float32")).all()


def test_lowered_kernels_print_as_python():
    text = str(running_sum.lower(T="float32"))
    assert "for row in range(begin, end):" in text
    assert "mass = f32(0.0)" in text


def refused(function):
    """The message with which lowering a kernel fails."""
    with pytest.raises(SyntaxError) as error:
        loops(function).lower(T="float32")
    return str(error.value)


def test_errors_name_the_file_and_line():
    def kernel(out: "T*", begin: int, end: int):
        with out:
            pass

    line = kernel.__code__.co_firstlineno + 1
    assert refused(kernel) == (
        f"{__file__}:{line}: in loop kernel kernel: With statements are not supported"
    )


def test_mixed_types_are_refused():
    def kernel(out: "T*", begin: int, end: int):
        out[begin] = out[begin] + f64(1)

    assert "operands differ in type (f32, f64): cast one of them" in refused(kernel)


def test_a_float_literal_needs_a_type():
    def kernel(out: "T*", begin: int, end: int):
        mass = 0.0
        out[begin] = mass

    assert "write A(0.0) or f32(0.0)" in refused(kernel)


def test_a_variable_keeps_its_type():
    def kernel(out: "T*", begin: int, end: int):
        mass = f32(0)
        mass = begin
        out[begin] = mass

    assert "mass is f32 since its first value; this value is i64" in refused(kernel)


def test_names_live_in_their_block():
    def kernel(out: "T*", begin: int, end: int):
        if begin < end:
            mass = f32(0)
        out[begin] = mass

    assert "mass has no value here" in refused(kernel)


def test_unknown_functions_are_refused():
    def kernel(out: "T*", begin: int, end: int):
        out[begin] = float(begin)

    assert "float is not a function of the kernel language" in refused(kernel)


def test_parameters_need_annotations():
    def kernel(out, begin: int, end: int):
        out[begin] = i64(0)

    assert "parameter out needs an annotation: int, a record" in refused(kernel)


def test_kernels_are_not_called_directly():
    with pytest.raises(TypeError, match=r"launch running_sum.specialize\(T=...\)"):
        running_sum([], 0, 0, 1)


@pytest.mark.parametrize("frozen", [{}, {"axis_stride": 3}])
def test_records_and_names_for_several_values_are_read_as_their_parts(frozen):
    x, choices = np.arange(14, dtype="float32"), {"T": "float32", **frozen}
    (out,) = both_ways(
        sum_of_steps, [np.zeros(6, "float32")], [x], [7, 3, 3], 2, **choices
    )
    assert out.tolist() == [3, 12, 6, 24, 33, 13]


def test_collapsed_kernels_count_the_innermost_turns():
    x, out = np.arange(14, dtype="float32"), np.full(6, -1, "float32")
    run_native(sum_of_steps.collapsed, [out, x], [7, 3, 3], 5, T="float32")
    assert out.tolist() == [3, 12, 6, 24, 33, -1]


def test_a_name_for_several_values_is_given_them_once():
    def kernel(out: "T*", axis: AXIS, begin: int, end: int):
        columns = span(begin, axis)
        columns = span(end, axis)
        out[begin] = total(out, 0, columns)

    assert "or several values is given them once" in refused(kernel)


def test_records_have_only_their_own_integers():
    def kernel(out: "T*", axis: AXIS, begin: int, end: int):
        out[axis.width] = T(0)

    assert "there is no integer axis.width" in refused(kernel)
