"""Faulty declarations: every fault is reported with its file and line."""

import pytest

from opgen.check import check
from opgen.parse import Faults, parse_text

GOOD = """\
- op: neg(Tensor self) -> Tensor
  variants: [function, method, inplace, out]
  pointwise: neg
  dtype: promote
  derivative:
    self: -grad
  doc: Negative of each element.
"""


def faults_of(text):
    faults = Faults()
    check(
        parse_text(text, "rushlight/operators/elementwise/unary.yaml", faults), faults
    )
    return faults.messages


def test_a_good_declaration_has_no_fault():
    assert faults_of(GOOD) == []


@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        ("-> Tensor", "", 1, "has no '-> result'"),
        ("Tensor self", "Tensr self", 1, "'Tensr' is not a type"),
        ("Tensor self", "Tensor self, Tensor self", 1, "two arguments named 'self'"),
        ("Tensor self", "int n=1, Tensor self", 1, "needs a default"),
        ("out]", "outplace]", 1, "'outplace' is not a variant"),
        ("[function, method, inplace, out]", "function", 2, "a list in brackets"),
        ("  pointwise: neg\n", "", 1, "needs exactly one of pointwise"),
        ("pointwise: neg", "pointwise: negg", 1, "'negg' is not defined in"),
        ("pointwise: neg", "pointwise: nowhere.neg", 1, "there is no module"),
        ("dtype: promote", "dtype: demote", 1, "'demote' is no dtype rule"),
        ("  dtype: promote\n", "", 1, "needs a 'dtype:' rule"),
        ("dtype: promote", "dtype: promote(other)", 1, "'other', which is no argument"),
        ("self: -grad", "other: -grad", 6, "derivative of 'other': no such argument"),
        ("self: -grad", "self: -gradient", 6, "'gradient' is no argument"),
        ("self: -grad", "self: -grad +", 6, "is not an expression"),
        ("  doc: Negative of each element.\n", "", 1, "needs a doc"),
        ("doc:", "numbers: [row_major]\n  doc:", 1, "is not a word for 'numbers:'"),
        ("doc:", "cuda: neg\n  doc:", 1, "'cuda:' stands beside 'cpu:' alone"),
        ("doc:", "each: [neg]\n  doc:", 7, "needs '{name}' in 'op:'"),
        ("doc:", "dock:", 7, "unknown key 'dock'"),
        ("doc:", "sample: wild\n  doc:", 1, "'wild' is not 'between(low, high)'"),
    ],
)
def test_a_fault_is_reported_with_its_line(before, after, line, words):
    messages = faults_of(GOOD.replace(before, after, 1))
    assert any(
        message.startswith(f"rushlight/operators/elementwise/unary.yaml:{line}: ")
        and words in message
        for message in messages
    ), messages


def test_a_name_declared_twice_points_at_the_first_place():
    (message,) = faults_of(GOOD + "\n" + GOOD)
    assert message == (
        "rushlight/operators/elementwise/unary.yaml:9: 'neg' is already declared at "
        "rushlight/operators/elementwise/unary.yaml:1"
    )


def test_all_faults_are_reported_at_once():
    text = GOOD.replace("promote", "demote").replace("-grad", "-gradient")
    assert len(faults_of(text)) == 2


def test_text_that_is_no_yaml_is_reported_with_its_line():
    (message,) = faults_of("- op: neg(Tensor self) -> Tensor\n  doc: a: b\n")
    assert message.startswith("rushlight/operators/elementwise/unary.yaml:2: not YAML")
