"""`FileCheck` finds, and misses, what PyTorch's does."""

import pytest

from rushlight.testing import FileCheck

torch = pytest.importorskip("torch")

# The checks, then the texts: where something is amiss, the first line says what.
CASES = """
check("x") | a b
check("b").check("a") | a b
check("a").check("b") | a b
check_not("c") | a b
check_not("a").check("b") | b a
check_not("a").check("b") | a b
check("a").check_next("b") | a\\nb
check("a").check_next("b") | a\\n\\nb
check_next("a") | a b
check("a").check_same("b") | a b
check("a").check_same("b") | a\\nb
check("a").check_not("z").check_not("y") | a x y
check_dag("b").check_dag("a").check("c") | a b c
check_dag("b").check_dag("a").check("c") | a c b
check_dag("b").check_not("c").check_dag("a") | b c a
check_dag("b").check_not("c").check_dag("a") | a c b
check_count("a", 2, exactly=True).check("c") | a a c a
check_count("a", 2, True) | a\\na\\na
check_count("a", 3) | a a
check_count("a", 0, True) | a
check_regex("b+c") | abbc
check_source_highlighted("b") | a b c\\n  ~ x
check("a").check_not("b").check("c") | a b c
check_not("c").check("b").check_not("a") | a c b c
"""


def outcome(kind, checks, texts):
    try:
        return eval(f"F().{checks}", {"F": kind}).run(*texts)
    except RuntimeError as error:
        return str(error).split("\n")[0]


def test_patterns_are_found_where_pytorch_finds_them():
    for case in CASES.strip().splitlines():
        checks, _, text = case.partition(" | ")
        texts = [text.replace("\\n", "\n")]
        theirs = outcome(torch._C.FileCheck, checks, texts)
        assert outcome(FileCheck, checks, texts) == theirs, case


def test_comments_are_checks():
    for comments, text in (
        ("# CHECK: a\n# CHECK-NOT: q\n# CHECK-NEXT: b\n", "a\nb"),
        ("# CHECK-COUNT-2: a\n# CHECK-DAG: c\n# CHECK-SAME: b\n", "a a c b"),
        ("# CHECK-COUNT-EXACTLY-2: a\n", "a a a"),
    ):
        theirs = outcome(torch._C.FileCheck, "__class__()", [comments, text])
        assert outcome(FileCheck, "__class__()", [comments, text]) == theirs


def test_what_cannot_be_looked_for_is_refused():
    with pytest.raises(RuntimeError, match="No checks have been added"):
        FileCheck().run("x")
    with pytest.raises(RuntimeError, match="Could not parse check"):
        FileCheck().run("# CHECK-FOO: a", "a")
    with pytest.raises(RuntimeError, match="regular expression"):
        FileCheck().check_regex("(").run("a")
    with pytest.raises(RuntimeError, match="count of 0"):
        FileCheck().check_count("a", 0)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        FileCheck().check("a").run(3)
