"""The oracle's own samples of sparse layouts: layouts and values are the oracle's."""

import itertools
import unittest
import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

from tests.operators.oracle_layouts import difference  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
LAYOUTS = "coo", "csr", "csc", "bsr", "bsc"
EACH, STEP = 3, 11  # samples of an operator and a layout, and from one to the next


def entries():
    """The operators and layouts of which the database has samples."""
    for info in op_db:
        for layout in LAYOUTS:
            supported = layout if layout != "coo" else ""
            name = f"supports_sparse_{supported}".removesuffix("_")
            large = (info.name, layout) == ("mul", "coo")  # millions of elements
            if getattr(info, name, False) and not large:
                yield info, layout


def samples_of(info, layout, each=EACH, step=STEP):
    """Samples in a layout; a dense one converted where the database has none."""
    dtype = torch.float32 if torch.float32 in info.dtypes else min(info.dtypes, key=str)
    kind = getattr(torch, f"sparse_{layout}")
    try:
        made = info.sample_inputs_sparse(kind, "cpu", dtype)
        return list(itertools.islice(made, 0, each * step, step))
    except unittest.SkipTest:  # of some there are none in coordinates
        return []
    except NotImplementedError:
        blocks = {"blocksize": (1, 1)} if layout in ("bsr", "bsc") else {}
        dense = (s for s in info.sample_inputs("cpu", dtype) if s.input.ndim == 2)
        found = list(itertools.islice(dense, 1))
        for sample in found:
            sample.input = sample.input.to_sparse(layout=kind, **blocks)
        return found


def test_masks_broadcast_and_empty_batches_are_taken():
    for library in (torch, rl):
        mask = library.tensor([[True], [False]])
        x = library.tensor([[1.0, 0.0, 2.0], [3.0, 4.0, 0.0]])
        for layout in ("sparse_coo", "sparse_csr"):
            kind = getattr(library, layout)
            found = library.masked.sum(
                x.to_sparse(layout=kind),
                1,
                keepdim=True,
                mask=mask.to_sparse(layout=kind),
            )
            assert found.to_dense().tolist() == [[3.0], [0.0]], (library, layout)
        none = library.zeros(2, 0, 3).to_sparse_csr()
        assert none.to_dense().shape == (2, 0, 3)


def test_other_layouts_are_made_or_refused_where_a_like_tensor_is_asked_for():
    dense = rl.ones(2, 3)
    assert rl.zeros_like(dense, layout=rl.sparse_csr).layout is rl.sparse_csr
    assert rl.zeros_like(dense.to_sparse_csr(), layout=rl.sparse_csc)._nnz() == 0
    assert rl.ones_like(dense.to_sparse(), layout=rl.strided).sum().item() == 6
    for make in (rl.empty_like, rl.ones_like, rl.rand_like, rl.randn_like):
        with pytest.raises(NotImplementedError, match="remedy"):
            make(dense, layout=rl.sparse_coo)


def test_samples_of_sparse_layouts_end_as_on_the_oracle():
    wrong, count = [], 0
    for info, layout in entries():
        for number, sample in enumerate(samples_of(info, layout)):
            count += 1
            fault = difference(info, sample)
            if fault is not None:
                wrong.append(f"{info.name} {layout} {number}: {fault[:200]}")
    assert count > 150
    assert not wrong, "\n".join(wrong[:20])
