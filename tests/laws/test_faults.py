"""What a kernel refuses once it has seen the values, in every form and dtype."""

import operator

import numpy as np
import pytest

import rushlight
from rushlight import te
from rushlight.codegen.emit import python
from rushlight.codegen.language import floor_div, pointwise

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
DIVISIONS = {
    "floor_divide": {},
    "remainder": {},
    "fmod": {},
    "div": {"rounding_mode": "floor"},
    "divide": {"rounding_mode": "trunc"},
}


def whole(values, dtype, sizes=None):
    """Integers of a dtype; the last of ``sizes`` elements hold the last value."""
    array = np.full(sizes or len(values), values[-1], dtype)
    array.flat[: len(values)] = values
    return rushlight.from_numpy(array)


def refuses(call):
    with pytest.raises(RuntimeError, match="^ZeroDivisionError$"):
        call()


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", DIVISIONS)
def test_integers_are_not_divided_by_zero_in_any_form(name, dtype):
    function, settings = getattr(rushlight, name), DIVISIONS[name]
    x, zero = whole([7, 8, 9], dtype), whole([1, 0, 2], dtype)
    refuses(lambda: function(x, 0, **settings))
    refuses(lambda: function(x, zero, **settings))
    refuses(lambda: function(x, zero[1], **settings))
    refuses(lambda: function(x[0], zero[1], **settings))
    refuses(lambda: function(x, zero, **settings, out=whole([0, 0, 0], dtype)))
    refuses(lambda: getattr(x.clone(), name + "_")(zero, **settings))
    refuses(lambda: getattr(x.clone(), name + "_")(0, **settings))
    assert function(x[:0], 0, **settings).numel() == 0
    wide = function(x, zero.double(), **settings)
    assert wide.dtype.is_floating_point and not wide[1].isfinite()


@pytest.mark.parametrize("op", [operator.floordiv, operator.mod])
def test_numbers_are_not_divided_by_zeros(op):
    refuses(lambda: op(7, whole([3, 0], "int64")))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("size", [1, 15, 16, 17, 63, 64, 65, 8191, 40000, 200001])
def test_a_single_zero_is_seen_wherever_it_lies(size, dtype):
    x = whole([5], dtype, size)
    for at in {0, size // 2, size - 1}:
        divisor = whole([3], dtype, size)
        assert (x // divisor == 1).all()
        divisor[at] = 0
        refuses(lambda d=divisor: x // d)
        refuses(lambda d=divisor: x.fmod_(d))
        x.fill_(5)


def test_strided_operands_are_looked_at_where_they_lie():
    x = whole([5], "int32", (40, 50))
    divisor = whole([2], "int32", (50, 80))
    divisor[:, 1::2] = 0
    assert (x // divisor[:, ::2].t() == 2).all()
    refuses(lambda: x // divisor[:, 1::2].t())
    refuses(lambda: x // divisor[:40, 1:2])


@pytest.mark.parametrize("dtype", INTEGERS[1:])
def test_the_quotient_that_does_not_fit_wraps(dtype):
    lowest = rushlight.iinfo(getattr(rushlight, dtype)).min
    x, minus = whole([lowest], dtype, 70), whole([-1], dtype, 70)
    for divisor in (-1, minus):
        assert (x // divisor == lowest).all()
        assert (rushlight.div(x, divisor, rounding_mode="trunc") == lowest).all()
        assert (x % divisor == 0).all() and (x.fmod(divisor) == 0).all()


@pytest.mark.parametrize("name", DIVISIONS)
def test_truth_values_have_no_quotient(name):
    x = rushlight.tensor([True, False])
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        getattr(rushlight, name)(x, x, **DIVISIONS[name])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_that_are_shifted_out_are_gone(dtype):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    info = np.iinfo(dtype)
    array = np.array([1, 100, 7, info.max, info.min], dtype)
    x, y = rushlight.from_numpy(array), torch.from_numpy(array)
    for count in (0, 1, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 100, -1):
        for op in (operator.lshift, operator.rshift):
            assert op(x, count).tolist() == op(y, count).tolist(), (op, count)
            if info.min <= count <= info.max:
                counts = np.full(5, count, dtype)
                found = op(x, rushlight.from_numpy(counts)).tolist()
                assert found == op(y, torch.from_numpy(counts)).tolist(), (op, count)


def test_the_reference_emitter_tells_faults_too():
    kernel = pointwise(lambda x, y: floor_div(x, y))
    function = kernel.lowered(("int32", "int32"), ("int32",), "int32", ())
    out, x, y = (np.ones(20, np.int32) for _ in range(3))
    ints = [20, 4, 4, 4, 0, 0, 0]
    addresses = [a.ctypes.data for a in (out, x, y)]
    assert python.run(function, addresses, ints, 0, 1) == 0
    y[19] = 0
    assert python.run(function, addresses, ints, 0, 1) == 1


def test_tensor_expressions_divide_without_a_trap():
    x = te.placeholder((4,), name="x", dtype="int32")
    y = te.compute((4,), lambda i: 8 // x[i], name="y")
    run = te.build(te.create_schedule(y), [x, y])
    out = np.zeros(4, np.int32)
    run(np.array([1, 2, 0, 4], np.int32), out)
    assert out[[0, 1, 3]].tolist() == [8, 4, 2]
