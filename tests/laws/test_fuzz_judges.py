"""What the fuzzer lets pass: answers that are as good, and no others."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="the fuzzer is beside the oracle")

from tests.fuzz import factors, judge
from tests.fuzz.draw import Case
from tests.fuzz.specs import TensorSpec


def matrices(rank, *batch):
    draw = np.random.default_rng(rank)
    size = 4
    values = draw.normal(size=(*batch, size, rank)) @ draw.normal(size=(rank, size))
    return TensorSpec.dense(values.reshape(-1), "float64", (*batch, size, size), True)


def case(name, *args):
    return Case(("function", name), args, {}, [])


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("name", ["qr", "svd", "eig", "lu", "lu_factor_ex"])
def test_factors_of_ours_multiply_to_the_matrix(name, rank):
    assert factors.recomposed(case(f"linalg.{name}", matrices(rank, 2)))


def test_factors_that_are_wrong_are_seen(monkeypatch):
    way = factors.WAYS["qr"]
    monkeypatch.setitem(factors.WAYS, "qr", lambda A, Q, R: way(A, 1.001 * Q, R))
    assert not factors.recomposed(case("linalg.qr", matrices(4)))


@pytest.mark.parametrize(("error", "passes"), [(1e-3, False), (1e-14, True)])
def test_an_error_beyond_what_rounding_moves_is_seen(monkeypatch, error, passes):
    one = case("linalg.inv", matrices(4))
    answer = judge.call(judge.rushlight, one)
    answer.result = answer.result.detach() * (1 + error)
    expected = judge.call(judge.torch, one)
    expected.result = expected.result.detach()
    assert (judge.judge(one, expected, answer) is None) == passes


@pytest.mark.parametrize(("error", "passes"), [(1e-3, False), (1e-7, True)])
def test_more_digits_of_out_than_of_operands_are_not_judged(error, passes):
    draw = np.random.default_rng(0)
    x = TensorSpec.dense(draw.normal(size=8), "float32", (8,))
    out = TensorSpec.dense(np.zeros(8), "complex128", (8,))
    one = Case(("function", "fft.fft"), (x,), {"out": out}, [])
    answer = judge.call(judge.rushlight, one)
    answer.result.mul_(1 + error)
    expected = judge.call(judge.torch, one)
    assert (judge.judge(one, expected, answer) is None) == passes


def test_of_a_matrix_that_is_nearly_singular_no_digit_is_sure():
    spec = matrices(4)
    values = spec.values().reshape(4, 4).copy()
    values[3] = values[2] + 1e-15 * values[1]
    near = TensorSpec.dense(values.reshape(-1), "float64", (4, 4))
    one = case("linalg.inv", near)
    found = judge.call(judge.rushlight, one)
    found.result = found.result * (1 + 1e-3)
    assert judge.judge(one, judge.call(judge.torch, one), found) is None
