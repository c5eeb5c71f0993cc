"""The verifier refuses programs that no emitter may see."""

import pytest

from rushlight.ir import expr as ir
from rushlight.ir.expr import Const, Var, f32, i64, load
from rushlight.ir.spec import SpecError, verify

data = Var("p", ir.Pointer(f32))
x = Var("x", f32)
i = Var("i", i64)
bind = ir.Let(data, ir.argument(0, f32))


def check(*body):
    verify(ir.kernel("k", body), after="a pass")


def test_a_sound_program_passes():
    check(
        bind,
        ir.Declare(x, Const(f32, 0)),
        ir.Assign(x, x + 1),
        ir.Store(data, Const(i64, 0), x),
    )


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        (
            [ir.Store(data, Const(i64, 0), Const(f32, 1))],
            "p is used before it is defined",
        ),
        ([bind, ir.Store(data, Const(i64, 0), i)], "i is used before it is defined"),
        ([bind, ir.Store(data, Const(i64, 0), ir.BEGIN)], "i64 is stored among f32"),
        ([ir.Let(x, Const(i64, 1))], "expected f32, found i64"),
        ([ir.Let(x, Const(f32, 1)), ir.Assign(x, x)], "not a mutable local"),
        ([ir.If(ir.BEGIN, ())], "expected boolean, found i64"),
        ([ir.Break()], "no loop to leave"),
        ([ir.Let(x, ir.Binary("add", Const(f32, 1), Const(i64, 1)))], "differ in type"),
        ([ir.Let(i, ir.Binary("div", ir.BEGIN, ir.END))], "divides floats"),
        ([bind, ir.Let(x, load(data, Const(f32, 1)))], "the index is f32"),
        ([ir.Let(i, ir.Reinterpret(i64, Const(f32, 1)))], "differ in width"),
        ([ir.For(i, ir.BEGIN, ir.END, (), kind="sideways")], "no kind of loop"),
        ([ir.For(i, ir.BEGIN, ir.END, ()), ir.Let(Var("j", i64), i)], "used before"),
    ],
)
def test_a_fault_is_named_with_the_pass_and_the_statement(body, fact):
    with pytest.raises(SpecError, match=fact) as caught:
        check(*body)
    assert str(caught.value).startswith("k after a pass: ")


def test_a_refused_value_names_a_fault_and_a_condition():
    x = ir.Var("x", ir.i64)
    for value, fact in (
        (ir.Refused("refuse_everything", x, x == 0), "is no fault"),
        (ir.Refused("refuse_zero_division", x, x), "the condition is i64"),
        (ir.Rarely(x, x, x), "the condition is i64"),
    ):
        let = ir.Let(ir.Var("y", ir.i64), value)
        with pytest.raises(SpecError, match=fact):
            verify(ir.Function("f", (x,), (let,), ir.i64))


def test_what_is_seldom_wanted_is_a_choice_like_any_other():
    x = ir.Var("x", ir.f32)
    value = ir.Rarely(x > 9.0, x * 2.0, x)
    assert isinstance(value, ir.Select)
    assert repr(value) == "rarely(x > 9.0, x * 2.0, x)"
    assert isinstance(value.rebuild(value.args), ir.Rarely)
