"""Names that several packages use, with PyTorch's answers."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def test_tensors_have_a_number_of_their_own_and_are_filled_up_if_nested():
    for lib in (rl, torch):
        one, other = lib.ones(2), lib.ones(2)
        assert type(one._cdata) is int and one._cdata == one._cdata != other._cdata
        parts = lib.nested.nested_tensor([lib.ones(1), lib.ones(2)], layout=lib.jagged)
        assert parts.to_padded_tensor(0.0).tolist() == [[1.0, 0.0], [1.0, 1.0]]
        with pytest.raises(NotImplementedError, match="to_padded_tensor"):
            one.to_padded_tensor(0.0)
