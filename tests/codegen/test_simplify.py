"""Every rule keeps its value on all small integers."""

import itertools

import pytest

from rushlight.ir.expr import Const, Var, binary, i64, select, u8
from rushlight.ir.rewrite import LITERALS, evaluate
from rushlight.ir.simplify import INDEX_RULES, simplify

i, j = Var("i", i64), Var("j", i64)
SMALL = range(-6, 7)


@pytest.mark.parametrize("rule", list(INDEX_RULES), ids=str)
def test_rule_keeps_its_value_on_all_small_integers(rule):
    names = rule.names
    applied = 0
    for numbers in itertools.product(SMALL, repeat=len(names)):
        values = dict(zip(names, numbers))
        literals = {n: v for n, v in values.items() if n in LITERALS}
        if rule.condition is not None and not evaluate(rule.condition, literals):
            continue
        applied += 1
        assert evaluate(rule.before, values) == evaluate(rule.after, values), values
    assert applied


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((i * 4 + 8) // 4, "i + 2"),
        ((i + 1) + 2, "i + 3"),
        ((i * 4 + j) % 4, "j % 4"),
        (binary("min", i, binary("max", i, j)), "i"),
        (i + 3 < 10, "i < 7"),
        (select(Const(i64, 1) == 1, i, j), "i"),
        (0 + i * 1 - 0, "i"),
        (2 + (i + 3), "i + 5"),
    ],
)
def test_indices_simplify(before, after):
    assert repr(simplify(before)) == after


def test_comparisons_of_narrow_data_may_wrap_and_stay():
    x = Var("x", u8)
    assert repr(simplify(x + 1 < 5)) == "x + 1 < 5"
