"""Matrices with two of four elements are packed, unpacked and refused as PyTorch does."""

import warnings

import pytest

import rushlight as rl
import rushlight.sparse._semi_structured_conversions as conversions

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.sparse._semi_structured_conversions")
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of Sparse")


def matrices(name):
    """A matrix with as few elements as are packed, and one with more of them."""
    x = torch.randint(-3, 4, (64, 256)).to(getattr(torch, name))
    size = 2 if name == "float32" else 4
    ranks = torch.rand(64, 256 // size, size).argsort(2)
    few = torch.where((ranks < size // 2).view(64, 256), x, 0)
    for each in (few, x):
        yield rl.tensor(each.tolist(), dtype=getattr(rl, name)), each


@pytest.mark.parametrize("name", ["int8", "float16", "bfloat16", "float32"])
def test_matrices_are_packed_in_the_same_elements_and_places(name):
    torch.manual_seed(0)
    for number, (mine, other) in enumerate(matrices(name)):
        one = conversions.sparse_semi_structured_from_dense_cutlass(mine)
        two = theirs.sparse_semi_structured_from_dense_cutlass(other)
        assert [x.tolist() for x in one] == [x.tolist() for x in two]
        assert [str(x.dtype)[10:] for x in one] == [str(x.dtype)[6:] for x in two]
        back = conversions.sparse_semi_structured_to_dense_cutlass(*one)
        again = theirs.sparse_semi_structured_to_dense_cutlass(*two)
        assert back.tolist() == again.tolist()
        assert number or back.equal(mine)


def test_tiles_keep_the_same_elements():
    x = torch.randn(16, 24).round(decimals=1)
    mine = conversions._sparse_semi_structured_tile(rl.tensor(x.numpy()))
    assert mine.tolist() == theirs._sparse_semi_structured_tile(x.clone()).tolist()
    bits = conversions._compute_compressed_swizzled_bitmask(rl.eye(8))
    assert bits.tolist() == [[[[33, 132], [0, 0], [0, 0], [33, 132]]]]


def taken(library, found):
    """What calls give: a matrix, or an error and the beginning of its words."""
    library_sparse, half = library.sparse, library.float16
    x = library.zeros(32, 64, dtype=half)
    x[:, ::2] = 1
    packed, meta = found.sparse_semi_structured_from_dense_cutlass(x)
    kind = library_sparse.SparseSemiStructuredTensorCUTLASS
    s, ones = kind(x.shape, packed, meta, None, None, None), library.ones
    vector, rows = ones(64, dtype=half), ones(8, 64, dtype=half)
    calls = [
        lambda: s, lambda: s.values(), lambda: s.indices(), lambda: s.clone(),
        lambda: s.detach(), lambda: list(s.t().shape), lambda: s.view(64, 32),
        lambda: s + 1, lambda: s @ rows.t(), lambda: rows @ s.t(), lambda: s @ s,
        lambda: library.nn.functional.linear(rows, s), lambda: s @ vector,
        lambda: library.addmm(vector[:32], rows, s.t()), lambda: s.to("cpu"),
        lambda: library_sparse.to_sparse_semi_structured(x),
        lambda: kind(x.shape, None, None, None, None, None),
        lambda: library_sparse.SparseSemiStructuredTensor.from_dense(x),
        lambda: kind.prune_dense_static_sort(x), lambda: s.__tensor_flatten__()[0],
        lambda: found.sparse_semi_structured_from_dense_cutlass(x[:5]),
        lambda: found.sparse_semi_structured_from_dense_cutlass(x[:, :8]),
        lambda: found.sparse_semi_structured_from_dense_cutlass(x[0]),
        lambda: found.sparse_semi_structured_to_dense_cutlass(packed, meta[:5]),
        lambda: found.sparse_semi_structured_to_dense_cutlass(packed[:, :8], meta),
    ]  # fmt: skip
    for call in calls:
        try:
            result = call()
        except Exception as error:
            yield type(error).__name__, " ".join(str(error).split()[:10])
            continue
        dense = isinstance(result, library_sparse.SparseSemiStructuredTensor)
        result = result.to_dense() if dense else result
        yield result if isinstance(result, list) else result.tolist()


def test_tensors_of_the_class_do_and_refuse_the_same():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = zip(taken(rl, conversions), taken(torch, theirs), strict=True)
        for number, (mine, other) in enumerate(pairs):
            assert mine == other, number
