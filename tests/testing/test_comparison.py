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
    with pytest.raises(ValueError, match="both be specified"):
        assert_close(1.0, 1.0, rtol=1e-3)
