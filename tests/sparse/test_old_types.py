"""``sparse.FloatTensor`` and its kind: constructors and types from before layouts."""

import pytest

import rushlight as rl

INDICES = rl.tensor([[0, 1], [1, 0]])


@pytest.mark.filterwarnings("ignore:torch.sparse.SparseTensor")
def test_an_old_constructor_makes_a_sparse_tensor():
    made = rl.sparse.FloatTensor(INDICES, rl.tensor([1.0, 2.0]), rl.Size([2, 3]))
    assert made.layout is rl.sparse_coo
    assert made.to_dense().tolist() == [[0, 1, 0], [2, 0, 0]]
    assert rl.sparse.DoubleTensor(2, 3).dtype is rl.float64


def test_the_old_constructor_warns(nothing_said_yet):
    with pytest.warns(UserWarning, match="sparse_coo_tensor"):
        rl.sparse.LongTensor(2, 2)


def test_old_types_tell_sparse_from_dense():
    sparse = rl.eye(2).to_sparse()
    assert isinstance(sparse, rl.sparse.FloatTensor)
    assert not isinstance(sparse, (rl.FloatTensor, rl.sparse.DoubleTensor))
    assert not isinstance(rl.eye(2), rl.sparse.FloatTensor)
    assert sparse.type(rl.sparse.DoubleTensor).dtype is rl.float64
