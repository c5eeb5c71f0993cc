"""Sparse tensors on ``meta``: read, shown and changed without looking at numbers."""

from __future__ import annotations

import io

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="what is shown is compared with PyTorch")
MAKERS = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 2)),
    "bsc": lambda x: x.to_sparse_bsc((2, 2)),
}


def reread(module, make):
    """A sparse unit matrix, written to a file and read to ``meta``."""
    file = io.BytesIO()
    module.save(make(module.eye(4)), file)
    file.seek(0)
    return module.load(file, map_location="meta")


@pytest.mark.filterwarnings("ignore:Sparse C|TypedStorage")
@pytest.mark.parametrize("name", MAKERS)
def test_a_file_read_to_meta_shows_parts_without_numbers(name):
    found, expected = (reread(each, MAKERS[name]) for each in (rl, torch))
    assert repr(found).replace("rushlight", "torch") == repr(expected)
    assert found.is_meta
    assert found._nnz() == expected._nnz()


@pytest.mark.parametrize("name", MAKERS)
def test_what_does_not_ask_for_numbers_runs_on_meta(name):
    found = MAKERS[name](rl.eye(4)).to("meta")
    dense = found.to_dense()
    assert (dense.device.type, dense.shape) == ("meta", (4, 4))
    for changed in (found * 2, -found, found.clone(), found.double()):
        assert (changed.is_meta, changed.layout) == (True, found.layout)
    assert found.double().dtype is rl.float64


REDUCED = {
    "coalesced": lambda m, x: x.coalesce(),
    "summed along rows": lambda m, x: x.sum(0),
    "summed": lambda m, x: m.sparse.sum(x, (0, 1)),
    "multiplied": lambda m, x: x * x,
    "a product": lambda m, x: x @ x.t(),
    "rows": lambda m, x: x @ m.ones(4, 2, device=x.device),
    "batches": lambda m, x: m.bmm(
        m.stack([x.coalesce()] * 2), m.ones(2, 4, 2, device=x.device)
    ),
    "relu": lambda m, x: x.relu(),
}


@pytest.mark.parametrize("name", REDUCED)
def test_results_on_meta_have_the_form_of_those_in_memory(name):
    x = rl.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [1.0, 2.0, 3.0], (3, 4))
    alone = rl.sparse_coo_tensor(
        x._indices().to("meta"), x._values().to("meta"), (3, 4)
    )
    expected = REDUCED[name](rl, x)
    for on_meta in (x.to("meta"), alone):
        found = REDUCED[name](rl, on_meta)
        assert (found.is_meta, found.layout) == (True, expected.layout)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)


@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_places_that_nobody_counts_are_none_as_on_pytorch():
    for m in (rl, torch):
        x = m.sparse_coo_tensor(m.tensor([[0, 0]]), m.ones(2), (3,)).to("meta")
        assert (x._nnz(), x.is_coalesced()) == (0, True)
