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
