"""A tensor's data is set to a tensor of its layout, or not at all."""

import itertools

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

KINDS = {
    "strided": lambda t: t.eye(2),
    "coo": lambda t: t.eye(2).to_sparse(),
    "csr": lambda t: t.eye(2).to_sparse_csr(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(KINDS, 2)))
def test_data_of_another_layout_is_refused_and_changes_nothing(old, new):
    seen = []
    for t in (rl, torch):
        x = KINDS[old](t)
        try:
            x.data = KINDS[new](t) * 2
        except RuntimeError as error:
            assert "incompatible tensor type" in str(error)
        seen.append((str(x.layout).partition(".")[2], x.to_dense().tolist()))
    assert seen[0] == seen[1]
