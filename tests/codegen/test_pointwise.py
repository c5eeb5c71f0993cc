"""Elementwise kernels against NumPy, in every layout and dtype."""

import ctypes
import mmap

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rushlight.codegen import language as L
from rushlight.codegen.language import pointwise

FLOATS = ["float32", "float64"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]


@pointwise
def add(x, y):
    return x + y


@pointwise
def scaled_add(x, y, alpha):
    return x + y * alpha


@pointwise
def relu(x):
    return L.maximum(x, 0)


@pointwise
def multiply(x, y):
    return x * y


@pointwise
def divide(x, y):
    return x / y


@pointwise
def floor_divide(x, y):
    return L.floor_div(x, y)


@pointwise
def remainder(x, y):
    return L.remainder(x, y)


@pointwise
def truncated_divide(x, y):
    return L.trunc_div(x, y)


@pointwise
def fmod(x, y):
    return L.fmod(x, y)


@pointwise
def less(x, y):
    return x < y


@pointwise
def identity(x):
    return x


@pointwise
def first_of_two(x, y):
    return x


@pointwise
def extremes(x, y):
    return L.minimum(x, y), L.maximum(x, y), L.fmin(x, y), L.fmax(x, y)


@pointwise
def larger_than(x, bound):
    return L.maximum(x, bound)


@pointwise
def smaller_than(x, bound):
    return L.minimum(x, bound)


@pointwise
def magnitude(x):
    return abs(x)


@pointwise
def gelu(x, approximate):
    if approximate == "tanh":
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + L.tanh(inner))
    return 0.5 * x * (1 + L.erf(x * 0.7071067811865476))


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("complex"):
        parts = rng.standard_normal((2, *shape))
        return (parts[0] + 1j * parts[1]).astype(dtype)
    if dtype.startswith("float"):
        return (rng.standard_normal(shape) * 3).astype(dtype)
    low = 0 if dtype.startswith("u") else -100
    return rng.integers(low, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, *UNSIGNED])
def test_sum_of_contiguous_arrays(runner, dtype):
    x, y = numbers((37,), dtype), numbers((37,), dtype, 1)
    np.testing.assert_array_equal(runner.pointwise(add, x, y), x + y)


@pytest.mark.parametrize("n", [0, 1, 3, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025, 5000])
def test_every_length_has_its_tail(native, n):
    x, y = numbers((n,), "float32"), numbers((n,), "float32", 1)
    np.testing.assert_array_equal(native.pointwise(add, x, y), x + y)


@pytest.mark.parametrize("n", [5, 3000])
def test_every_mixture_of_layouts(native, n):
    whole = numbers((4, 2 * n), "float32")
    layouts = [
        whole[:, :n],
        whole[:, ::2],
        whole[:, ::-2],
        whole[:, :1],
        whole[:1, :n],
        whole[:1, :1],
    ]
    for x in layouts:
        for y in layouts:
            got = np.zeros((4, n), np.float32)
            native.into(add, [got], [x, y], "float32")
            np.testing.assert_array_equal(got, np.broadcast_to(x + y, (4, n)))


@pytest.mark.parametrize("dtype", ["bool", *FLOATS, *SIGNED, *UNSIGNED, "complex64"])
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 16, 17, 64, 65, 1024, 1025, 2049])
def test_one_value_for_a_row_and_every_second_element_in_every_type(native, dtype, n):
    if dtype == "complex64":
        whole = (numbers((3, 2 * n), "float32") * (1 + 2j)).astype(dtype)
    else:
        whole = numbers((3, 2 * n), "float32").astype(dtype)
    for x in (whole[:, :1], whole[:, ::2], whole[:, 1::2], whole[::2, ::2]):
        y = whole[: len(x), n:]
        got = np.zeros(y.shape, dtype)
        native.into(first_of_two, [got], [x, y], dtype)
        np.testing.assert_array_equal(got, np.broadcast_to(x, y.shape))


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
@pytest.mark.parametrize("n", [1, 2, 8, 9, 16, 17, 33])
def test_nothing_behind_the_last_of_every_second_element_is_read(native, dtype, n):
    room = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    behind = ctypes.c_void_p(start + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE)
    page = np.frombuffer(room, dtype, mmap.PAGESIZE // np.dtype(dtype).itemsize)
    page[:] = np.arange(len(page)) % 100
    x = page[len(page) - 2 * n + 1 :: 2]
    expected, got = x.copy(), np.zeros(n, dtype)
    assert protect(*behind, 0) == 0
    try:
        native.into(first_of_two, [got], [x, got.copy()], dtype)
    finally:
        assert protect(*behind, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    np.testing.assert_array_equal(got, expected)


def test_outputs_may_be_strided(runner):
    whole = np.zeros((3, 50), np.float32)
    x = numbers((3, 25), "float32")
    runner.into(relu, [whole[:, ::2]], [x], "float32")
    np.testing.assert_array_equal(whole[:, ::2], np.maximum(x, 0))
    assert not whole[:, 1::2].any()


def test_an_output_may_be_an_input(native):
    x = numbers((3001,), "float32")
    expected = x + x
    native.into(add, [x], [x, x], "float32")
    np.testing.assert_array_equal(x, expected)


def test_scalar_operands_have_stride_zero(runner):
    x, y = numbers((20,), "float32"), numbers((20,), "float32", 1)
    alpha = np.full((1,), 2.5, np.float32)
    np.testing.assert_allclose(
        runner.pointwise(scaled_add, x, y, alpha), x + y * alpha, rtol=1e-6
    )


SIMPLE = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
]


@pytest.mark.parametrize("target", SIMPLE)
@pytest.mark.parametrize("source", SIMPLE)
def test_casts_are_numpys(runner, source, target):
    x = numbers((40,), source)
    if target.startswith("u") and not source.startswith("u"):
        x = abs(x)
    np.testing.assert_array_equal(
        runner.pointwise(identity, x, compute=source, out=target), x.astype(target)
    )


def test_bfloat16_rounds_halves_to_even(native):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy has no bfloat16 itself")
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 1 << 14, dtype=np.uint32)
    x = np.concatenate(
        [
            bits.view(np.float32),
            np.array([0, -0.0, np.inf, -np.inf, np.nan], np.float32),
        ]
    )
    got = native.pointwise(identity, x, out=ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(
            got.astype(np.float32), expected.astype(np.float32)
        )


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_integer_division_rounds_down(runner, dtype):
    x, y = numbers((60,), dtype), numbers((60,), dtype, 1)
    y[y == 0] = 7
    np.testing.assert_array_equal(runner.pointwise(floor_divide, x, y), x // y)
    np.testing.assert_array_equal(runner.pointwise(remainder, x, y), x % y)
    np.testing.assert_array_equal(runner.pointwise(fmod, x, y), np.fmod(x, y))
    quotient = np.trunc(x.astype(float) / y).astype(dtype)
    np.testing.assert_array_equal(runner.pointwise(truncated_divide, x, y), quotient)


def test_integer_division_does_not_trap(native):
    x = np.array([1, -(1 << 31), 5], np.int32)
    y = np.array([1, -1, 2], np.int32)
    assert native.pointwise(floor_divide, x, y).tolist()[1:] == [-(1 << 31), 2]
    assert native.pointwise(remainder, x, y).tolist()[1:] == [0, 1]
    y[0] = 0
    for kernel in (floor_divide, remainder):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            native.pointwise(kernel, x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_remainders_are_exact(native, dtype):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(4000) * 10.0 ** rng.integers(-5, 20, 4000)).astype(dtype)
    y = (rng.standard_normal(4000) * 10.0 ** rng.integers(-5, 5, 4000)).astype(dtype)
    edges = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 5.5], dtype)
    x = np.concatenate([x, np.repeat(edges, 8)])
    y = np.concatenate([y, np.tile(edges, 8)])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(native.pointwise(fmod, x, y), np.fmod(x, y))
        np.testing.assert_array_equal(native.pointwise(remainder, x, y), x % y)


@given(x=st.floats(-1e6, 1e6), y=st.floats(-1e3, 1e3).filter(lambda y: abs(y) > 1e-6))
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_float_floor_division_is_pythons(native, x, y):
    got = native.pointwise(floor_divide, np.array([x]), np.array([y]))
    assert got[0] == x // y


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "uint8"])
def test_extremes_treat_nan_as_asked(runner, dtype):
    x, y = numbers((30,), dtype), numbers((30,), dtype, 1)
    if dtype in FLOATS:
        x[::3] = np.nan
        y[::5] = np.nan
    got = runner.pointwise(extremes, x, y, out=(dtype,) * 4)
    for value, function in zip(got, (np.minimum, np.maximum, np.fmin, np.fmax)):
        np.testing.assert_array_equal(value, function(x, y))


def test_comparisons_give_bool(runner):
    x, y = numbers((33,), "float32"), numbers((33,), "float32", 1)
    x[0] = np.nan
    np.testing.assert_array_equal(runner.pointwise(less, x, y, out="bool"), x < y)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("kernel", [add, multiply, divide], ids=lambda k: k.name)
def test_complex_arithmetic(runner, kernel, dtype):
    x, y = numbers((21,), dtype), numbers((21,), dtype, 1)
    expected = {"add": x + y, "multiply": x * y, "divide": x / y}[kernel.name]
    np.testing.assert_allclose(runner.pointwise(kernel, x, y), expected, rtol=1e-5)


def test_the_magnitude_of_a_complex_number_is_real(runner):
    x = numbers((3, 21), "complex64")[:, ::2]
    got = runner.pointwise(magnitude, x, compute="complex64", out="float32")
    np.testing.assert_allclose(got, abs(x), rtol=1e-6)


def test_static_arguments_choose_the_formula(native):
    x = numbers((100,), "float32")
    exact = native.pointwise(gelu, x, static=("none",))
    close = native.pointwise(gelu, x, static=("tanh",))
    np.testing.assert_allclose(exact, close, atol=2e-3)
    assert not np.array_equal(exact, close)


def test_narrow_floats_are_computed_in_single_precision(native):
    x = numbers((100,), "float16")
    got = native.pointwise(gelu, x, static=("none",))
    expected = native.pointwise(gelu, x.astype(np.float32), static=("none",))
    np.testing.assert_array_equal(got, expected.astype(np.float16))


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_with_a_number_are_those_with_a_value(runner, dtype):
    ends = [0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, -1.5]
    x = np.array(ends * 7, dtype)
    for bound in (0.0, 1.5, np.inf, -np.inf, np.nan, -1.5):
        others = np.full_like(x, bound)
        for with_number, pick in (
            (larger_than, np.maximum),
            (smaller_than, np.minimum),
        ):
            got = runner.pointwise(with_number, x, static=(bound,))
            np.testing.assert_array_equal(got, pick(x, others))
            # Of two zeros the number is taken.
            zeros = (x == 0) & (bound == 0)
            assert np.array_equal(np.signbit(got[zeros]), np.signbit(others[zeros]))


def test_a_specialisation_is_made_once():
    key = (("float32",) * 2, ("float32",), "float32")
    assert add.specialize(*key) is add.specialize(*key)


def test_every_stage_can_be_read():
    stages = relu.stages(("float32",), ("float32",), "float32", ())
    assert stages.expression == "def relu(x: f32):\n    return maximum(x, 0.0)"
    assert [name for name, _ in stages.loops][0] == "built"
    assert "out[i] = maximum(x, 0.0)" in stages.loops[0][1]
    assert "define i32 @relu__f32__f32__f32" in stages.llvm
    assert "<16 x float>" in stages.optimized or "vector.body" in stages.optimized
    assert "relu__f32__f32__f32:" in stages.assembly


def test_a_wrong_number_of_outputs_is_named():
    with pytest.raises(TypeError, match="extremes computes 4 values for 1 outputs"):
        extremes.lowered(("float32",) * 2, ("float32",), "float32", ())
