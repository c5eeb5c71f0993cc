"""What the fuzzer lets pass: answers that are as good, and no others."""

import subprocess
import types

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


def compared(name, values, ours, theirs, dtype="float32"):
    """What the judge says of two answers to a call with one operand."""
    one = case(name, TensorSpec.dense(np.array(values), dtype, (len(values),)))
    expected, found = (judge.call(m, one) for m in (judge.torch, judge.rushlight))
    expected.result = expected.result + judge.torch.tensor(theirs)
    found.result = found.result + judge.rushlight.tensor(ours)
    return judge.judge(one, expected, found)


@pytest.mark.parametrize(("ours", "passes"), [(0.0, True), (5e-7, True), (0.5, False)])
def test_an_answer_far_off_excuses_no_other(ours, passes):
    verdict = compared("exp", [0.5, 1.0], [ours, 0.0], [0.7, 0.0])
    assert (verdict is None) == passes


@pytest.mark.parametrize(("error", "passes"), [(1e-14, True), (1e-9, False)])
def test_the_digits_of_small_numbers_count(error, passes):
    verdict = compared("erfc", [4.0, 4.1], [error, 0.0], [0.0, 0.0])
    assert (verdict is None) == passes


def test_what_jumps_is_not_moved_by_rounding():
    assert compared("floor", [2.0, 3.5], [1.0, 0.0], [0.0, 0.0]) is not None


@pytest.mark.parametrize(("theirs", "passes"), [(1e-4, True), (0.0, False)])
def test_what_rounding_moves_far_may_differ_if_it_does_on_pytorch(theirs, passes):
    verdict = compared("sin", [1.00003e4, 1.00009e4], [2e-4, 0.0], [0.0, theirs])
    assert (verdict is None) == passes


@pytest.mark.parametrize(("ours", "passes"), [(3e-7, True), (1e-4, False)])
def test_what_is_left_of_terms_that_cancel_is_of_a_size_on_both_sides(ours, passes):
    """``x - x`` plus a rounding: the exact result is no measure, PyTorch's is."""
    verdict = compared("sign", [0.0, 0.0], [ours, 0.0], [0.0, 1e-7])
    assert (verdict is None) == passes


def whose(monkeypatch, torch, rushlight):
    """What a worker that died in case 5 is said to have died of."""
    from tests.fuzz import __main__ as command

    def run(arguments, timeout, **kwargs):
        seconds = torch if arguments[-1] == "torch" else rushlight
        if seconds is None:
            return types.SimpleNamespace(returncode=-11, stdout="", stderr="")
        if seconds > timeout:
            raise subprocess.TimeoutExpired(arguments, timeout)
        return types.SimpleNamespace(returncode=0, stdout=f"{seconds}\n", stderr="")

    monkeypatch.setattr(command.subprocess, "run", run)
    died = command.Run.__new__(command.Run)
    died.options, died.last = types.SimpleNamespace(seed=0), 5
    return died.ours("hang")


def test_a_crash_is_ours_where_we_crash_alone(monkeypatch):
    assert whose(monkeypatch, torch=0.1, rushlight=None) == "exit status -11"
    assert whose(monkeypatch, torch=None, rushlight=0.1) is None
    assert whose(monkeypatch, torch=0.1, rushlight=0.1) is None


def test_a_hang_is_ours_where_pytorch_takes_a_fraction_of_the_time(monkeypatch):
    assert "hang" in whose(monkeypatch, torch=0.1, rushlight=100.0)
    assert "hang" in whose(monkeypatch, torch=0.1, rushlight=1e9)
    assert whose(monkeypatch, torch=50.0, rushlight=100.0) is None


@pytest.mark.parametrize(("ours", "passes"), [(1e-16, True), (1e-12, False)])
def test_doubles_that_cancel_may_leave_what_they_are_rounded_by(ours, passes):
    """Vectors over their lengths have no slope along themselves: PyTorch leaves none."""
    x = TensorSpec.dense(np.linspace(1.0, 3.0, 8), "float64", (1, 8), True)
    one = Case(("function", "nn.functional.normalize"), (x,), {"p": 0.5, "dim": 0}, [])
    expected, found = (judge.call(m, one) for m in (judge.torch, judge.rushlight))
    leaf = found.side.tensors[id(x)][0]
    found.result = found.result.detach() + ours * leaf
    assert (judge.judge(one, expected, found) is None) == passes


@pytest.mark.parametrize(("error", "passes"), [(2e-7, True), (1e-5, False)])
def test_doubles_computed_in_single_precision_are_judged_so(error, passes):
    sizes = (1, 3, 40), (3, 3, 3)
    x, weight = (TensorSpec.dense(np.ones(np.prod(n)), "float32", n) for n in sizes)
    bias = TensorSpec.dense(np.ones(3) / 7, "float64", (3,), True)
    name = "nn.functional.conv_transpose1d"
    one = Case(("function", name), (x, weight, bias), {}, [])
    expected, found = (judge.call(m, one) for m in (judge.torch, judge.rushlight))
    leaf = found.side.tensors[id(bias)][0].reshape(1, 3, 1)
    found.result = found.result + error * leaf.to(found.result.dtype)
    assert (judge.judge(one, expected, found) is None) == passes


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (1.01, False)])
def test_an_error_of_all_elements_is_seen_within_the_steps_of_half(
    dtype, factor, passes
):
    values = np.random.default_rng(0).normal(size=64)
    one = case("exp", TensorSpec.dense(values, dtype, (64,)))
    answer = judge.call(judge.rushlight, one)
    answer.result = answer.result * factor
    assert (judge.judge(one, judge.call(judge.torch, one), answer) is None) == passes


# the gradient of a diagonal is zero but for few elements
@pytest.mark.parametrize("name", ["exp", "diagonal"])
@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (1.01, False)])
def test_gradients_in_bfloat16_are_judged(name, factor, passes):
    values = np.random.default_rng(0).normal(size=64)
    one = case(name, TensorSpec.dense(values, "bfloat16", (8, 8), True))

    def scaled(answer, module, **options):
        found = judge.gradients(answer, module, **options)
        return found if module is judge.torch else [g * factor for g in found]

    expected, answer = (judge.call(m, one) for m in (judge.torch, judge.rushlight))
    wide = judge.precise(one)
    verdict = judge.judge_gradients(one, expected, answer, wide, scaled)
    assert (verdict is None) == passes
