"""Of two faults in one call either may be told, and nothing that is not a fault."""

import pytest

torch = pytest.importorskip("torch", reason="the oracle is not installed")

import rushlight  # noqa: E402
from tests.fuzz import draw, faults, judge, known  # noqa: E402
from tests.fuzz.ledger import Ledger  # noqa: E402
from tests.fuzz.specs import TensorSpec  # noqa: E402


def tensor(dtype, sizes, grad=False):
    count = 1
    for size in sizes:
        count *= size
    return TensorSpec.dense([1] * count, dtype, sizes, grad)


def case(name, *args, **kwargs):
    return draw.Case(("function", name), args, kwargs, [])


TWO_FAULTS = {
    "a type and a dimension": case("mean", tensor("bool", [2, 3]), dim=7),
    "a type and sizes": case(
        "clamp",
        tensor("complex64", [3]),
        tensor("float32", [4]),
        tensor("float32", [4]),
    ),
}


@pytest.mark.parametrize("name", TWO_FAULTS)
def test_either_of_two_faults_may_be_told(name):
    call = TWO_FAULTS[name]
    error = judge.call(rushlight, call).error
    assert error is not None
    assert judge.call(torch, call).error is not None
    assert faults.tells_another_fault(call)


def test_what_is_no_fault_may_not_be_told(monkeypatch):
    call = TWO_FAULTS["a type and a dimension"]
    answer = judge.Answer(error=ValueError("the moon is full"))
    real = judge.call
    monkeypatch.setattr(
        judge,
        "call",
        lambda module, case: answer if module is rushlight else real(module, case),
    )
    assert not faults.tells_another_fault(call)
    assert known.explanation(call, "class", "ValueError: the moon is full") is None


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_a_case_is_what_its_changes_make_of_its_sample():
    drawn = [draw.draw(0, number) for number in range(46, 54)]
    calls = [made for made in drawn if made is not None]  # some numbers have no call
    assert len(calls) > 4
    for made in calls:
        _, steps, _ = made.history
        left = list(draw.without_one_change(made))
        assert len(left) <= len(steps)
        assert all(one.path == made.path for one in left)


def test_a_ledger_leaves_out_what_is_done(tmp_path):
    path = tmp_path / "done.json"
    ledger = Ledger(path, 7)
    assert ledger.missing(0, 10, 4) == [(0, 4), (4, 8), (8, 10)]
    ledger.add(4, 8, 3, [])
    ledger.add(20, 30, 9, [[21, "add", "values", "", ""]])
    again = Ledger(path, 7)
    assert again.missing(2, 26, 100) == [(2, 4), (8, 20)]
    again.add(8, 20, 12, [])
    assert again.row["ranges"] == [[4, 30]]
    assert "24 calls of 26 numbers of seed 7, 1 unexplained" in again.told()
    assert Ledger(path, 8).missing(0, 4, 4) == [(0, 4)]
