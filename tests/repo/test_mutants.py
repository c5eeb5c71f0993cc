"""The mutation tool makes the faults that it names, and sees which tests see them."""

import ast

import pytest

from tools.mutants import trial
from tools.mutants.mutations import mutations

SOURCE = b'''
def scaled(x, factor, limit=None):
    """Documentation is left alone: 1 + 1."""
    if limit is not None and x > limit:
        raise ValueError(f"{x + 1} is too much")
    warn(x)
    return clamp(x * factor + 1, min=-limit)
'''


def kinds():
    return {(m.kind, m.text) for m in mutations("f.py", SOURCE)}


@pytest.mark.parametrize(
    "fault",
    [
        ("factor lost", "(x)"),
        ("factor lost", "(factor)"),
        ("term lost", "(x * factor)"),
        ("operator swapped", "(x * factor - 1)"),
        ("comparison changed", "(x >= limit)"),
        ("and for or", "((limit is not None) or (x > limit))"),
        ("constant changed", "(2)"),
        ("sign or not lost", "(limit)"),
        ("argument min ignored", "clamp(x * factor + 1)"),
        ("statement lost", "pass"),
    ],
)
def test_a_fault_of_each_kind_is_made(fault):
    assert fault in kinds()


def test_words_and_defaults_are_left_alone():
    lines = {m.line for m in mutations("f.py", SOURCE)}
    assert lines == {4, 6, 7}


def test_a_mutant_differs_from_its_source_and_keeps_its_lines():
    for mutant in mutations("f.py", SOURCE):
        changed = mutant.apply(SOURCE)
        assert changed.count(b"\n") == SOURCE.count(b"\n")
        if mutant.is_python(SOURCE):
            assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))


@pytest.mark.parametrize(
    "body, limit, result, failed",
    [
        ("assert 1 + 1 == 2", 60, trial.SURVIVED, None),
        ("assert 1 + 1 == 3", 60, trial.KILLED, "test_one.py::test_one"),
        ("while True: pass", 3, trial.TIMED_OUT, None),
    ],
)
def test_a_trial_says_what_the_tests_said(tmp_path, body, limit, result, failed):
    (tmp_path / "test_one.py").write_text(f"def test_one():\n    {body}\n")
    assert trial.run(tmp_path, ["test_one.py"], limit) == (result, failed)


def test_arguments_without_an_order_are_not_exchanged():
    source = b"def f(x, y):\n    return min(x, max(y, 2)) + less(x, y)\n"
    found = [m.text for m in mutations("f.py", source) if "exchanged" in m.kind]
    assert found == ["less(y, x)"]
