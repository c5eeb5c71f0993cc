"""Rows of long tables: what every lane takes, on levels whose registers hold few numbers."""

import numpy as np
import pytest

from rushlight.codegen.emit import llvm
from rushlight.codegen.lower import lower
from rushlight.codegen.math import formats, pieces
from rushlight.codegen.target import named, using
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.ir.spec import SpecError, verify
from tests.codegen.test_pieces import exact_of as exact_in_double
from tests.codegen.test_pieces import units
from tests.codegen.test_targets import run_on

mpmath = pytest.importorskip("mpmath", reason="the exact values come from it")
LEVELS = "x86-64", "x86-64-v2", "x86-64-v3"


def kernel_of(value, dtype, name):
    """A kernel that stores ``value(x)`` of an array."""
    b, kind = Builder(), ir.Type(dtype)
    out, source = (b.let(f"p{k}", ir.argument(k, kind)) for k in range(2))
    with b.loop("i", ir.BEGIN, ir.END, kind="vectorized") as i:
        b.store(out, i, value(b.let("x", ir.load(source, i))))
    return lower(ir.kernel(name, b.statements))


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_lane_takes_its_own_row_of_a_table(target, dtype):
    places = np.arange(-70, 71).astype(dtype.replace("float", "int"))
    for width, size in (1, 64), (3, 256), (4, 128), (5, 512):
        table = np.random.default_rng(size).standard_normal((size, width)).astype(dtype)

        def mixed(x, table=table):
            found = pieces.looked_up(formats.bits(x), x, table.T.tolist())
            return sum(
                (f * float(k + 1) for k, f in enumerate(found)), ir.Const(x.type, 0.0)
            )

        with using(named(target)):
            function = kernel_of(mixed, dtype, f"mixed_{dtype}_{width}")
            text = llvm.emit(function)
        assert "masked.gather" not in text, "the lanes' rows are loaded and turned over"
        result = run_on(named(target), function, [places.view(dtype)])
        rows, exact = table[places % size], np.zeros(len(places), dtype)
        for k in range(width):
            exact += rows[:, k] * table.dtype.type(k + 1)
        np.testing.assert_array_equal(result, exact)


# The largest error in units in the last place, by rows of float64.
LIMITS = {
    "log": 0.51, "log2": 0.51, "log10": 0.51, "sin": 0.54, "cos": 0.54, "tan": 0.54,
    "erf": 0.52, "erfc": 0.66, "erfinv": 0.52,
}  # fmt: skip
SPANS = {
    "log": [(0.5, 2), (0.95, 1.05), (0, 100)], "sin": [(-4, 4), (-0.1, 0.1), (-1e4, 1e4)],
    "erf": [(-1, 1), (-0.05, 0.05), (-6, 6)], "erfc": [(-1, 1), (0, 8)],
    "erfinv": [(-1, 1), (-0.1, 0.1), (0.9, 0.999)],
}  # fmt: skip
SPANS |= {"log2": SPANS["log"], "log10": SPANS["log"], "cos": SPANS["sin"]}
SPANS["tan"] = SPANS["sin"]


def exact_of(name, x):
    """The function's values as sums of two numbers."""
    function = {"log2": lambda v: mpmath.log(v, 2)}.get(name) or getattr(mpmath, name)
    with mpmath.workprec(140):
        values = [function(mpmath.mpf(float(number))) for number in x]
        return np.array(
            [
                np.longdouble(float(v)) + np.longdouble(float(v - float(v)))
                for v in values
            ]
        )


@pytest.mark.parametrize("name", LIMITS)
def test_functions_of_float64_by_rows_are_as_near_as_by_registers(name):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(*span, 500) for span in SPANS[name]])
    with using(named("x86-64-v3")):
        function = kernel_of(
            lambda v: ir.Call(name, v.type, v), "float64", f"rows_{name}"
        )
    result = run_on(named("x86-64-v3"), function, [x])
    assert units(result, exact_of(name, x), "float64").max() <= LIMITS[name]


@pytest.mark.parametrize(("name", "limit", "spans"), [
    ("sin", 0.61, [(-3, 3), (-0.3, 0.3), (-810, 810)]),
    ("cos", 0.61, [(-3, 3), (-0.3, 0.3), (-810, 810)]),
    ("erfinv", 0.6, [(-1, 1), (-0.3, 0.3), (0.29, 0.31)]),
    ("erfc", 0.58, [(-1, 1), (0, 9)]),
    ("asin", 0.63, [(-1, 1), (0.45, 0.55)]),
    ("acos", 0.74, [(-1, 1), (-0.1, 0.1)]),
])  # fmt: skip
def test_functions_of_float32_by_avx2_are_near_where_their_pieces_meet(
    name, limit, spans
):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(*span, 60_000) for span in spans]).astype("float32")
    x = np.concatenate([x, np.array([0.0, -0.0, np.nan, np.inf, 1e30], "float32")])
    with using(named("x86-64-v3")):
        function = kernel_of(
            lambda v: ir.Call(name, v.type, v), "float32", f"short_{name}"
        )
    result = run_on(named("x86-64-v3"), function, [x])
    with np.errstate(invalid="ignore"):
        exact = exact_in_double(name)(x.astype("float64"))
    assert units(result, exact, "float32").max() <= limit
    signed = np.signbit(result[-4 - 1 : -3])
    assert list(signed) == (
        [False, True] if name in ("sin", "asin", "erfinv") else [False, False]
    )


def test_columns_that_a_table_has_not_are_refused():
    index, x = ir.Var("i", ir.i32), ir.Var("x", ir.f32)
    numbers = [ir.Const(ir.f32, 0.5)] * 8
    for place, width in (2, 2), (0, 3):
        words = [ir.Const(ir.i32, word) for word in (place, width)]
        body = (ir.Return(ir.Call("column", x.type, index, *words, *numbers)),)
        with pytest.raises(SpecError, match="no column"):
            verify(ir.Function("wrong", (index, x), body, ir.f32))
