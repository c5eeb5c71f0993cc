"""The test case of PyTorch's own tests, beside PyTorch's."""

import importlib
import unittest

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
MODULE = ".testing._internal.common_utils"


def utils_of(m):
    return importlib.import_module(m.__name__ + MODULE)


def cases_of(m):
    """A class of tests with parameters, some of which fail."""
    u = utils_of(m)

    class Cases(u.TestCase):
        @u.parametrize("a", [1, -2.5, "x", None, True, m.float32])
        @u.parametrize("b, c", [(1, 2), u.subtest((3, 4), name="named")])
        def test_values(self, a, b, c):
            self.assertEqual((b, c) in ((1, 2), (3, 4)), a != 1)

        @u.parametrize("n", range(2), name_fn=lambda n: f"no{n}")
        def test_streams_begin_at_the_same_place(self, n):
            self.assertEqual(m.initial_seed(), 1234)

    return u.instantiate_parametrized_tests(Cases)


def test_parameters_make_pytorchs_tests_with_pytorchs_outcomes():
    outcomes = []
    for m in (rl, torch):
        cases = cases_of(m)
        loader = unittest.TestLoader()
        result = unittest.TestResult()
        loader.loadTestsFromTestCase(cases).run(result)
        failed = sorted(test.id().rpartition(".")[2] for test, _ in result.failures)
        outcomes.append((sorted(loader.getTestCaseNames(cases)), failed, result.errors))
    assert outcomes[0] == outcomes[1]


PAIRS = """
t([1.0]), t([1.0 + 1e-7]) | t([1.0]), t([1.1]) | t([1.0]), t([1]) | t(1.0), 1.0 | t([1.0]), 1
1, 1.0 | 1, 2 | True, 1 | "a", "a" | "a", "b" | [t(1), 2], [t(1), 2] | [1], [1, 2]
{1: t(2)}, {1: t(2)} | {1: 2}, {2: 2}
t([1, 2]), [1, 2] | [1, 2], t([1, 3]) | t([float("nan")]), t([float("nan")])
t([1.0]).numpy(), t([1.0]) | None, None | None, t(1) | m.float32, m.float32 | m.float32, m.int32
t([1.0]).shape, (1,) | t([1, 2]), t([1, 2, 3]) | t([1 + 2j]), t([1 + 2j]) | {1, 2}, {2, 1}
t([[1.0], [2.0]]).to_sparse(), t([[1.0], [2.0]]).to_sparse() | 1e-9, 0 | (1, 2), [1, 2]
"""


def test_values_are_equal_where_they_are_for_pytorchs_test_case():
    def verdict(m, pair, **options):
        x, y = eval(pair, {"t": m.tensor, "m": m})
        try:
            utils_of(m).TestCase().assertEqual(x, y, **options)
        except AssertionError:
            return False
        return True

    for pair in PAIRS.replace("\n", "|").split("|"):
        if pair.strip():
            for options in ({}, {"exact_dtype": False}, {"atol": 0.2, "rtol": 0}):
                found = [verdict(m, pair.strip(), **options) for m in (rl, torch)]
                assert found[0] == found[1], (pair, options)


def test_nothing_is_left_of_what_was_set_and_drawn():
    u = utils_of(rl)
    with u.set_default_dtype(rl.float64), u.freeze_rng_state():
        assert rl.rand(1).dtype is rl.float64
        state = rl.get_rng_state()
    assert rl.get_default_dtype() is rl.float32
    assert not rl.equal(state, rl.get_rng_state())
    with pytest.raises(AssertionError, match="words"):
        u.TestCase().assertEqual(1, 2, "words")
    u.TestCase().assertNotEqual(rl.ones(2), rl.zeros(2))
