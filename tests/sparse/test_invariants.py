"""Parts of compressed tensors that do not fit each other are refused in PyTorch's words."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

WRONG = {
    "floats": lambda t: (t.tensor([0.0, 2.0]), t.tensor([0, 1]), [1.0, 2.0], (1, 3)),
    "two types": lambda t: (
        t.tensor([0, 2]),
        t.tensor([0, 1]).int(),
        [1.0, 2.0],
        (1, 3),
    ),
    "a size more": lambda t: ([0, 2], [0, 1], [1.0, 2.0], (1, 3, 1)),
    "a dimension more": lambda t: ([0, 2], [[0, 1]], [1.0, 2.0], (1, 3)),
    "a row more": lambda t: ([0, 1, 2], [0, 1], [1.0, 2.0], (1, 3)),
    "a value more": lambda t: ([0, 2], [0, 1], [1.0, 2.0, 3.0], (1, 3)),
    "a batch more": lambda t: ([[0, 1]] * 2, [[0]], [[1.0]], (2, 1, 3)),
    "a number": lambda t: (t.tensor(0), [0], [1.0], (1, 3)),
    "a value for all": lambda t: ([0, 1], [0], t.tensor(1.0), (1, 3)),
    "outside": lambda t: ([0, 2], [0, 7], [1.0, 2.0], (1, 3)),
    "not from zero": lambda t: ([1, 2], [0, 1], [1.0, 2.0], (1, 3)),
    "too few": lambda t: ([0, 3], [0, 1], [1.0, 2.0], (1, 3)),
    "back": lambda t: ([0, 2, 1, 2], [0, 1], [1.0, 2.0], (3, 3)),
    "twice": lambda t: ([0, 2], [1, 1], [1.0, 2.0], (1, 3)),
}


@pytest.mark.parametrize("name", WRONG)
def test_parts_that_do_not_fit_are_refused_in_the_same_words(name):
    words = []
    for t in (rl, torch):
        with pytest.raises(RuntimeError) as caught:
            t.sparse_csr_tensor(*WRONG[name](t), check_invariants=True)
        words.append(str(caught.value).partition("\n")[0])
    assert words[0] == words[1]


def test_blocks_and_batches_that_fit_are_taken():
    blocks = rl.ones(2, 3, 4, 6).to_sparse_bsr((2, 3))
    again = rl.sparse_bsr_tensor(
        blocks.crow_indices(), blocks.col_indices(), blocks.values(), blocks.shape,
        check_invariants=True,
    )  # fmt: skip
    assert again.to_dense().equal(rl.ones(2, 3, 4, 6))
    columns = rl.ones(4, 6, 2).to_sparse_csc(dense_dim=1)
    again = rl.sparse_csc_tensor(
        columns.ccol_indices(), columns.row_indices(), columns.values(), columns.shape,
        check_invariants=True,
    )  # fmt: skip
    assert again.to_dense().equal(rl.ones(4, 6, 2))
