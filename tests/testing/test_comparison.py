"""assert_close says what differs, in PyTorch's words."""

import pytest

import rushlight as rl
from rushlight.testing import assert_close


def fault(actual, expected, **options):
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, **options)
    return str(caught.value)


def test_values_within_the_types_tolerance_are_close():
    assert_close(rl.tensor([1.0, 2.0]), rl.tensor([1.0 + 1e-6, 2.0]))
    assert "Scalars" in fault(1.0, 1.001)


def test_the_greatest_differences_are_named_with_their_places():
    text = fault(
        rl.tensor([[1.0, 2.0], [3.0, 4.0]]), rl.tensor([[1.0, 2.0], [3.5, 4.0]])
    )
    assert "Mismatched elements: 1 / 4 (25.0%)" in text
    assert (
        "Greatest absolute difference: 0.5 at index (1, 0) (up to 1e-05 allowed)"
        in text
    )


@pytest.mark.parametrize(
    "expected, name",
    [(rl.ones(3), "shape"), (rl.ones(2, dtype=rl.float64), "dtype")],
)
def test_attributes_must_agree(expected, name):
    assert f"The values for attribute '{name}' do not match" in fault(
        rl.ones(2), expected
    )


def test_items_of_containers_are_compared_one_by_one():
    assert "at item ['a'][1]" in fault({"a": [1, 2]}, {"a": [1, 3]})
    assert "length of the sequences" in fault([1], [1, 2])


def test_nan_equals_nan_only_on_request():
    nan = rl.tensor([float("nan")])
    assert_close(nan, nan, equal_nan=True)
    assert "not close" in fault(nan, nan)


def test_one_tolerance_alone_is_refused():
    with pytest.raises(ValueError, match="must be either specified or omitted"):
        assert_close(1.0, 1.0, rtol=1e-3)


PAIRS = """
s, s.clone() | s, t | s, m.tensor([[1.0, 0.0], [0.0, 0.0]]).to_sparse() | c, c.clone()
s, m.tensor([[1.0, 3.0], [0.0, 0.0]]).to_sparse() | c, (t + 1).to_sparse_csr()
c, m.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse_csr() | c, t.to_sparse_csc()
q, q | q, m.quantize_per_tensor(t + 3, 0.1, 0, m.quint8) | q, t | t.to("meta"), t.to("meta")
b, b.clone() | 1, 1.0 | "a", "a" | None, None | t, [[1.0, 0.0], [2.0, 0.0]] | t, t[:1]
{"a": 1}, {"b": 1} | m.tensor([1, 2]), m.tensor([1, 4]) | {1, 2}, {1, 2} | 1 + 1j, 1 + 1j
"""
OPTIONS = [{}, {"check_layout": False}, {"allow_subclasses": False}]


@pytest.mark.filterwarnings("ignore")
def test_layouts_quantized_tensors_and_strangers_are_told_as_by_pytorch():
    torch = pytest.importorskip("torch")

    def verdict(m, pair, options):
        t = m.tensor([[1.0, 0.0], [2.0, 0.0]])
        q = m.quantize_per_tensor(t, 0.1, 0, m.quint8)
        known = {"m": m, "t": t, "q": q, "s": t.to_sparse(), "c": t.to_sparse_csr()}
        known["b"] = t.to_sparse_bsr((1, 1))
        try:
            m.testing.assert_close(*eval(pair, known), **options)
        except Exception as error:
            text = str(error).replace(rl.__name__, torch.__name__)
            return type(error), text.replace("core.tensor.", "")
        return None

    for pair in PAIRS.replace("\n", "|").split("|"):
        for options in OPTIONS if pair.strip() else ():
            found = [verdict(m, pair.strip(), options) for m in (rl, torch)]
            assert found[0] == found[1], (pair, options)
