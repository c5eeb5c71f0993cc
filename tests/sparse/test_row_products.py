"""Sparse matrices times dense ones: every width and type, gradients, and bad columns."""

import numpy as np
import pytest

import rushlight as rl


def matrices(rows, depth, width, dtype, index="int64", seed=0):
    draw = np.random.default_rng(seed)
    dense = draw.standard_normal((rows, depth)) * (draw.random((rows, depth)) < 0.3)
    sparse = rl.tensor(dense).to(getattr(rl, dtype)).to_sparse_csr()
    parts = (sparse.crow_indices(), sparse.col_indices())
    parts = [each.to(getattr(rl, index)) for each in parts]
    sparse = rl.sparse_csr_tensor(*parts, sparse.values(), (rows, depth))
    other = rl.tensor(draw.standard_normal((depth, width))).to(getattr(rl, dtype))
    return sparse, other


def test_products_of_every_width_are_those_of_dense_matrices():
    close = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 6e-2, "float16": 1e-2}
    for dtype, bound in close.items():
        for width in (1, 2, 3, 16, 33, 64, 300):
            for rows, depth in ((1, 1), (7, 20), (30, 5)):
                a, b = matrices(rows, depth, width, dtype)
                wanted = a.to_dense().double() @ b.double()
                for sparse in (a, a.to_sparse_coo().coalesce()):
                    far = ((sparse @ b).double() - wanted).abs().max().item()
                    assert far <= bound * max(1.0, wanted.abs().max().item()), dtype


def test_operands_may_lie_in_any_way_and_have_nothing():
    a, b = matrices(6, 9, 4, "float32", index="int32")
    wanted = a.to_dense() @ b
    assert rl.allclose(a @ b.t().contiguous().t(), wanted, atol=1e-6)
    assert rl.allclose(
        rl.addmm(rl.ones(6, 4), a, b, alpha=2), 1 + 2 * wanted, atol=1e-5
    )
    assert (a @ b[:, :0]).shape == (6, 0)
    assert rl.zeros(3, 9).to_sparse_csr().matmul(b).abs().sum() == 0
    assert rl.allclose(a @ b[:, 0], wanted[:, 0], atol=1e-6)


def test_gradients_are_those_of_dense_matrices():
    a, b = matrices(6, 9, 4, "float64")
    for sparse in (a, a.to_sparse_coo()):
        one, two = sparse.detach().requires_grad_(), b.clone().requires_grad_()
        dense = a.to_dense().requires_grad_()
        other = b.clone().requires_grad_()
        (one @ two).sin().sum().backward()
        (dense @ other).sin().sum().backward()
        assert rl.allclose(two.grad, other.grad)
        kept = dense.grad * (a.to_dense() != 0)
        assert rl.allclose(one.grad.to_dense() * (a.to_dense() != 0), kept)


def test_columns_outside_of_the_matrix_are_refused():
    bad = rl._sparse_compressed_tensor_unsafe(
        rl.tensor([0, 1, 2]), rl.tensor([0, 7]), rl.ones(2), [2, 3],
        layout=rl.sparse_csr,
    )  # fmt: skip
    for width in (1, 4):
        with pytest.raises(IndexError, match="column 7 lies outside"):
            bad @ rl.ones(3, width)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_embeddings_train_by_sparse_gradients_as_in_pytorch():
    torch = pytest.importorskip("torch")
    steps = {
        "SparseAdam": {}, "SGD": {}, "Adagrad": {},
    }  # fmt: skip
    for name, more in steps.items():
        found = []
        for t in (rl, torch):
            t.manual_seed(0)
            e = t.nn.Embedding(10, 3, sparse=True)
            bag = t.nn.EmbeddingBag(10, 3, sparse=True, mode="sum")
            optimizer = getattr(t.optim, name)([e.weight, bag.weight], lr=0.1, **more)
            index = t.tensor([[1, 2, 2], [4, 1, 9]])
            for _ in range(3):
                optimizer.zero_grad()
                (e(index).sum(1) * bag(index)).sin().sum().backward()
                assert e.weight.grad.is_sparse
                optimizer.step()
            found.append(np.stack([w.weight.detach().numpy() for w in (e, bag)]))
        np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6, err_msg=name)
