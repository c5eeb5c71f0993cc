"""Kernels of one name and file are told apart by what they compute."""

import pytest

import rushlight as rl
from rushlight.codegen.fingerprint import fingerprint
from rushlight.dispatch.library import _scoped_library


@pytest.fixture
def lib():
    with _scoped_library("fronts", "DEF") as library:
        yield library


def scaled(factor):
    def kernel(x):
        return x * factor

    return kernel


def test_two_lambdas_in_one_file_are_two_kernels(lib):
    lib.define("up(Tensor x) -> Tensor")
    lib.define("down(Tensor x) -> Tensor")
    lib.pointwise("up", lambda x: x + 1.0)
    lib.pointwise("down", lambda x: x - 1.0)
    assert rl.ops.fronts.up(rl.ones(2)).tolist() == [2.0, 2.0]
    assert rl.ops.fronts.down(rl.ones(2)).tolist() == [0.0, 0.0]


def test_what_a_function_closes_over_tells_kernels_apart(lib):
    lib.define("twice(Tensor x) -> Tensor")
    lib.define("thrice(Tensor x) -> Tensor")
    lib.pointwise("twice", scaled(2.0))
    lib.pointwise("thrice", scaled(3.0))
    assert rl.ops.fronts.twice(rl.ones(2)).tolist() == [2.0, 2.0]
    assert rl.ops.fronts.thrice(rl.ones(2)).tolist() == [3.0, 3.0]


def test_functions_typed_at_a_prompt_differ_by_constants_and_helpers():
    def typed(text):
        names = {"__name__": "typed"}
        exec(text, names)
        return fingerprint(names["f"])

    assert typed("def f(x): return x * 2") == typed("def f(x): return x * 2")
    assert typed("def f(x): return x * 2") != typed("def f(x): return x * 3")
    helper = "def g(x): return x + {}\ndef f(x): return g(x)"
    assert typed(helper.format(1)) != typed(helper.format(2))
    assert typed("k = 1\ndef f(x): return x + k") != typed(
        "k = 2\ndef f(x): return x + k"
    )
