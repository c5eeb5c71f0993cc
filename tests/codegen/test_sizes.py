"""The algebra of symbolic integers keeps values, and proves only what is so."""

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.ir import expr as ir
from rushlight.ir import formulas, sizes
from rushlight.ir.formulas import Formula
from rushlight.ir.simplify import simplify
from rushlight.ir.sizes import COMPUTED, Symbol

NAMES = ("s0", "s1", "i0")
SYMBOLS = [Symbol("s0", 4), Symbol("s1", 6), Symbol("i0", 3, least=None)]
COMPARED = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
PLAIN = {**{n: getattr(operator, n) for n in ("add", "sub", "mul", "floordiv", "mod")},
         "min": min, "max": max}  # fmt: skip


@st.composite
def trees(draw, depth=4):
    """A tree of operations, on symbols' numbers and integers."""
    if depth == 0 or draw(st.booleans()) and depth < 3:
        leaf = st.one_of(st.sampled_from(NAMES), st.integers(-6, 12))
        return draw(leaf)
    name = draw(st.sampled_from([*PLAIN]))
    left = draw(trees(depth - 1))
    if name in ("floordiv", "mod"):
        return name, left, draw(st.integers(1, 8))
    return name, left, draw(trees(depth - 1))


def built(tree, symbol, operations):
    """What a tree gives, of symbols and operations."""
    if isinstance(tree, str):
        return symbol(tree)
    if isinstance(tree, int):
        return tree
    name, left, right = tree
    sides = built(left, symbol, operations), built(right, symbol, operations)
    return operations[name](*sides)


def expression(tree):
    return built(tree, lambda name: SYMBOLS[NAMES.index(name)], COMPUTED)


VALUES = st.fixed_dictionaries(
    {"s0": st.integers(2, 40), "s1": st.integers(2, 40), "i0": st.integers(-20, 40)}
)


@settings(max_examples=60, deadline=None)
@given(trees(), VALUES)
def test_an_expression_in_normal_form_has_the_values_of_its_steps(tree, values):
    made = expression(tree)
    wanted = built(tree, values.get, PLAIN)
    assert formulas.evaluated(made, values) == wanted
    assert formulas.evaluated(sizes.expanded(made), values) == wanted
    low, high = sizes.bounds(made)
    assert low <= wanted <= high
    if not isinstance(made, (int, Symbol)):
        step = formulas.step_of(made)
        assert formulas.evaluated(step, values) == wanted


@settings(max_examples=60, deadline=None)
@given(trees(3), trees(3), st.sampled_from([*COMPARED]), st.lists(VALUES, max_size=8))
def test_a_comparison_that_is_proved_holds_for_all_sizes(one, other, name, drawn):
    left, right = expression(one), expression(other)
    answer = sizes.compared(name, left, right)
    for values in drawn if answer is not None else ():
        sides = (built(tree, values.get, PLAIN) for tree in (one, other))
        assert COMPARED[name](*sides) == answer


@settings(max_examples=40, deadline=None)
@given(trees(3), trees(2), trees(2), st.sampled_from([*COMPARED]), VALUES)
def test_facts_prove_only_what_follows_from_them(one, left, right, name, values):
    fact = Formula(name, expression(left), expression(right))
    if not formulas.evaluated(fact, values):
        return
    facts = formulas.facts_of(fact)
    made = expression(one)
    if sizes.is_natural(made, facts):
        assert formulas.evaluated(made, values) >= 0


@settings(max_examples=60, deadline=None)
@given(trees(3), VALUES)
def test_the_compilers_rules_and_the_normal_form_agree(tree, values):
    variables = {name: ir.Var(name, ir.i64) for name in NAMES}
    made = built(tree, variables.get, {
        name: lambda a, b, name=name: ir.binary(name, *map(_typed, (a, b)))
        for name in PLAIN
    })  # fmt: skip

    def size(e):
        if isinstance(e, ir.Const):
            return int(e.value)
        if isinstance(e, ir.Var):
            return SYMBOLS[NAMES.index(e.name)]
        return COMPUTED[e.op](*map(size, e.args))

    before, after = size(_typed(made)), size(simplify(_typed(made)))
    assert formulas.evaluated(before, values) == formulas.evaluated(after, values)


def _typed(value):
    return ir.as_expr(value, ir.i64)


def test_expressions_that_are_equal_are_one():
    n, m, _ = SYMBOLS
    half = sizes.floordiv(n, 2)
    up = sizes.floordiv(sizes.add(n, 1), 2)
    assert half != up and sizes.add(half, up) == sizes.add(up, half)
    assert sizes.floordiv(sizes.multiply(n, m), n) == m
    assert sizes.floordiv(half, 3) == sizes.floordiv(n, 6)
    assert sizes.modulo(sizes.add(sizes.multiply(n, 6), 4), 3) == 1
    rest = sizes.subtract(n, sizes.multiply(half, 2))
    assert sizes.compared("eq", rest, sizes.modulo(n, 2))
    assert sizes.compared("le", half, up) and sizes.compared("lt", half, n)
    assert sizes.compared("eq", sizes.multiply(n, 2), 5) is False
    assert sizes.compared("eq", half, up) is None


def test_expressions_print_as_pytorchs_do():
    n, m, _ = SYMBOLS
    half = sizes.floordiv(n, 2)
    shown = {
        "2*s0 + 1": sizes.add(sizes.multiply(n, 2), 1),
        "-s0 + s1": sizes.subtract(m, n),
        "s0**2 + s0*s1": sizes.multiply(n, sizes.add(n, m)),
        "(s0//2)": half,
        "((s0//2)) + 1": sizes.add(half, 1),
        "Mod(s0, 3)": sizes.modulo(n, 3),
        "Min(100, s0)": sizes.minimum(n, 100),
        "Max(s0, s1)": sizes.maximum(m, n),
    }
    for text, expr in shown.items():
        assert str(expr) == text


def test_products_of_long_sums_are_refused():
    total = 0
    for at in range(40):
        total = sizes.add(total, Symbol(f"s{at}", 4))
    with pytest.raises(ValueError, match="too many terms"):
        sizes.power(total, 16)
